"""How many messages the store knows at most: while it is full, new ones wait on their chain."""

from __future__ import annotations

from typing import Final

import structlog

from bridge.protocol.ports import Clock
from bridge.store.outbox import Outbox

_log = structlog.get_logger(__name__)

_LOOK_EVERY: Final = 5.0  # seconds; what one range of blocks holds meanwhile may exceed the capacity
_FASTEST: Final = 1_000  # messages/s: no relayer takes in more, so a store with much room is rarely counted


class SeenCapacity:
    """Limits how many messages the store knows at once. All observers share it, and a restart keeps it.

    Nothing is pruned to make room: new messages wait on their chain.
    """

    def __init__(self, outbox: Outbox, capacity: int | None, clock: Clock) -> None:
        """`capacity` is in messages; None is no limit."""
        self._outbox = outbox
        self._capacity = capacity
        self._clock = clock
        self._look_at = 0.0
        self._is_full = False

    def is_full(self) -> bool:
        """Whether nothing new may be taken in now."""
        now = self._clock.now()
        if self._capacity is not None and now >= self._look_at:
            room = self._look(self._capacity)
            self._look_at = now + max(_LOOK_EVERY, room / _FASTEST)
        return self._is_full

    def _look(self, capacity: int) -> int:
        seen, was_full = self._outbox.seen(), self._is_full
        self._is_full = seen >= capacity
        if self._is_full and not was_full:
            _log.error(
                "the store is full: no new message is taken in until old ones are forgotten",
                seen=seen,
                capacity=capacity,
            )
        elif was_full and not self._is_full:
            _log.warning("the store has room again: new messages are taken in", seen=seen, capacity=capacity)
        return capacity - seen
