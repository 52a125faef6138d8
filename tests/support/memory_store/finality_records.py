"""Primary finality records in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.domain.finality_records import LOOKED_BACK, ArchivedRecord, Heartbeat, PrimaryRecord, Segment, SyncProgress
from bridge.domain.jobs import SyncJob
from bridge.domain.lanes import Lane
from bridge.domain.merkle import prove
from bridge.protocol.message import Kind
from tests.support.memory_store.jobs import MemoryJobs
from tests.support.memory_store.observations import MemoryObservations


class MemoryFinalityRecords:
    """See `bridge.domain.finality_records.FinalityRecords`."""

    def __init__(self, observations: MemoryObservations, jobs: MemoryJobs) -> None:
        self._observations = observations
        self._jobs = jobs
        self._heartbeats: dict[Lane, Heartbeat] = {}
        self._segments: list[tuple[Segment, list[PrimaryRecord]]] = []

    def collect(self, kinds: frozenset[Kind], after: int) -> int:
        archived = {record.message_id for _, records in self._segments for record in records}
        known = list(reversed(self._observations.messages(limit=10**9)))
        for observed in known[max(after - LOOKED_BACK, 0) :]:
            attempts = self._observations.attempts(observed.message_id)
            if observed.message_id in archived or not attempts or observed.message.kind not in kinds:
                continue
            self._jobs.add(SyncJob.of(PrimaryRecord.of(observed.message, attempts[0], observed.observed_at)))
        return len(known)

    def progress(self, now: float) -> Mapping[Lane, SyncProgress]:
        lanes: dict[Lane, list[SyncJob]] = {}
        for job in self._jobs.every(SyncJob):
            group = lanes.setdefault(job.lane, [])  # a lane of which a reorg took all messages has none that lags
            if job.finished_at is not None or self._jobs.rests(job):
                group.append(job)
        found = {}
        for lane, group in sorted(lanes.items()):
            waiting = [job.since for job in group if job.finished_at is None]
            lag = max(0.0, now - min(waiting)) if waiting else 0.0
            found[lane] = SyncProgress(primary_final=len(group), applied=len(group) - len(waiting), lag_seconds=lag)
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
        found = [job for job in self._jobs.every(SyncJob) if job.finished_at is not None and job.finished_at < before]
        return [job.record for job in sorted(found, key=lambda job: (job.since, job.message_id))[:limit]]

    def archive(self, records: Sequence[PrimaryRecord], segment: Segment) -> None:
        self._jobs.delete(SyncJob, {record.message_id for record in records})
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
