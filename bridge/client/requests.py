"""What a dApp asks for, what it gets, and how it is refused."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.ports import Receipt
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message


class RefusedError(Exception):
    """A contract refused what was asked; the text says which rule."""


class FeeCapError(RefusedError):
    """Its fee is above the cap that was set, and nothing was sent."""


class TtlTooShortError(RefusedError):
    """A message would expire before it could arrive, and nothing was sent."""

    def __init__(self, ttl: int, source: str, finality: float, gmp_time: float) -> None:
        super().__init__(
            f"a TTL of {ttl} s is less than it takes to arrive: {finality:g} s until {source} is final, and {gmp_time:g} s that"
            " a GMP usually takes; give more, or 0 for ever"
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
    min_dispatched: int = 0  # 0: the quorum
    replaces: bytes = bytes(32)
    max_fee: int | None = None  # wei; None: whatever the GMPs ask for


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
    unfunded: bool  # it was created without its fee, and nobody has paid for its dispatch since
    retriable: bool | None  # None: its source was not asked
