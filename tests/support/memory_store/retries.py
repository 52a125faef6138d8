"""Retry requests that were copied, and what retries pay, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bridge.domain.jobs import RetryJob, RetryState
from bridge.domain.retries import BlockedRetries, Exceeded, RetryBudget, RetryBudgets, RetryPayment
from bridge.protocol.retry_requests import RetryRequest
from tests.support.memory_store.jobs import MemoryJobs


class MemoryRetries:
    """See `bridge.domain.retries.Retries`."""

    def __init__(self, jobs: MemoryJobs) -> None:
        self._cursor = 0
        self._jobs = jobs
        self._payments: dict[tuple[bytes, int], RetryPayment] = {}

    def cursor(self) -> int:
        return self._cursor

    def copy(self, requests: Sequence[RetryRequest], cursor: int, now: float) -> int:
        self._cursor = cursor
        return sum(self._jobs.add(RetryJob.of(request, now)) for request in requests)

    def blocked(self) -> list[BlockedRetries]:
        lanes: defaultdict[tuple[int, int], list[RetryJob]] = defaultdict(list)
        for job in self._jobs.every(RetryJob):
            lanes[job.request.source_chain, job.request.destination_chain].append(job)
        return [
            BlockedRetries(
                source_chain=source,
                destination_chain=destination,
                dead=sum(job.state is RetryState.DEAD for job in jobs),
                blocked={budget: sum(job.blocked_by is budget for job in jobs) for budget in RetryBudget},
            )
            for (source, destination), jobs in sorted(lanes.items())
        ]

    def reserve(self, payment: RetryPayment, budgets: RetryBudgets) -> Exceeded | None:
        key = (payment.message_id, payment.attempt)
        others = [one for other, one in self._payments.items() if other != key]
        lane = (payment.source_chain, payment.destination_chain)
        of_message = [one.wei for one in others if one.message_id == payment.message_id]
        of_lane = [
            one.wei for one in others if (one.source_chain, one.destination_chain) == lane and one.at >= payment.day
        ]
        exceeded = budgets.exceeded_by(payment, of_message, of_lane)
        if exceeded is None:
            self._payments[key] = payment
        return exceeded

    def withdraw(self, message_id: bytes, attempt: int) -> None:
        self._payments.pop((message_id, attempt), None)
