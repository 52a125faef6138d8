"""Who vouches for a GMP's messages, where the GMP lets an application choose: what a network file says, and how it is set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from bridge.protocol.deployment import FileSection, GmpSection

DEFAULT: Final = "default"
"""What a network file says of a GMP whose verification is left to the GMP."""

ALONE: Final = "one verifier alone"
"""What the deployments file says, in the end, of a GMP whose messages one party can forge."""

VerificationSection = Literal["default"] | dict[str, Any]
"""What a network file says of one GMP's verification on one chain; the GMP's own folder knows what belongs there."""

ADAPTER: Final = "0x" + "00" * 20
"""In place of a contract's address: Waybill's own adapter, whose address follows from the plan."""


@dataclass(frozen=True, slots=True)
class Step:
    """A setting of the adapter: how it is read, what it should be, and the call that sets it.

    Of a contract other than the adapter, functions take the adapter as their first argument. It is zero here, and the script,
    which knows the adapter's address, puts it in.
    """

    name: str
    asked: str  # the contract that knows the setting, or `ADAPTER`
    question: bytes
    answer: bytes
    called: str  # the contract that takes it, or `ADAPTER`
    call: bytes


@dataclass(frozen=True, slots=True)
class Connection:
    """What a verification needs to know of the adapter: its owner, the GMP here, and the GMP on another chain."""

    owner: str
    here: GmpSection
    there: GmpSection
    chosen_there: VerificationSection


class Verification(FileSection, ABC):
    """A GMP's verification on one chain, as a network file names it."""

    @classmethod
    def read(cls, section: Mapping[str, Any]) -> Self:
        """What a network file says.

        Raises:
            pydantic.ValidationError: values are missing, unknown or wrong.
        """
        return cls.model_validate(section)

    @property
    @abstractmethod
    def verifiers(self) -> int | None:
        """How many must agree at least; None: the contract that is named decides."""

    @abstractmethod
    def __str__(self) -> str:
        """Says it in words."""

    @abstractmethod
    def steps(self, connection: Connection) -> Sequence[Step]:
        """The settings that it takes at the adapter, for one other chain."""

    def refusals(self, connection: Connection) -> Iterator[str]:  # noqa: ARG002  # most have none
        """What does not fit the other chain's."""
        yield from ()
