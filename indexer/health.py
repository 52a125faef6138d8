"""How dependable each GMP has been of late, by lane: the best is the one to send or retry over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from indexer.analytics import Lane, percentile

NEWEST: Final = 200  # messages of a GMP and lane that count


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A message that a GMP took, long enough ago to have been delivered."""

    lane: Lane
    gmp: int
    seconds: int | None  # from the route to its receipt; None: silent


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpHealth:
    """How a GMP has done with the newest messages of a lane.

    Attributes:
        dispatched: messages that it took, at most `NEWEST`.
        delivered: of these.
        latency_p50: seconds from the route to the receipt; None if none was delivered.
    """

    lane: Lane
    gmp: int
    dispatched: int
    delivered: int
    latency_p50: int | None


def gmp_health(dispatches: Iterable[Dispatch]) -> list[GmpHealth]:
    """By lane, the healthiest first: by the share that it delivered, then by how soon.

    Args:
        dispatches: the newest first.
    """
    newest: dict[tuple[Lane, int], list[Dispatch]] = defaultdict(list)
    for one in dispatches:
        if len(found := newest[one.lane, one.gmp]) < NEWEST:
            found.append(one)
    health = [_health(lane, gmp, found) for (lane, gmp), found in newest.items()]
    return sorted(health, key=lambda one: (one.lane, -one.delivered / one.dispatched, one.latency_p50 or 0, one.gmp))


def _health(lane: Lane, gmp: int, found: list[Dispatch]) -> GmpHealth:
    seconds = sorted(one.seconds for one in found if one.seconds is not None)
    return GmpHealth(
        lane=lane,
        gmp=gmp,
        dispatched=len(found),
        delivered=len(seconds),
        latency_p50=percentile(seconds, 0.5) if seconds else None,
    )
