"""Distinguishes a lagging node from a chain that was reorged to a lower height."""

from __future__ import annotations

from typing import Final

from bridge.protocol.ports import Clock

_PATIENCE: Final = 5.0  # seconds


class MissingBlocks:
    """Measures how long blocks that were read have been missing while no other blocks are at their heights.

    Behind a load balancer, different nodes respond in turn, and some lag by a few blocks. A relayer that
    trusted a lagging node would forget deliveries and repeat them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def are_gone(self, *, is_missing: bool) -> bool:
        """Whether blocks have been missing in every poll for long enough to assume a reorg."""
        if not is_missing:
            self._since = None
            return False
        now = self._clock.now()
        if self._since is None:
            self._since = now
        return now - self._since >= _PATIENCE
