"""Bounds how many messages the store holds: while it is full, new ones wait on their chain."""

from __future__ import annotations

from typing import Final

import structlog

from bridge.protocol.ports import Clock
from bridge.store.outbox import Outbox

_log = structlog.get_logger(__name__)

_LOOK_EVERY: Final = 5.0  # seconds; the blocks read in between may exceed the capacity
_FASTEST: Final = 1_000  # messages/s that no relayer exceeds, so a store with much room is rarely counted


class SeenCapacity:
    """Limits how many messages the store holds. All observers share the limit, and it survives a restart.

    Nothing is pruned to make room: new messages wait on their chain.
    """

    def __init__(self, outbox: Outbox, capacity: int | None, clock: Clock) -> None:
        """Stores the dependencies; `capacity` is in messages, None is unlimited."""
        self._outbox = outbox
        self._capacity = capacity
        self._clock = clock
        self._look_at = 0.0
        self._is_full = False

    def is_full(self) -> bool:
        """Whether the store accepts no new message now."""
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
                "store full: new messages wait on their chain until old ones are pruned",
                seen=seen,
                capacity=capacity,
            )
        elif was_full and not self._is_full:
            _log.warning("store has room again", seen=seen, capacity=capacity)
        return capacity - seen
