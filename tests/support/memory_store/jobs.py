"""Jobs in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from bridge.domain.jobs import FIRST_LOOK, ExecutionJob, ExecutionState, Job, JobT, RetryState, SyncJob, SyncState
from bridge.domain.lanes import Lane
from bridge.domain.observations import Observations

Key = tuple[type[Job], bytes, str]


class MemoryJobs:
    """See `bridge.domain.jobs.Jobs`."""

    def __init__(self) -> None:
        self._all: dict[Key, Job] = {}  # in the order of their arrival
        self._is_there: Callable[[bytes], bool] = lambda _: True
        self._lane_of: Callable[[bytes], Lane | None] = lambda _: None

    def look_up_in(self, observations: Observations) -> None:
        """Has messages looked up there."""

        def lane_of(message_id: bytes) -> Lane | None:
            observed = observations.message(message_id)
            if observed is None:
                return None
            return Lane(observed.message.source_chain, observed.message.destination_chain)

        self._lane_of = lane_of
        self._is_there = lambda message_id: bool(observations.attempts(message_id))

    def due(self, kind: type[JobT], now: float, limit: int) -> list[JobT]:
        first_of: dict[bytes, JobT] = {}
        for job in self.every(kind):
            if job.finished_at is None:
                first_of.setdefault(job.message_id, job)
        found = [job for job in first_of.values() if job.available_at <= now and self.rests(job)]
        return sorted(found, key=lambda job: job.available_at)[:limit]

    def save(self, changed: Job, *, fence: int) -> bool:
        known = self._all.get(_key(changed))
        if known is None or known.fence != fence:
            return False
        others = (job for key, job in self._all.items() if key[:2] == _key(changed)[:2] and job is not known)
        if changed.state is RetryState.SENDING and any(job.state is RetryState.SENDING for job in others):
            return False
        self._all[_key(changed)] = changed
        return True

    def of_message(self, kind: type[JobT], message_id: bytes) -> list[JobT]:
        return [job for job in self.every(kind) if job.message_id == message_id]

    def newest(self, kind: type[JobT], message_id: bytes) -> JobT | None:
        found = self.of_message(kind, message_id)
        return found[-1] if found else None

    def listed(self, kind: type[JobT], states: Collection[StrEnum], limit: int) -> list[JobT]:
        found = [job for job in self.every(kind) if job.state in states]
        return sorted(found, key=lambda job: job.since)[:limit]

    def counts(self, kind: type[Job]) -> Mapping[Lane, Mapping[str, int]]:
        found: dict[Lane, Counter[str]] = {}
        for job in self.every(kind):
            found.setdefault(job.lane, Counter())[job.state] += 1
        return found

    def await_execution(self, message_id: bytes, now: float) -> None:
        lane = self._lane_of(message_id)
        if lane is not None:
            self.delivered(message_id, lane, now)

    def put(self, job: Job) -> None:
        """Puts a job in the place of what it was; for payments."""
        self._all[_key(job)] = job

    def every(self, kind: type[JobT]) -> list[JobT]:
        """All jobs of a queue, in the order of their arrival."""
        return [job for job in self._all.values() if isinstance(job, kind)]

    def rests(self, job: Job) -> bool:
        """Whether the message is on its source, as far as the job rests on that."""
        return not isinstance(job, SyncJob) or self._is_there(job.message_id)

    def add(self, job: Job) -> bool:
        """Adds a job unless it is known; whether it was new."""
        return self._all.setdefault(_key(job), job) is job

    def delete(self, kind: type[Job], message_ids: Collection[bytes], *, finished: bool = False) -> None:
        """Deletes jobs; all of those messages, or those that are finished."""
        for job in self.every(kind):
            if job.message_id in message_ids and (not finished or job.finished_at is not None):
                del self._all[_key(job)]

    def delivered(self, message_id: bytes, lane: Lane, now: float) -> None:
        """Notes a delivery that did not execute its message; for the outbox."""
        known, soon = self.newest(ExecutionJob, message_id), now + FIRST_LOOK
        if known is None:
            self.add(ExecutionJob(message_id=message_id, lane=lane, since=now, available_at=soon))
        elif known.finished_at is None:
            self._put(known.leased(soon))
        else:
            again: dict[str, Any] = {"state": ExecutionState.WAITING, "since": now, "seen": None, "finished_at": None}
            self._put(known.leased(soon, **again))

    def executed(self, message_id: bytes, now: float) -> None:
        """Notes a delivery that did; for the outbox."""
        known = self.newest(ExecutionJob, message_id)
        if known is not None:
            self._put(known.settled(ExecutionState.ENDED, "", now, seen=None))

    def _put(self, job: Job) -> None:
        self._all[_key(job)] = job

    def take_back(self, chain_id: int, last_good: int, now: float) -> None:
        """Looks again at what rested on blocks that fell; for the observations."""
        for job in list(self._all.values()):
            source, destination = job.lane.source_chain, job.lane.destination_chain
            lost = isinstance(job, SyncJob) and source == chain_id and job.record.block.number > last_good
            gone = destination == chain_id and job.seen is not None and job.seen.number > last_good
            if lost or gone:
                opened = ExecutionState.WAITING if isinstance(job, ExecutionJob) else SyncState.PENDING
                state = job.state if job.finished_at is None else opened
                self._put(replace(job.leased(now, seen=None, finished_at=None), state=state))


def _key(job: Job) -> Key:
    return type(job), job.message_id, job.name
