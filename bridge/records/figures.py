"""Aggregates over the store, for metrics, limits and health.

Totals never decrease, even when rows are deleted or removed by a reorg: they are read from counters.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.protocol.gmps import Gmp
from bridge.records.transactions import SlotState

LATENCY_BOUNDS: Final = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21_600.0, 86_400.0)
"""Upper bounds of the histogram buckets for delivery times, in seconds."""


class Counted(StrEnum):
    """Kinds of counters. The comments list each kind's labels."""

    OBSERVED = "observed"  # source chain, destination chain, GMP
    DELIVERED = "delivered"  # the same, and the index in LATENCY_BOUNDS
    DELIVERY_SECONDS = "delivery seconds"  # source chain, destination chain, GMP
    FAILED = "failed"  # the same, kind, code
    TRIED_AGAIN = "tried_again"  # source chain, destination chain, GMP
    COMMIT = "commit"  # destination chain, result
    UNRECOGNISED = "unrecognised dispatch"  # source chain
    PUBLISHED = "published"  # stream, or `REFUSED`


CounterKey = tuple[Counted, tuple[Any, ...]]
"""A counter and its labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSum:
    """The nonces of one account in one state."""

    chain_id: int
    account: str
    state: SlotState
    count: int
    oldest: float  # Unix seconds: when the first of them was reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A finished try of a delivery.

    Attributes:
        code: Error code; None if the try succeeded.
    """

    gmp: Gmp
    destination_chain: int
    message_id: bytes
    at: float  # Unix seconds
    code: str | None


def latency_place(seconds: float) -> int:
    """Returns the index of a delivery's duration among `LATENCY_BOUNDS`, or one past the last."""
    return bisect_left(LATENCY_BOUNDS, seconds)
