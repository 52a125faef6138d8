"""The pending sync queue in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bridge.domain.lanes import Lane
from bridge.domain.merkle import prove
from bridge.domain.pending_sync import (
    LOOKED_BACK,
    UNRESOLVED,
    ArchivedRecord,
    Heartbeat,
    PendingSync,
    PrimaryRecord,
    Segment,
    SyncProgress,
    SyncState,
)
from bridge.protocol.message import Kind
from tests.support.memory_store.observations import MemoryObservations


class MemoryPendingSyncs:
    """See `bridge.domain.pending_sync.PendingSyncs`."""

    def __init__(self, observations: MemoryObservations) -> None:
        self._observations = observations
        observations.when_rewound(self._take_back)
        self._all: dict[bytes, PendingSync] = {}
        self._heartbeats: dict[Lane, Heartbeat] = {}
        self._segments: list[tuple[Segment, list[PrimaryRecord]]] = []

    def collect(self, kinds: frozenset[Kind], after: int) -> int:
        archived = {record.message_id for _, records in self._segments for record in records}
        known = list(reversed(self._observations.messages(limit=10**9)))
        for observed in known[max(after - LOOKED_BACK, 0) :]:
            attempts = self._observations.attempts(observed.message_id)
            followed = observed.message_id in self._all or observed.message_id in archived
            if followed or not attempts or observed.message.kind not in kinds:
                continue
            record = PrimaryRecord.of(observed.message, attempts[0], observed.observed_at)
            self._all[observed.message_id] = PendingSync(record=record, next_at=observed.observed_at)
        return len(known)

    def due(self, now: float, limit: int) -> list[PendingSync]:
        found = [
            one
            for one in self._sorted()
            if one.state in UNRESOLVED and one.next_at <= now and self._observations.attempts(one.record.message_id)
        ]
        return found[:limit]

    def save(self, changed: PendingSync, *, fence: int) -> bool:
        if self._all[changed.record.message_id].fence != fence:
            return False
        self._all[changed.record.message_id] = changed
        return True

    def of_message(self, message_id: bytes) -> PendingSync | None:
        return self._all.get(message_id)

    def unresolved(self, state: SyncState | None = None, limit: int = 100) -> list[PendingSync]:
        wanted = UNRESOLVED if state is None else {state}
        return [one for one in self._sorted() if one.state in wanted][:limit]

    def progress(self, now: float) -> Mapping[Lane, SyncProgress]:
        lanes: dict[Lane, list[PendingSync]] = {}
        for one in self._all.values():
            group = lanes.setdefault(
                one.record.lane, []
            )  # a lane of which a reorg took all messages has none that lags
            if one.state not in UNRESOLVED or self._observations.attempts(one.record.message_id):
                group.append(one)
        found = {}
        for lane, group in sorted(lanes.items()):
            waiting = [one.record.final_at for one in group if one.state in UNRESOLVED]
            lag = max(0.0, now - min(waiting)) if waiting else 0.0
            found[lane] = SyncProgress(primary_final=len(group), applied=len(group) - len(waiting), lag_seconds=lag)
        return found

    def counts(self) -> Mapping[Lane, Mapping[SyncState, int]]:
        found: dict[Lane, Counter[SyncState]] = {}
        for one in self._all.values():
            found.setdefault(one.record.lane, Counter())[one.state] += 1
        return found

    def beat(self, heartbeat: Heartbeat) -> bool:
        last = self._heartbeats.get(heartbeat.lane)
        if last is not None and last.at >= heartbeat.at:
            return False
        self._heartbeats[heartbeat.lane] = heartbeat
        return True

    def heartbeats(self) -> list[Heartbeat]:
        return [heartbeat for _, heartbeat in sorted(self._heartbeats.items())]

    def resolved(self, before: float, limit: int) -> list[PrimaryRecord]:
        found = [one.record for one in self._sorted() if one.resolved_at is not None and one.resolved_at < before]
        return found[:limit]

    def archive(self, records: Sequence[PrimaryRecord], segment: Segment) -> None:
        for record in records:
            del self._all[record.message_id]
        self._segments.append((segment, list(records)))

    def segments(self) -> list[Segment]:
        return [segment for segment, _ in self._segments]

    def archived(self, message_id: bytes) -> ArchivedRecord | None:
        for segment, records in self._segments:
            for position, record in enumerate(records):
                if record.message_id == message_id:
                    leaves = [one.leaf for one in records]
                    return ArchivedRecord(record.leaf, prove(leaves, position), segment)
        return None

    def _take_back(self, chain_id: int, last_good: int, now: float) -> None:
        for message_id, one in self._all.items():
            record = one.record
            lost = record.source_chain == chain_id and record.block.number > last_good
            gone = record.destination_chain == chain_id and one.seen is not None and one.seen.number > last_good
            if lost or gone:
                self._all[message_id] = _taken_back(one, now)

    def _sorted(self) -> list[PendingSync]:
        return sorted(self._all.values(), key=lambda one: (one.record.final_at, one.record.message_id))


def _taken_back(one: PendingSync, now: float) -> PendingSync:
    """Looked at again, since what was final fell on one of its chains; whoever looks at it now writes nothing any more."""
    state = one.state if one.state in UNRESOLVED else SyncState.PENDING
    return replace(one, state=state, seen=None, resolved_at=None, next_at=now, fence=one.fence + 1)
