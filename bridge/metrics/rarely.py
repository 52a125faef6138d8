"""Figures that are counted row by row: a scrape gets the last one, and a new one now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridge.ports import Clock

LEAST: Final = 60.0
"""Seconds between two counts, however fast they are. A million rows take a quarter of a second and more."""


class Rarely:
    """A figure that is counted once a minute at most."""

    def __init__(self, count: Callable[[], int], clock: Clock) -> None:
        self._count = count
        self._clock = clock
        self._counted: tuple[float, int] | None = None  # when, in Unix seconds, and what

    def value(self) -> int:
        """The figure, at most a minute old."""
        now = self._clock.now()
        if self._counted is None or not 0 <= now - self._counted[0] < LEAST:
            self._counted = (now, self._count())
        return self._counted[1]
