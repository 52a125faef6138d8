"""How dependable each GMP has been of late, by lane: the best is the one to send or retry over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from indexer.analytics import Lane, percentile

NEWEST: Final = 200  # messages of a GMP and lane that count

UNKNOWN: Final = (-0.5, float("inf"))
"""What `GmpHealth.rank` would be of a GMP that nothing is known of: it may deliver, or not."""


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

    @property
    def rank(self) -> tuple[float, float]:
        """The lower, the better: by the share that it can be expected to deliver, then by how soon.

        Expected is (delivered + 1) / (dispatched + 2), Laplace's rule of succession: one message delivered of one says less
        than 199 of 200.
        """
        return -(self.delivered + 1) / (self.dispatched + 2), self.latency_p50 or 0


def gmp_health(dispatches: Iterable[Dispatch]) -> list[GmpHealth]:
    """By lane, the healthiest first; see `GmpHealth.rank`.

    Args:
        dispatches: the newest first.
    """
    newest: dict[tuple[Lane, int], list[Dispatch]] = defaultdict(list)
    for one in dispatches:
        if len(found := newest[one.lane, one.gmp]) < NEWEST:
            found.append(one)
    health = [_health(lane, gmp, found) for (lane, gmp), found in newest.items()]
    return sorted(health, key=lambda one: (one.lane, one.rank, one.gmp))


def _health(lane: Lane, gmp: int, found: list[Dispatch]) -> GmpHealth:
    seconds = sorted(one.seconds for one in found if one.seconds is not None)
    return GmpHealth(
        lane=lane,
        gmp=gmp,
        dispatched=len(found),
        delivered=len(seconds),
        latency_p50=percentile(seconds, 0.5) if seconds else None,
    )
