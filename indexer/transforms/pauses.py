"""When lanes and GMPs were paused, from the routers' own events: a message's time does not run meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain as chained
from typing import Any, Final

from indexer.model import schemas

PAUSE_EVENTS: Final = ("LanePauseSet", "GmpPauseSet")

ANY_CHAIN: Final = 0
"""Stands for every lane of a router: pauses of GMPs count for all of them."""

Interval = tuple[int, int]
"""From the first second on and before the second one, Unix seconds."""


class _PauseLog:
    """The pauses of one thing, as the router keeps them (`contracts/types/Pauses.sol`)."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []

    def set(self, now: int, end: int) -> None:
        if self.intervals and self.intervals[-1][1] >= now:
            self.intervals[-1] = (self.intervals[-1][0], end)
        else:
            self.intervals.append((now, end))


def pauses(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The pauses that events tell of.

    Args:
        events: `LanePauseSet` and `GmpPauseSet` of any chains, each chain's in its own order; others are passed over.

    Returns:
        Rows of `schemas.PAUSES`. Of one chain, rows of the kind ``clock`` with `ANY_CHAIN` and with a lane's other chain
        never overlap: together they are when the time of that lane's messages stood still.
    """
    by_chain: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        if event["event"] in PAUSE_EVENTS and event["error"] is None:
            by_chain[event["chain_id"]].append(event)
    return list(chained.from_iterable(_of_chain(chain, found) for chain, found in sorted(by_chain.items())))


def _of_chain(chain: int, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    lanes: dict[int, _PauseLog] = defaultdict(_PauseLog)
    gmps, ends = _PauseLog(), dict[int, int]()
    for event in events:
        if event["event"] == "LanePauseSet":
            lanes[event["chain"]].set(event["block_time"], event["until"])
        else:
            ends[event["gmp"]] = event["until"]
            gmps.set(event["block_time"], max(ends.values()))
    rows = [_row(chain, ANY_CHAIN, "clock", interval) for interval in gmps.intervals]
    for other, lane in sorted(lanes.items()):
        rows += [_row(chain, other, "lane", interval) for interval in lane.intervals]
        rows += [_row(chain, other, "clock", interval) for interval in _without(lane.intervals, gmps.intervals)]
    return [row for row in rows if row["begins"] < row["ends"]]


def _without(intervals: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What of `intervals` lies in none of `others`; both are in order and do not overlap themselves."""
    left: list[Interval] = []
    for begin, end in intervals:
        start = begin
        for other_begin, other_end in others:
            if other_end > start and other_begin < end:
                left.append((start, other_begin))
                start = other_end
        left.append((start, end))
    return [(begin, end) for begin, end in left if begin < end]


def _row(chain: int, other: int, kind: str, interval: Interval) -> dict[str, Any]:
    values = (chain, other, kind, *interval)
    return dict(zip(schemas.PAUSES.names, values, strict=True))
