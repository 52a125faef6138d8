"""Limits the number of messages in the store. While the store is full, new messages stay on chain.

One sender may use up to three quarters of the capacity. Its further messages then stay on chain, while those of
other senders are recorded.
"""

from __future__ import annotations

from typing import Final

import structlog

from bridge.protocol.ports import Clock
from bridge.store.outbox import Outbox

_log = structlog.get_logger(__name__)

_LOOK_EVERY: Final = 5.0  # seconds; the blocks read in between may exceed the capacity
_FASTEST: Final = 1_000  # messages/s that no relayer exceeds, so a store with much room is rarely counted
_PAUSE: Final = 20  # pause after a count, in multiples of its duration: it may go through millions of rows
_SHARES: Final = 4  # one of them is for others than the sender with the most messages


class SeenCapacity:
    """Limits the number of messages in the store. All observers share the limit, and it survives a restart.

    Nothing is pruned to make room: new messages stay on chain.
    """

    def __init__(self, outbox: Outbox, capacity: int | None, clock: Clock) -> None:
        """Stores the dependencies; `capacity` is in messages, None is unlimited."""
        self._outbox = outbox
        self._capacity = capacity
        self._clock = clock
        self._look_at = 0.0
        self._is_full = False
        self._crowding = frozenset[bytes]()

    def is_full(self) -> bool:
        """Whether the store accepts no new messages now."""
        self._look_again()
        return self._is_full

    def crowding(self) -> frozenset[bytes]:
        """Returns the senders (32 bytes) that have used up their share.

        The store accepts no new messages from them now.
        """
        self._look_again()
        return self._crowding

    def _look_again(self) -> None:
        now = self._clock.now()
        if self._capacity is not None and now >= self._look_at:
            room = self._look(self._capacity)
            duration = self._clock.now() - now
            self._look_at = now + max(_LOOK_EVERY, room / _FASTEST, _PAUSE * duration)

    def _look(self, capacity: int) -> int:
        """Counts the messages in the store; returns the number of messages to accept before the next count."""
        seen, was_full = self._outbox.seen(), self._is_full
        share = max(1, capacity - max(1, capacity // _SHARES))
        self._note_crowding(seen, share)
        self._is_full = seen >= capacity
        if self._is_full and not was_full:
            _log.error(
                "store full: new messages stay on chain until old ones are pruned",
                seen=seen,
                capacity=capacity,
            )
        elif was_full and not self._is_full:
            _log.warning("store has room again", seen=seen, capacity=capacity)
        return (capacity if self._crowding else share) - seen

    def _note_crowding(self, seen: int, share: int) -> None:
        """Records which senders have used up their share.

        To avoid flapping, a sender is released only once some of its share is free again.
        """
        before = self._crowding
        least = max(1, share - share // _SHARES) if before else share
        counts = self._outbox.seen_by_sender(least) if seen >= least else {}
        self._crowding = frozenset(one for one, count in counts.items() if count >= share or one in before)
        for sender in sorted(self._crowding - before):
            _log.error(
                "sender has used up its share of the store: its new messages stay on chain until old ones are pruned",
                sender=f"0x{sender.hex()}",
                seen=counts[sender],
                share=share,
            )
        for sender in sorted(before - self._crowding):
            _log.warning("store has room for the sender again", sender=f"0x{sender.hex()}")
