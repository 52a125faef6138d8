"""A GMP's configurable verification: the values in a network file, and the adapter settings that implement them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from bridge.protocol.deployment import FileSection, GmpSection

DEFAULT: Final = "default"
"""Value in a network file that leaves a GMP's verification to the GMP."""

VerificationSection = Literal["default"] | dict[str, Any]
"""Verification of one GMP on one chain in a network file; the GMP's package defines its keys."""

ADAPTER: Final = "0x" + "00" * 20
"""Placeholder for the address of Waybill's adapter, which the plan determines."""


@dataclass(frozen=True, slots=True)
class Step:
    """A setting of the adapter: the call that reads it, the expected result and the call that sets it.

    Functions of other contracts take the adapter as their first argument. Here that argument is zero; the deployment
    script replaces it with the adapter's address.
    """

    name: str
    asked: str  # contract that stores the setting, or `ADAPTER`
    question: bytes
    answer: bytes
    called: str  # contract that sets it, or `ADAPTER`
    call: bytes


@dataclass(frozen=True, slots=True)
class Connection:
    """The lane that a verification applies to: the adapter's owner and the GMP's sections on both chains."""

    owner: str
    here: GmpSection
    there: GmpSection
    chosen_there: VerificationSection


class Verification(FileSection, ABC):
    """A GMP's verification on one chain, from a network file."""

    @classmethod
    def read(cls, section: Mapping[str, Any]) -> Self:
        """Parses a GMP's verification in a network file.

        Raises:
            pydantic.ValidationError: the section lacks a key, or has an unknown key or an invalid value.
        """
        return cls.model_validate(section)

    @property
    @abstractmethod
    def verifiers(self) -> int | None:
        """Returns the minimum number of verifiers that must agree, or None if the configured contract decides."""

    @abstractmethod
    def __str__(self) -> str:
        """Returns a description for plans and reports."""

    @abstractmethod
    def steps(self, connection: Connection) -> Sequence[Step]:
        """Returns the adapter settings that implement the verification for one remote chain."""

    def refusals(self, connection: Connection) -> Iterator[str]:  # noqa: ARG002  # most verifications have none
        """Yields the conflicts with the remote chain's verification, one line each."""
        yield from ()


class ThresholdVerification(Verification):
    """Verification by required verifiers, which must all approve, and optional ones.

    `optional_threshold` of the optional verifiers must approve.
    """

    NOUN: ClassVar[str]
    """The word for a verifier in messages."""

    optional_threshold: int = Field(default=0, ge=0, lt=256)

    @property
    @abstractmethod
    def lists(self) -> tuple[Sequence[str], Sequence[str]]:
        """Returns the required and the optional verifiers."""

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        (required, optional), threshold = self.lists, self.optional_threshold
        chosen = (*required, *optional)
        if not chosen:
            raise ValueError(f"no {self.NOUN} is listed")
        if len(set(chosen)) != len(chosen):
            duplicates = sorted({one for one in chosen if chosen.count(one) > 1})
            raise ValueError(f"{self.NOUN} {', '.join(duplicates)} is listed more than once")
        if threshold > len(optional) or bool(optional) != bool(threshold):
            raise ValueError(
                f"optionalThreshold is {threshold}, but {len(optional)} optional {self.NOUN}(s) are listed"
            )
        return self

    def refusals(self, connection: Connection) -> Iterator[str]:
        """See `Verification.refusals`. A message is stuck if the two ends require different verifiers."""
        there = connection.chosen_there
        if there == DEFAULT:
            yield f"{self.NOUN}s are set on one end and left to the default on the other"
        elif [len(verifiers) for verifiers in self.lists] != [len(verifiers) for verifiers in self.read(there).lists]:
            yield f"the two ends list different numbers of {self.NOUN}s"
