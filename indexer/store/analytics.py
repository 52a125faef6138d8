"""What redundancy brought and what it took: who delivered first, who in vain, and how fewer GMPs would have done."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

Lane = tuple[int, int]
"""Source and destination chain."""

STAGES: Final = ("attested", "delivered", "quorum", "executed", "final")
"""The attestation of the delivery that came first; its receipt; as many receipts as the message needed; execution; its finality."""

_MOST_IN_SETS: Final = 5  # GMPs of which sets are made: 16 would make 65,535


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpReceipt:
    """One GMP's receipt of a message; times are of blocks, Unix seconds."""

    message_id: bytes
    lane: Lane
    gmp: int
    dispatched: frozenset[int]  # the GMPs that took the message
    quorum: int
    source_time: int
    dispatched_time: int  # of the first attempt in which the GMP took it
    received_time: int
    executed_time: int | None
    final_time: int | None  # when the execution became final, if the index looked on
    was_late: bool  # the message had been executed before
    transaction: bytes  # that delivered it, on the destination
    source_transaction: bytes  # that routed the message
    retried: bool  # the message, at any time


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpShare:
    """What one GMP contributed.

    Attributes:
        receipts: messages that it delivered.
        first: of these, how many nobody had delivered before.
        lead_p50: seconds by which it was first, at the median, where another one followed.
        late: of `receipts`, how many came when the message was executed already: redundancy that was paid for.
        latency_p50: seconds from the first attempt in which it took the message to its receipt.
        latency_p95: the same.
    """

    gmp: int
    receipts: int
    first: int
    lead_p50: float | None
    late: int
    latency_p50: int
    latency_p95: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How long messages of a lane took to get somewhere, in seconds of block time; to the attestation, by the relayer's clock.

    Attributes:
        lane: the lane.
        stage: one of `STAGES`.
        messages: of which it is known.
        p50: seconds from the route; None if it is known of none, though some must have got there or will.
        p95: the same.
        p99: the same.
    """

    lane: Lane
    stage: str
    messages: int
    p50: int | None
    p95: int | None
    p99: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """How the messages that went over all GMPs of a set would have done with these alone, at the same quorum.

    Attributes:
        gmps: the set.
        quorum: that is asked of it.
        messages: that went over all of them.
        reached: of these, how many would have had their quorum.
        latency_p50: seconds until then, each GMP's counted from when it first took the message; None if none would.
        latency_p95: the same.
        deliveries: that would have been paid for.
        saved: deliveries of other GMPs that would not.
        gas_paid: wei for the gas of these deliveries; None if nobody asked the chains what it was.
        gas_saved: wei for that of the others.
    """

    gmps: tuple[int, ...]
    quorum: int
    messages: int
    reached: int
    latency_p50: int | None
    latency_p95: int | None
    deliveries: int
    saved: int
    gas_paid: int | None = None
    gas_saved: int | None = None


def percentile(ascending: Sequence[int], share: float) -> int:
    """The nearest-rank percentile of a sorted sequence that is not empty."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def gmps_in_sets(deliveries: Iterable[GmpReceipt]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The GMPs of which `alternatives` makes sets, those that took the most messages, and those that it leaves out."""
    taken = Counter(gmp for received in _by_message(deliveries).values() for gmp in received[0].dispatched)
    order = sorted(taken, key=lambda gmp: (-taken[gmp], gmp))
    return tuple(sorted(order[:_MOST_IN_SETS])), tuple(sorted(order[_MOST_IN_SETS:]))


def alternatives(
    deliveries: Iterable[GmpReceipt], gas_paid: Mapping[tuple[bytes, int], int] | None = None
) -> list[Alternative]:
    """What every smaller set of the GMPs in use, of `gmps_in_sets`, would have cost and gained, the smallest first.

    Args:
        deliveries: of some messages, all that there are of each.
        gas_paid: wei by message and GMP, where the chains were asked for it.
    """
    known = list(deliveries)
    messages = list(_by_message(known).values())
    gmps, _ = gmps_in_sets(known)
    found = []
    for size in range(1, len(gmps) + 1):
        for chosen in combinations(gmps, size):
            concerned = [received for received in messages if received[0].dispatched >= set(chosen)]
            for quorum in sorted({received[0].quorum for received in concerned if received[0].quorum <= size}):
                same = [received for received in concerned if received[0].quorum == quorum]
                found.append(_alternative(chosen, quorum, same, gas_paid))
    return found


def _alternative(
    chosen: tuple[int, ...],
    quorum: int,
    messages: Sequence[Sequence[GmpReceipt]],
    gas_paid: Mapping[tuple[bytes, int], int] | None,
) -> Alternative:
    seconds, deliveries, saved = [], 0, 0
    wei = {True: 0, False: 0}
    for received in messages:
        times = sorted(one.received_time - one.dispatched_time for one in received if one.gmp in chosen)
        deliveries += len(times)
        saved += len(received) - len(times)
        for one in received:
            wei[one.gmp in chosen] += (gas_paid or {}).get((one.message_id, one.gmp), 0)
        if len(times) >= quorum:
            seconds.append(times[quorum - 1])
    seconds.sort()
    return Alternative(
        gmps=chosen,
        quorum=quorum,
        messages=len(messages),
        reached=len(seconds),
        latency_p50=percentile(seconds, 0.5) if seconds else None,
        latency_p95=percentile(seconds, 0.95) if seconds else None,
        deliveries=deliveries,
        saved=saved,
        gas_paid=None if gas_paid is None else wei[True],
        gas_saved=None if gas_paid is None else wei[False],
    )


def _by_message(deliveries: Iterable[GmpReceipt]) -> Mapping[bytes, list[GmpReceipt]]:
    found: dict[bytes, list[GmpReceipt]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.message_id].append(delivery)
    return found
