"""How a worker of one destination shares its room between live traffic, old deliveries and each source and GMP."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from bridge.protocol.gmps import Gmp
from bridge.records.outbox import Claim, LiveTrafficQuota, OutboxEntry
from bridge.records.relay_policy import RelayPolicy

_SHARES: Final = 16  # 1/16 of `in_flight` goes, on top of it, to each idle source and GMP, and to live traffic
_FRESH: Final = 60.0  # seconds: an untried entry is live traffic for so long
_PAUSE: Final = 20  # the pause after a look for idle queues, in multiples of how long it took


class FairQueue:
    """What is under way to one destination, by source chain and GMP.

    Entries are given out in the order in which they are due, so that those of one source and GMP may take all the room there is.
    Whatever has nothing under way then gets a few of its own now and then, and live traffic comes first until it has half of the
    room: so old and failing entries get half of it at least, and no more while live traffic waits.
    """

    def __init__(self, in_flight: int, every: float) -> None:
        """Adds room to `in_flight` every so many seconds; below sixteen deliveries there is none to add."""
        self.size = in_flight // _SHARES
        self._every = every
        self._next_at = 0.0  # Unix seconds
        self._busy: Counter[tuple[Gmp, int]] = Counter()
        self._in_flight = in_flight
        self._half = in_flight // 2
        self._fresh: dict[Claim, OutboxEntry] = {}  # that were when they were taken

    def start(self, entry: OutboxEntry, now: float) -> None:
        """Counts what is under way."""
        self._busy[entry.dispatch.gmp, entry.dispatch.source_chain] += 1
        if entry.is_fresh(now - _FRESH):
            self._fresh[entry.current_claim] = entry

    def ended(self, entry: OutboxEntry) -> None:
        """Counts what is under way no more."""
        self._busy[entry.dispatch.gmp, entry.dispatch.source_chain] -= 1
        self._fresh.pop(entry.current_claim, None)

    def of_fresh(self, active: int, now: float) -> LiveTrafficQuota:
        """What live traffic gets before all others beside so many under way; now and then a few where there is no room.

        Never is so much under way that it is half as much again as there is room for.
        """
        since = now - _FRESH
        live = sum(entry.is_fresh(since) for entry in self._fresh.values())  # what takes long is live no more
        room = max(0, self._in_flight - active) + (self.size if self.are_due(now) else 0)
        most = self._in_flight + self._half - active
        return LiveTrafficQuota(max(0, min(self._half - live, room, most)), since)

    def are_due(self, now: float) -> bool:
        """Whether others than the oldest entries have their turn."""
        return self.size > 0 and now >= self._next_at

    def given(self, began: float, now: float) -> None:
        """Notes that they had it. To look past a long backlog takes its time, of which that may have a small part only."""
        self._next_at = now + max(self._every, _PAUSE * (now - began))

    def without_busy(self, accepts: RelayPolicy, gmp: Gmp) -> RelayPolicy:
        """What is accepted, less the sources of which that GMP has something under way."""
        busy = {source for (other, source), count in self._busy.items() if other is gmp and count}
        return replace(accepts, withheld_sources=accepts.withheld_sources | busy)
