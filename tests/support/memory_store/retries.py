"""Copied retry requests in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from bridge.domain.retries import Exceeded, HeldRetries, RetryBudget, RetryJob, RetryLimits, RetryPayment, RetryState
from bridge.protocol.retry_requests import RetryRequest

_UNFINISHED = (RetryState.OPEN, RetryState.SENDING)


class MemoryRetryJobs:
    """See `bridge.domain.retries.RetryJobs`."""

    def __init__(self) -> None:
        self._cursor = 0
        self._jobs: dict[tuple[bytes, int, int], RetryJob] = {}  # in the order of their arrival
        self._payments: dict[tuple[bytes, int], RetryPayment] = {}

    def cursor(self) -> int:
        return self._cursor

    def copy(self, requests: Sequence[RetryRequest], cursor: int, now: float) -> int:
        before = len(self._jobs)
        for request in requests:
            job = RetryJob(request=request, available_at=now)
            self._jobs.setdefault(job.key, job)
        self._cursor = cursor
        return len(self._jobs) - before

    def due(self, now: float, limit: int) -> list[RetryJob]:
        first_of: dict[bytes, RetryJob] = {}
        for job in self._jobs.values():
            if job.state in _UNFINISHED:
                first_of.setdefault(job.request.message_id, job)
        ready = [job for job in first_of.values() if job.state is RetryState.SENDING or job.available_at <= now]
        return ready[:limit]

    def save(self, job: RetryJob, *, expected: RetryState) -> bool:
        if self._jobs[job.key].state is not expected:
            return False
        in_flight = {other.key for other in self.jobs(job.request.message_id) if other.state is RetryState.SENDING}
        if job.state is RetryState.SENDING and in_flight - {job.key}:
            return False
        self._jobs[job.key] = job
        return True

    def jobs(self, message_id: bytes) -> list[RetryJob]:
        return [job for job in self._jobs.values() if job.request.message_id == message_id]

    def counts(self) -> dict[RetryState, int]:
        return dict(Counter(job.state for job in self._jobs.values()))

    def reopen(self, message_id: bytes, attempt: int, why: str, now: float) -> None:
        of_attempt = [job for job in self.jobs(message_id) if job.request.attempt == attempt]
        if not of_attempt:
            raise KeyError(attempt)
        newest = of_attempt[-1]
        if newest.state is RetryState.DEAD:
            self._jobs[newest.key] = newest.reopened(why, now)

    def dead(self, limit: int) -> list[RetryJob]:
        return [job for job in reversed(self._jobs.values()) if job.state is RetryState.DEAD][:limit]

    def held(self) -> list[HeldRetries]:
        lanes: defaultdict[tuple[int, int], list[RetryJob]] = defaultdict(list)
        for job in self._jobs.values():
            lanes[job.request.source_chain, job.request.destination_chain].append(job)
        return [
            HeldRetries(
                source_chain=source,
                destination_chain=destination,
                dead=sum(job.state is RetryState.DEAD for job in jobs),
                held={budget: sum(job.held_by is budget for job in jobs) for budget in RetryBudget},
            )
            for (source, destination), jobs in sorted(lanes.items())
        ]

    def commit(self, payment: RetryPayment, limits: RetryLimits) -> Exceeded | None:
        key = (payment.message_id, payment.attempt)
        others = [one for other, one in self._payments.items() if other != key]
        lane = (payment.source_chain, payment.destination_chain)
        of_message = [one.wei for one in others if one.message_id == payment.message_id]
        of_lane = [
            one.wei for one in others if (one.source_chain, one.destination_chain) == lane and one.at >= payment.day
        ]
        exceeded = limits.exceeded_by(payment, of_message, of_lane)
        if exceeded is None:
            self._payments[key] = payment
        return exceeded

    def withdraw(self, message_id: bytes, attempt: int) -> None:
        self._payments.pop((message_id, attempt), None)
