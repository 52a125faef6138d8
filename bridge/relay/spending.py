"""What deliveries may cost per day: a lane whose limit is reached waits until midnight UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import structlog

from bridge.ports import Clock
from bridge.records.acceptance import Acceptance
from bridge.records.figures import Figures

_log = structlog.get_logger(__name__)

DAY: Final = 86_400
_LOOK_EVERY: Final = 5.0  # seconds; what is claimed meanwhile may exceed the limit


class SpendBudget:
    """The limits of the lanes towards one destination. What was committed is in the store, so that no restart forgets it."""

    def __init__(
        self, destination_chain: int, limits: Mapping[tuple[int, int], int], figures: Figures, clock: Clock
    ) -> None:
        """`limits` are in wei per day, by source and destination."""
        self._limits = {
            source: wei for (source, destination), wei in limits.items() if destination == destination_chain
        }
        self._destination = destination_chain
        self._figures = figures
        self._clock = clock
        self._looked_at: float | None = None
        self._exhausted: frozenset[int] = frozenset()

    def affordable(self, accepts: Acceptance) -> Acceptance:
        """What is accepted, less the lanes that have cost enough today."""
        if not self._limits:
            return accepts
        now = self._clock.now()
        if self._looked_at is None or now - self._looked_at >= _LOOK_EVERY or now // DAY != self._looked_at // DAY:
            self._look(now)
        return replace(accepts, withheld_sources=accepts.withheld_sources | self._exhausted)

    def _look(self, now: float) -> None:
        committed = {
            one.source_chain: one.wei
            for one in self._figures.committed(now - now % DAY)
            if one.destination_chain == self._destination
        }
        exhausted = frozenset(source for source, limit in self._limits.items() if committed.get(source, 0) >= limit)
        for source in exhausted - self._exhausted:
            _log.error(
                "spend limit of the day reached: deliveries wait until midnight UTC",
                source=source,
                destination=self._destination,
                committed=committed[source],
                limit=self._limits[source],
            )
        self._exhausted, self._looked_at = exhausted, now
