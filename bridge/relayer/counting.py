"""Counters that no row shows: kept in memory, and added to the store's every few seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from bridge.domain.figures import CounterKey, Counters

COUNTING_EVERY: Final = 5.0
"""Seconds between two writings; a process that is killed loses so much of its counts."""


class ProcessCounters:
    """Adds to the store what was counted since it was last written."""

    def __init__(self, counters: Counters) -> None:
        """`counters` are those of the store."""
        self._counters = counters
        self._written: Counter[CounterKey] = Counter()
        self.sources: list[Callable[[], Counter[CounterKey]]] = []
        """Each gives what it has counted since the process started."""

    async def write(self) -> bool:
        """Writes; there is never more to write at once.

        Raises:
            StoreBusyError: nothing was written, and all of it will be the next time.
        """
        now: Counter[CounterKey] = Counter()
        for source in self.sources:
            now.update(source())
        self._counters.add(now - self._written)
        self._written = now
        return False
