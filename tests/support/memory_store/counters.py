"""Numbers that only grow, in memory: each is counted when it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bridge.domain.figures import Counted, CounterKey


class MemoryCounters:
    """See `bridge.domain.figures.Counters`."""

    def __init__(self) -> None:
        self._counts: Counter[CounterKey] = Counter()

    def add(self, counts: Mapping[CounterKey, float]) -> None:
        self._counts.update({key: amount for key, amount in counts.items() if amount})

    def counted(self, what: Counted) -> dict[tuple[int | str, ...], float]:
        return {labels: value for (kind, labels), value in sorted(self._counts.items()) if kind is what}
