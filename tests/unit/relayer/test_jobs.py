"""The work loop hands each job that is due to one task, keeps within its bound, and loses no job to an error or a crash."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from bridge.records.jobs import RetryJob, RetryState
from bridge.relayer.jobs import JobContext, Worker
from bridge.store import Store
from tests.builders import ALPHA, message, retry_request
from tests.support.simulation.time import VirtualClock
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time

SECONDS = 10.0  # that one job takes


@dataclass
class Slow:
    """Takes its time with each job and settles it, unless it is to fail."""

    clock: VirtualClock
    failures: int = 0
    lease: float | None = None  # seconds for which it has a job left alone
    started: list[tuple[bytes, str]] = field(default_factory=list)
    most: int = 0
    running: int = 0

    async def perform(self, context: JobContext[RetryJob]) -> None:
        self.started.append((context.job.message_id, context.job.name))
        self.running += 1
        if self.lease is not None:
            assert context.save(context.job.leased(self.clock.now() + self.lease))
        self.most = max(self.most, self.running)
        try:
            await self.clock.sleep(SECONDS)
        finally:
            self.running -= 1
        if self.failures:
            self.failures -= 1
            raise OSError("the chain is away")
        context.save(context.job.settled(RetryState.NOT_NEEDED, "done", self.clock.now()))

    def failed(self, context: JobContext[RetryJob], error: Exception) -> None:
        context.save(context.job.reschedule(str(error), self.clock.now() + 60))


def store_with(*nonces: int, generations: int = 1) -> Store:
    store, clock = memory_store(), VirtualClock()
    requests = [
        retry_request(10 * nonce + number, message(nonce), generation=number)
        for nonce in nonces
        for number in range(generations)
    ]
    store.jobs.copy_requests(requests, 1, clock.now())
    return store


def worker(store: Store, handler: Slow, *, in_flight: int = 9) -> Worker[RetryJob]:
    return Worker(RetryJob, handler, store.jobs, handler.clock, poll_interval=1, in_flight=in_flight)


async def work(one: Worker[RetryJob], seconds: float) -> None:
    task = asyncio.create_task(one.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("lease", [None, 100.0])
@in_virtual_time
async def test_jobs_stay_within_their_bound(lease: float | None) -> None:
    store, handler = store_with(1, 2, 3, 4, 5), Slow(VirtualClock(), lease=lease)
    await work(worker(store, handler, in_flight=2), 3 * SECONDS + 1)
    assert (handler.most, len(handler.started)) == (2, 5)
    assert store.jobs.due(RetryJob, handler.clock.now(), 9) == []


@in_virtual_time
async def test_message_has_one_job_at_a_time() -> None:
    store, handler = store_with(1, generations=3), Slow(VirtualClock())
    await work(worker(store, handler), 3 * SECONDS + 0.5)
    assert (handler.most, [name for _, name in handler.started]) == (1, ["1/0", "1/1", "1/2"])
    assert {job.state for job in store.jobs.of_message(RetryJob, message(1).id)} == {RetryState.NOT_NEEDED}


@in_virtual_time
async def test_a_job_whose_step_fails_is_done_later() -> None:
    store, handler = store_with(1), Slow(VirtualClock(), failures=1)
    await work(worker(store, handler), 100)
    (job,) = store.jobs.of_message(RetryJob, message(1).id)
    assert (job.state, job.tries, len(handler.started)) == (RetryState.NOT_NEEDED, 1, 2)


@in_virtual_time
async def test_a_job_that_a_worker_died_with_is_done_by_the_next_one() -> None:
    store, handler = store_with(1), Slow(VirtualClock())
    await work(worker(store, handler), SECONDS / 2)
    await work(worker(store, handler), SECONDS + 1)
    assert (len(handler.started), store.jobs.due(RetryJob, handler.clock.now(), 9)) == (2, [])


@in_virtual_time
async def test_job_of_two_workers_is_settled_once() -> None:
    store, first, second = store_with(1), Slow(VirtualClock()), Slow(VirtualClock(), failures=1)
    await asyncio.gather(work(worker(store, first), 30), work(worker(store, second), 30))
    (job,) = store.jobs.of_message(RetryJob, message(1).id)
    assert (job.state, job.outcome, job.tries) == (RetryState.NOT_NEEDED, "done", 0)
    assert (len(first.started), len(second.started)) == (1, 1)


@in_virtual_time
async def test_jobs_of_a_silent_chain_leave_room_for_others() -> None:
    """Each of them waits for its chain's endpoints, and there are more of them than places."""
    store, handler = store_with(1, 2, 3, 4), Slow(VirtualClock())
    others = [message(number, destination_chain=ALPHA + 7) for number in (8, 9)]
    requests = [retry_request(100 + number, one) for number, one in enumerate(others)]
    store.jobs.copy_requests(requests, 2, handler.clock.now() + 1)  # they wait behind all of the silent chain's
    await work(worker(store, handler, in_flight=2), SECONDS / 2)
    assert [key for key, _ in handler.started] == [message(1).id, message(2).id, others[0].id]
