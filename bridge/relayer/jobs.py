"""The work loop of a job queue: finds due jobs, passes each to its handler, and reschedules those that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Generic, Protocol

from bridge.evm.supervision import Wakeup, run_forever
from bridge.protocol.ports import Chain, Clock
from bridge.records.jobs import JobT
from bridge.records.observations import BlockRef
from bridge.store.jobs import Jobs


class JobContext(Generic[JobT]):
    """A job held by one worker. Saving it never overwrites a concurrent change by another worker."""

    def __init__(self, jobs: Jobs, job: JobT) -> None:
        self._jobs = jobs
        self.job = job

    def save(self, changed: JobT) -> bool:
        """Stores the changed job; returns whether this worker still held it."""
        if not self._jobs.save(changed, fence=self.job.fence):
            return False
        self.job = changed
        return True


class Handler(Protocol[JobT]):
    """Handles the jobs of one queue."""

    async def perform(self, context: JobContext[JobT]) -> None:
        """Takes the next step of a due job, and saves the job as leased, rescheduled or settled.

        A worker may die at any point of this method. The job is then due again, as last saved.
        """

    def failed(self, context: JobContext[JobT], error: Exception) -> None:
        """Reschedules a job whose step raised an error."""


class Worker(Generic[JobT]):
    """The work loop of one queue. Runs many jobs concurrently, each in its own task."""

    def __init__(
        self,
        kind: type[JobT],
        handler: Handler[JobT],
        jobs: Jobs,
        clock: Clock,
        *,
        poll_interval: float,
        in_flight: int,
    ) -> None:
        """Creates a worker for the jobs of one kind.

        Args:
            kind: Record type of the queue's jobs.
            handler: Performs the jobs.
            jobs: Stores the jobs.
            clock: Source of time.
            poll_interval: Seconds between polls for due jobs.
            in_flight: Maximum number of jobs in progress.
        """
        self._kind = kind
        self._handler = handler
        self._jobs = jobs
        self._clock = clock
        self._poll_interval = poll_interval
        self._in_flight = in_flight
        self._active: dict[tuple[bytes, str], asyncio.Task[None]] = {}
        self._destinations: dict[tuple[bytes, str], int] = {}  # of the jobs that are being worked on
        self.wakeup = Wakeup()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            await run_forever(f"{self._kind.QUEUE} jobs", self.step, every=self._poll_interval, wakeup=self.wakeup)
        finally:
            tasks = list(self._active.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def step(self) -> bool:
        """Starts as many due jobs as it has free slots for.

        Always returns False, since the next step can wait for the next poll.
        """
        now = self._clock.now()
        for job in self._jobs.due(self._kind, now, self._in_flight):
            if len(self._active) < self._in_flight:
                self._start(job)
        if len(self._active) >= self._in_flight:
            for job in self._jobs.due(self._kind, now, 1, without=set(self._destinations.values())):
                self._start(job)
        return False

    def _start(self, job: JobT) -> None:
        key = (job.message_id, job.name)
        if key not in self._active:
            self._destinations[key] = job.lane.destination_chain
            self._active[key] = asyncio.get_running_loop().create_task(self._process(JobContext(self._jobs, job)))

    async def _process(self, context: JobContext[JobT]) -> None:
        key = (context.job.message_id, context.job.name)
        try:
            await self._handler.perform(context)
        except Exception as error:  # noqa: BLE001  # the job is rescheduled after any error
            self._handler.failed(context, error)
        finally:
            del self._active[key], self._destinations[key]
            if context.job.finished_at is not None or len(self._active) + 1 >= self._in_flight:
                self.wakeup.set()  # another job of its message may proceed, or there is room again


async def is_final(
    context: JobContext[JobT],
    chain: Chain,
    final_height: int,
    is_over: Callable[[int], Awaitable[bool]],
    *,
    soon: float,
    later: JobT,
) -> bool:
    """Whether a message needs no more work, as shown by a block that is final and canonical.

    If not, saves the job: with the block when it is first seen, without the block after a reorg removed it, or
    as `later` while the block is not final.

    Args:
        context: The job.
        chain: Chain on which the message has ended.
        final_height: Highest final block of the chain.
        is_over: Whether the message has ended as of a block.
        soon: When to check again after the block was recorded or reorged away (Unix seconds).
        later: The job to save while the block is not final.
    """
    job = context.job
    changes: dict[str, Any] = {"available_at": soon}
    if job.seen is None:
        head = await chain.head()
        stood = await is_over(head.number) and await chain.block(head.number) == head
        context.save(replace(job, seen=BlockRef.of(head) if stood else None, **changes))
    elif job.seen.number > final_height:
        context.save(later)
    else:
        block = await chain.block(job.seen.number)
        if block is not None and block.hash == job.seen.hash:
            return True
        context.save(replace(job, seen=None, **changes))
    return False
