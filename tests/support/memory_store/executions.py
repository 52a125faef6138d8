"""Executions that are waited for, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from bridge.domain.executions import FIRST_LOOK, UNENDED, AwaitedExecution, ExecutionState
from bridge.domain.lanes import Lane
from bridge.domain.observations import ObservedMessage


class MemoryExecutions:
    """See `bridge.domain.executions.Executions`."""

    def __init__(self) -> None:
        self._all: dict[bytes, AwaitedExecution] = {}
        self._find: Callable[[bytes], ObservedMessage | None] = lambda _: None

    def look_up_by(self, find: Callable[[bytes], ObservedMessage | None]) -> None:
        """Has messages looked up that way."""
        self._find = find

    def note(self, message_id: bytes, now: float) -> None:
        observed = self._find(message_id)
        if observed is not None:
            self.delivered(message_id, Lane(observed.message.source_chain, observed.message.destination_chain), now)

    def due(self, now: float, limit: int) -> list[AwaitedExecution]:
        found = [one for one in self._all.values() if one.state in UNENDED and one.next_at <= now]
        return sorted(found, key=lambda one: (one.next_at, one.message_id))[:limit]

    def save(self, changed: AwaitedExecution, *, fence: int) -> bool:
        known = self._all.get(changed.message_id)
        if known is None or known.fence != fence:
            return False
        self._all[changed.message_id] = changed
        return True

    def of_message(self, message_id: bytes) -> AwaitedExecution | None:
        return self._all.get(message_id)

    def counts(self) -> Mapping[Lane, Mapping[ExecutionState, int]]:
        found: dict[Lane, Counter[ExecutionState]] = {}
        for one in self._all.values():
            found.setdefault(one.lane, Counter())[one.state] += 1
        return found

    def delivered(self, message_id: bytes, lane: Lane, now: float) -> None:
        """Notes a delivery that did not execute its message; for the outbox."""
        known = self._all.get(message_id)
        self._all[message_id] = (
            _delivered_again(known, now)
            if known is not None
            else AwaitedExecution(
                message_id=message_id,
                source_chain=lane.source_chain,
                destination_chain=lane.destination_chain,
                since=now,
                next_at=now + FIRST_LOOK,
            )
        )

    def executed(self, message_id: bytes) -> None:
        """Notes a delivery that did; for the outbox."""
        if message_id in self._all:
            self._all[message_id] = self._all[message_id].ended()

    def forget(self, message_ids: Collection[bytes]) -> None:
        """Lets go of those that have ended; for the outbox."""
        for message_id in message_ids:
            if message_id in self._all and self._all[message_id].state not in UNENDED:
                del self._all[message_id]

    def take_back(self, chain_id: int, last_good: int, now: float) -> None:
        """Looks again at what was seen in blocks that fell; for the observations."""
        for message_id, one in self._all.items():
            if one.destination_chain == chain_id and one.seen is not None and one.seen.number > last_good:
                self._all[message_id] = _taken_back(one, now)


def _delivered_again(one: AwaitedExecution, now: float) -> AwaitedExecution:
    """Looked at soon, since a delivery was noted that did not execute it; whoever looks at it now writes nothing any more."""
    soon = replace(one, next_at=now + FIRST_LOOK, fence=one.fence + 1)
    return soon if one.state in UNENDED else replace(soon, state=ExecutionState.WAITING, since=now, seen=None)


def _taken_back(one: AwaitedExecution, now: float) -> AwaitedExecution:
    """Looked at again, since the block fell in which it was seen ended."""
    state = one.state if one.state in UNENDED else ExecutionState.WAITING
    return replace(one, state=state, seen=None, next_at=now, fence=one.fence + 1)
