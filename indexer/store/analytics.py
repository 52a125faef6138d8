"""What redundancy brought and what it took: who delivered first, who in vain, and how fewer GMPs would have done."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Final

Lane = tuple[int, int]
"""Source and destination chain."""

STAGES: Final = ("attested", "delivered", "quorum", "executed", "final")
"""The proof of the delivery that came first; its receipt; as many receipts as the message needed; execution; its finality."""

_MOST_IN_SETS: Final = 5  # GMPs of which sets are made: 16 would make 65,535


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One GMP's receipt of a message; times are of blocks, Unix seconds."""

    message_id: bytes
    lane: Lane
    gmp: int
    dispatched: frozenset[int]  # the GMPs that took the message
    quorum: int
    source_time: int
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
        latency_p50: seconds from the route to its receipt.
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
    """How long messages of a lane took to get somewhere, in seconds of block time; to the proof, by the relayer's clock.

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
        latency_p50: seconds until then; None if none would.
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


def gmp_shares(deliveries: Iterable[Delivery]) -> list[GmpShare]:
    """Who delivered, who first, and who in vain; by GMP."""
    by_gmp: dict[int, list[Delivery]] = defaultdict(list)
    leads: dict[int, list[int]] = defaultdict(list)
    first: dict[int, int] = defaultdict(int)
    for received in _by_message(deliveries).values():
        order = sorted(received, key=lambda one: (one.received_time, one.gmp))
        first[order[0].gmp] += 1
        if len(order) > 1:
            leads[order[0].gmp].append(order[1].received_time - order[0].received_time)
        for one in order:
            by_gmp[one.gmp].append(one)
    return [_share(gmp, found, first[gmp], leads[gmp]) for gmp, found in sorted(by_gmp.items())]


def _share(gmp: int, found: Sequence[Delivery], first: int, leads: Sequence[int]) -> GmpShare:
    seconds = sorted(one.received_time - one.source_time for one in found)
    return GmpShare(
        gmp=gmp,
        receipts=len(found),
        first=first,
        lead_p50=median(leads) if leads else None,
        late=sum(one.was_late for one in found),
        latency_p50=percentile(seconds, 0.5),
        latency_p95=percentile(seconds, 0.95),
    )


def stages(deliveries: Iterable[Delivery], attested: Mapping[tuple[bytes, int], float] | None = None) -> list[Stage]:
    """How long messages took to each of `STAGES`, by lane.

    Args:
        deliveries: of some messages, all that there are of each.
        attested: when proofs were there (Unix seconds), by message and GMP; None if nobody knows.

    Returns:
        "attested" unless `attested` is None, and "final" of lanes with executions, even if they are known of no message.
    """
    seconds: dict[tuple[Lane, str], list[int]] = defaultdict(list)
    for received in _by_message(deliveries).values():
        some = min(received, key=lambda one: (one.received_time, one.gmp))
        times = sorted(one.received_time - some.source_time for one in received)
        seconds[some.lane, "delivered"].append(times[0])
        if attested is not None:
            proven = seconds[some.lane, "attested"]
            if (at := attested.get((some.message_id, some.gmp))) is not None:
                proven.append(max(0, math.floor(at) - some.source_time))  # two clocks: the chain's may be ahead
        if len(times) >= some.quorum:
            seconds[some.lane, "quorum"].append(times[some.quorum - 1])
        if some.executed_time is not None:
            seconds[some.lane, "executed"].append(some.executed_time - some.source_time)
            final = seconds[some.lane, "final"]
            if some.final_time is not None:
                final.append(some.final_time - some.source_time)
    order = sorted(seconds, key=lambda key: (key[0], STAGES.index(key[1])))
    return [_stage(lane, stage, sorted(seconds[lane, stage])) for lane, stage in order]


def _stage(lane: Lane, stage: str, ascending: Sequence[int]) -> Stage:
    p50, p95, p99 = (percentile(ascending, share) if ascending else None for share in (0.5, 0.95, 0.99))
    return Stage(lane=lane, stage=stage, messages=len(ascending), p50=p50, p95=p95, p99=p99)


def gmps_in_sets(deliveries: Iterable[Delivery]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The GMPs of which `alternatives` makes sets, those that took the most messages, and those that it leaves out."""
    taken = Counter(gmp for received in _by_message(deliveries).values() for gmp in received[0].dispatched)
    order = sorted(taken, key=lambda gmp: (-taken[gmp], gmp))
    return tuple(sorted(order[:_MOST_IN_SETS])), tuple(sorted(order[_MOST_IN_SETS:]))


def alternatives(
    deliveries: Iterable[Delivery], gas_paid: Mapping[tuple[bytes, int], int] | None = None
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
    messages: Sequence[Sequence[Delivery]],
    gas_paid: Mapping[tuple[bytes, int], int] | None,
) -> Alternative:
    seconds, deliveries, saved = [], 0, 0
    wei = {True: 0, False: 0}
    for received in messages:
        times = sorted(one.received_time - one.source_time for one in received if one.gmp in chosen)
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


def _by_message(deliveries: Iterable[Delivery]) -> Mapping[bytes, list[Delivery]]:
    found: dict[bytes, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        found[delivery.message_id].append(delivery)
    return found
