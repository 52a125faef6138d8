"""Divides the capacity of one destination's worker between live traffic and backlog, and between sources and GMPs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from bridge.protocol.gmps import Gmp
from bridge.records.outbox import Claim, LiveTrafficQuota, OutboxEntry
from bridge.records.relay_policy import RelayPolicy

_SHARES: Final = 16  # each idle source and GMP, and live traffic, get an extra 1/16 of `in_flight`
_FRESH: Final = 60.0  # seconds for which an untried entry counts as live traffic
_PAUSE: Final = 20  # pause after a scan for idle queues, in multiples of the scan's duration


class FairQueue:
    """Counts the deliveries in progress to one destination by source chain and GMP.

    Entries are claimed in the order in which they are due, so a single source and GMP may use all the capacity.
    Sources and GMPs with nothing in progress therefore get a few extra slots periodically. Live traffic has
    priority up to half of the capacity; backlog and failing entries get at least the other half, and no more
    than that while live traffic waits.
    """

    def __init__(self, in_flight: int, every: float) -> None:
        """Creates the queue for `in_flight` concurrent deliveries.

        Extra slots are granted every `every` seconds, but never if `in_flight` is below sixteen.
        """
        self.size = in_flight // _SHARES
        self._every = every
        self._next_at = 0.0  # Unix seconds
        self._busy: Counter[tuple[Gmp, int]] = Counter()
        self._in_flight = in_flight
        self._half = in_flight // 2
        self._fresh: dict[Claim, OutboxEntry] = {}  # entries that were live when claimed

    def start(self, entry: OutboxEntry, now: float) -> None:
        """Counts an entry whose delivery starts."""
        self._busy[entry.dispatch.gmp, entry.dispatch.source_chain] += 1
        if entry.is_fresh(now - _FRESH):
            self._fresh[entry.current_claim] = entry

    def ended(self, entry: OutboxEntry) -> None:
        """Stops counting an entry whose delivery has ended."""
        self._busy[entry.dispatch.gmp, entry.dispatch.source_chain] -= 1
        self._fresh.pop(entry.current_claim, None)

    def of_fresh(self, active: int, now: float) -> LiveTrafficQuota:
        """Returns how many live entries may be claimed first while `active` deliveries are in progress.

        When all slots are taken, a few extra ones are granted periodically. The total never exceeds one and a
        half times the capacity.
        """
        since = now - _FRESH
        live = sum(entry.is_fresh(since) for entry in self._fresh.values())  # a slow delivery stops being live
        room = max(0, self._in_flight - active) + (self.size if self.are_due(now) else 0)
        most = self._in_flight + self._half - active
        return LiveTrafficQuota(max(0, min(self._half - live, room, most)), since)

    def are_due(self, now: float) -> bool:
        """Whether sources and GMPs with nothing in progress are due for their turn."""
        return self.size > 0 and now >= self._next_at

    def given(self, began: float, now: float) -> None:
        """Records that those sources and GMPs had their turn.

        Scanning past a long backlog takes time, so the wait for the next turn is proportional to it.
        """
        self._next_at = now + max(self._every, _PAUSE * (now - began))

    def without_busy(self, accepts: RelayPolicy, gmp: Gmp) -> RelayPolicy:
        """Narrows `accepts` to the sources that have nothing in progress over that GMP."""
        busy = {source for (other, source), count in self._busy.items() if other is gmp and count}
        return replace(accepts, withheld_sources=accepts.withheld_sources | busy)
