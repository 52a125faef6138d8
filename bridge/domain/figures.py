"""Sums over what the bridge remembers: for metrics, limits and health. Reading them changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from bridge.domain.failures import FailureKind
from bridge.domain.transactions import SlotState
from bridge.protocol.gmps import Gmp

LATENCY_BOUNDS: Final = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0, 86_400.0)
"""Upper bounds in seconds into which the times of deliveries are sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySum:
    """The deliveries of one lane and GMP.

    Attributes:
        within: for each of `LATENCY_BOUNDS`, how many took at most so long, from observed to delivered.
        seconds: what all of them took together.
    """

    source_chain: int
    destination_chain: int
    gmp: Gmp
    count: int
    within: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSum:
    """The tries of one lane and GMP that failed in one way."""

    source_chain: int
    destination_chain: int
    gmp: Gmp
    kind: FailureKind
    code: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSum:
    """The nonces of one account in one state."""

    chain_id: int
    account: str
    state: SlotState
    count: int
    oldest: float  # Unix seconds: when the first of them was reserved


class TransactionOutcome(StrEnum):
    """What a used nonce was good for."""

    SUCCEEDED = "SUCCEEDED"
    REVERTED = "REVERTED"  # paid for, and changed nothing
    NOOP = "NOOP"  # closed by a no-op
    USED_EXTERNALLY = "USED_EXTERNALLY"  # used by a transaction that was signed elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSum:
    """The used nonces of one account that ended in one way."""

    chain_id: int
    account: str
    outcome: TransactionOutcome
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One try of a delivery that ended.

    Attributes:
        code: how it failed, None if it delivered.
    """

    gmp: Gmp
    destination_chain: int
    message_id: bytes
    at: float  # Unix seconds
    code: str | None


class Figures(Protocol):
    """Where they come from. Every method is one transaction that only reads."""

    def deliveries(self) -> list[DeliverySum]:
        """What was delivered, ever."""

    def failures(self) -> list[FailureSum]:
        """What failed, ever."""

    def slots(self) -> list[SlotSum]:
        """Where our nonces are."""

    def transactions(self) -> list[TransactionSum]:
        """What our used nonces were good for."""

    def recent(self, since: float) -> Sequence[Tried]:
        """Every try that ended after that moment (Unix seconds), the oldest first."""

    def attested(self, message_ids: Collection[bytes]) -> Mapping[tuple[bytes, Gmp], float]:
        """When the GMP's parties had attested, by message and GMP: the first moment (Unix seconds) at which its proof was here.

        A nonce is reserved for a delivery as soon as its proof is. Those that needed none, since somebody else delivered, are
        left out.
        """
