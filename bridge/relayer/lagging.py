"""Tells a node that is behind from a chain that got shorter."""

from __future__ import annotations

from typing import Final

from bridge.protocol.ports import Clock

_PATIENCE: Final = 5.0  # seconds


class MissingBlocks:
    """How long blocks that were read have been missing without others in their place.

    Behind a load balancer, one node answers after another, and some are a few blocks late. To take a late node's word for it
    would forget deliveries, and make them again.
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
