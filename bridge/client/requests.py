"""What a dApp asks for, what it gets, and how it is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from bridge.domain.ports import Receipt
from bridge.protocol.contracts import Revert, decode_revert, explain_revert
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import MOST_GAS, Kind, Message


class RefusedError(Exception):
    """A contract refused what was asked; the text says which rule, and what to do where that is known.

    Attributes:
        revert: the decoded refusal, or None if there was no reason or it is unknown.
    """

    revert: Revert | None = None

    @classmethod
    def of(cls, what: str, data: bytes) -> Self:
        """What was refused, by the revert data."""
        revert = decode_revert(data)
        advice = f"; {revert.advice}" if revert and revert.advice else ""
        error = cls(f"{what}: {explain_revert(data)}{advice}")
        error.revert = revert
        return error


class FeeCapError(RefusedError):
    """Its fee is above the cap that was set, and nothing was sent."""


class NothingToRetryError(RefusedError):
    """The message has ended on its destination, so that a retry would cost its fee and change nothing; nothing was sent."""

    def __init__(self, message_id: bytes, destination: str, *, executed: bool) -> None:
        how = "was executed" if executed else "expired or was cancelled"
        super().__init__(
            f"message 0x{message_id.hex()} {how} on {destination}: a retry would cost its fee and change nothing"
        )


class TtlTooShortError(RefusedError):
    """A message would expire before it could arrive, and nothing was sent."""

    def __init__(self, ttl: int, source: str, finality: float, gmp_time: float) -> None:
        super().__init__(
            f"a TTL of {ttl} s is less than it takes to arrive: {finality:g} s until {source} is final, and {gmp_time:g} s that"
            " a GMP usually takes; give more, or 0 for ever"
        )


class TooMuchGasError(RefusedError):
    """Relayers would not give its execution so much gas, and nothing was sent."""

    def __init__(self, needed: int, most: int, *, length: int, by: str) -> None:
        super().__init__(
            f"its execution needs about {needed} gas ({by}, a payload of {length} bytes), and relayers give a transaction at most"
            f" {most}: it would arrive and never be executed; send less, or raise max_gas if your relayer gives more"
        )


class NotIncludedError(Exception):
    """A transaction was handed to the chain, and no block includes it yet."""


class UnknownMessageError(LookupError):
    """No chain of the network has created a message with that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """A message to send, and how."""

    destination: int | str  # chain id or name
    recipient: str
    payload: bytes
    gmps: tuple[Gmp, ...]
    quorum: int | None = None  # None: every GMP named
    gas_limit: int = 200_000  # gas
    ttl: int = 0  # seconds; 0 = never expires
    kind: Kind = Kind.PLAIN
    retriable: bool = True
    min_dispatched: int = 0  # 0: all of them
    replaces: bytes = bytes(32)  # the first message of a chain of re-issues; zero: none
    max_fee: int | None = None  # wei; None: whatever the GMPs ask for
    max_gas: int | None = MOST_GAS  # gas that relayers give a transaction at most; None: whatever it needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message that a chain has taken, or taken again."""

    message: Message
    attempt: int
    gmps: frozenset[Gmp]  # those that took it
    failed: frozenset[Gmp]  # those that were asked and did not
    fee: int  # wei
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Created:
    """A message, as the chain tells that created it."""

    message: Message
    unfunded: bool  # it was created without its fee, and nobody has funded it since
    retriable: bool | None  # None: its source was not asked
