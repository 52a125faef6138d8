"""Works off a queue of jobs: finds what is due, hands each job to its handler, and has what failed looked at again."""

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
    """A job in the hands of one worker. What another worker has changed meanwhile is not overwritten."""

    def __init__(self, jobs: Jobs, job: JobT) -> None:
        self._jobs = jobs
        self.job = job

    def save(self, changed: JobT) -> bool:
        """Stores the job as it is now; says whether this worker still could."""
        if not self._jobs.save(changed, fence=self.job.fence):
            return False
        self.job = changed
        return True


class Handler(Protocol[JobT]):
    """What one queue does with its jobs."""

    async def perform(self, context: JobContext[JobT]) -> None:
        """Does the next step of a job that is due, and saves the job leased, rescheduled or settled.

        A worker may die between any two lines of it. Then the job is due again, as it was last saved.
        """

    def failed(self, context: JobContext[JobT], error: Exception) -> None:
        """Has a job looked at again whose step raised an error."""


class Worker(Generic[JobT]):
    """The work loop of one queue. Many jobs are worked on at once; each is in the hands of one task."""

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
        """Works off the jobs of one kind.

        Args:
            kind: whose queue.
            handler: what is done with them.
            jobs: where they are kept.
            clock: time.
            poll_interval: seconds between two looks at what is due.
            in_flight: jobs worked on at once.
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
        """Works until it is cancelled."""
        try:
            await run_forever(f"{self._kind.QUEUE} jobs", self.step, every=self._poll_interval, wakeup=self.wakeup)
        finally:
            tasks = list(self._active.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def step(self) -> bool:
        """Starts to work on what is due, as far as there is room; never more is to be done at once.

        A chain that is silent may fill all the room with its jobs. So a destination that has no job under way then gets one on
        top of it.
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
        except Exception as error:  # noqa: BLE001  # whatever it is, the job is looked at again
            self._handler.failed(context, error)
        finally:
            del self._active[key], self._destinations[key]
            if context.job.finished_at is not None or len(self._active) + 1 >= self._in_flight:
                self.wakeup.set()  # another job of its message may go on, or there is room again


async def is_final(
    context: JobContext[JobT],
    chain: Chain,
    final_height: int,
    is_over: Callable[[int], Awaitable[bool]],
    *,
    soon: float,
    later: JobT,
) -> bool:
    """Whether a message needs no more work for good: the block at whose end that was seen is final, and stands.

    Else the job is saved: first with that block, without it if the block fell, or as it is to be looked at `later`.

    Args:
        context: the job.
        chain: where the message is over.
        final_height: the highest block of the chain that is final.
        is_over: says whether the message is over at the end of a block.
        soon: when to look again after the block was noted or fell (Unix seconds).
        later: the job while the block is not final.
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
