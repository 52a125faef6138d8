"""Re-propagates messages that are final on their source but not applied on their destination."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, Protocol

import structlog
from pydantic import Field

from bridge.dead_letters.signing import KeySealer
from bridge.evm.locks import MessageLock, message_lock, retake_lock_call
from bridge.evm.routers import Progress, RouterReader, TrialResult, readers_of
from bridge.evm.sender import Sending
from bridge.evm.supervision import run_forever
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.backoff import backoff
from bridge.protocol.contracts import explain_revert
from bridge.protocol.deployment import Deployment
from bridge.protocol.lanes import Lane
from bridge.protocol.message import Message
from bridge.protocol.ports import CallRevertedError, Chain, Clock, UnansweredError
from bridge.records.finality_records import FOLLOWED, Heartbeat, PrimaryRecord
from bridge.records.jobs import ExecutionState, SyncJob, SyncState
from bridge.records.spending import SpendBlockedError
from bridge.relayer.execution import Execution
from bridge.relayer.jobs import JobContext, Worker, is_final
from bridge.relayer.retries import Recovery, RetryFailedError
from bridge.settings import Section
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog

_log = structlog.get_logger(__name__)

LOCK_KEYS: Final = "lock/"
"""Prefix of the transaction keys for retaking locks."""

_LOCK_ADVICE: Final = "its owner lets the relayer's account retry (setRetrier), then `waybill message retry ID`"


class PropagationError(Exception):
    """A message could not be propagated; the error states the reason."""


class AbandonedError(Exception):
    """A message must not be propagated, because an operator abandoned it."""


class Propagator(Protocol):
    """A way to propagate a message."""

    async def propagate(self, message: Message, *, by_force: bool = False) -> str:
        """Takes the next step towards applying the message, and returns a description of that step.

        Args:
            message: Message to propagate.
            by_force: Whether to use every GMP that can carry it, rather than as few as its quorum needs.

        Raises:
            PropagationError: No step was possible now.
            AbandonedError: An operator abandoned the message.
            TransientError: A chain does not respond.
        """


class PropagationSettings(Section):
    """Intervals and bounds of propagation; times in seconds."""

    heartbeat: float = Field(default=5.0, gt=0, description="interval between two heartbeats of a lane")
    threshold: float = Field(default=300.0, gt=0, description="lag after which a state change is sent again")
    pause: float = Field(default=60.0, gt=0, description="interval between two re-propagations")
    most: int = Field(
        default=5,
        gt=0,
        description="number of re-propagations without effect after which the state change counts as DIVERGED",
    )
    longest_pause: float = Field(
        default=900.0,
        gt=0,
        description="maximum interval once the change counts as DIVERGED; each interval is twice as long as the last",
    )

    LOOK: ClassVar[float] = 5.0  # between two looks at one message; doubles with each, up to `LONGEST_LOOK`
    LONGEST_LOOK: ClassVar[float] = 60.0
    BATCH: ClassVar[int] = 200  # messages checked together

    def pause_after(self, propagations: int) -> float:
        """Returns the pause in seconds after `propagations` fruitless re-propagations.

        It grows once the message is DIVERGED, since each re-propagation may cost money.
        """
        doublings = max(0, propagations - self.most + 1)
        return max(self.pause, backoff(self.pause, doublings, cap=self.longest_pause))


class Propagation:
    """Follows every message from finality on its source until its destination has applied it."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        store: Store,
        propagator: Propagator,
        signer: KeySealer,
        clock: Clock,
        poll_interval: float = 1.0,
        lock_ttl: float = 1_020.0,
        settings: PropagationSettings | None = None,
    ) -> None:
        """Stores the dependencies.

        Args:
            deployment: The network.
            chains: Chains of the network by id.
            store: Observations and jobs.
            propagator: Propagates messages.
            signer: Signs heartbeats and primary records.
            clock: Source of time.
            poll_interval: Seconds between polls of the queue.
            lock_ttl: Seconds for which one worker holds a message for re-propagation.
            settings: Intervals and bounds.
        """
        self._routers = readers_of(deployment, chains)
        self._chains = chains
        self._store = store
        self._jobs = store.jobs
        self._records = store.finality_records
        self._propagator = propagator
        self._signer = signer
        self._clock = clock
        self._poll_interval = poll_interval
        self._lock_ttl = lock_ttl
        self._settings = settings or PropagationSettings()
        self._collected = 0
        self._silent: dict[int, float] = {}  # destinations that did not answer, with the end of their pause
        self._worker = Worker(
            SyncJob,
            self,
            store.jobs,
            clock,
            poll_interval=self._poll_interval,
            in_flight=self._settings.BATCH,
        )

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("follow state changes", self.collect, every=self._poll_interval))
            group.create_task(self._worker.run())
            group.create_task(run_forever("heartbeat", self.beat, every=self._settings.heartbeat))

    async def collect(self) -> bool:
        """Enqueues newly final messages for propagation."""
        self._collected = self._records.collect(FOLLOWED, self._collected)
        self._worker.wakeup.set()
        return False

    async def perform(self, context: JobContext[SyncJob]) -> None:
        """See `Handler.perform`."""
        now = self._clock.now()
        job = self._with_record(context.job, now)
        context.job, router = job, self._routers.get(job.lane.destination_chain)
        if router is None:
            context.save(self._rescheduled(job, now, f"chain {job.lane.destination_chain} is not relayed to"))
        elif now < self._silent.get(job.lane.destination_chain, 0):
            context.save(self._rescheduled(job, now))
        elif (progress := await self._progress(job.record, router)).ended:
            await self._settle_ended(context, router, SyncState.APPLIED if progress.executed else SyncState.ENDED, now)
        elif min(self._lag(job.lane, now), now - job.since) > self._settings.threshold:
            await self._propagate(context, now)
        else:
            context.save(self._rescheduled(replace(job, seen=None), now))

    def failed(self, context: JobContext[SyncJob], error: Exception) -> None:
        """See `Handler.failed`.

        If the destination does not respond, its other messages are deferred too. If the source does not
        respond, only this message is.
        """
        job, now = context.job, self._clock.now()
        chain_id = job.lane.destination_chain
        if isinstance(error, UnansweredError) and error.chain_id == chain_id:
            self._silent[chain_id] = now + self._settings.LOOK
        _log.warning("propagation postponed", chain=chain_id, error=str(error) or repr(error))
        if job.available_at <= now:  # otherwise it is leased, and checked after that
            context.save(self._rescheduled(job, now))

    async def beat(self) -> bool:
        """Signs each lane's progress.

        A heartbeat that can't be written now is dropped, since the next one replaces it.
        """
        now = self._clock.now()
        for lane, progress in self._records.progress(now).items():
            heartbeat = Heartbeat(lane=lane, at=now, progress=progress)
            signature = self._signer.sign(heartbeat.digest)
            self._records.beat(replace(heartbeat, signer=self._signer.address, signature=signature))
        return False

    async def reconcile(self, message_id: bytes) -> SyncJob:
        """Compares a message's record with its destination's current state, and updates the job to match.

        A message that is no longer applied becomes pending again; a DIVERGED message that was applied becomes APPLIED.

        Raises:
            KeyError: There is no record of the message.
            TransientError: The destination does not respond.
        """
        job = self._jobs.newest(SyncJob, message_id)
        if job is None:
            raise KeyError(message_id.hex())
        context = JobContext(self._jobs, job)
        progress = await self._routers[job.lane.destination_chain].progress(message_id)
        if job.state is SyncState.APPLIED and not progress.executed:
            _log.error("applied message missing, pending again", message=f"0x{message_id.hex()}")
            context.save(job.reopened("the destination no longer shows the change", self._clock.now()))
        elif job.state is SyncState.DIVERGED and not progress.ended:
            await self._propagate(context, self._clock.now())
        elif job.state is not SyncState.APPLIED:
            await self.perform(context)
        return self._jobs.newest(SyncJob, message_id) or job

    async def _progress(self, record: PrimaryRecord, router: RouterReader, *, block: int | None = None) -> Progress:
        """Returns the message's progress at the head or as of a block.

        An expired message counts as ended even if it was not marked on chain.
        """
        progress = await router.progress(record.message_id, block=block)
        seen = self._store.observations.message(record.message_id)
        expires_at = None if seen is None else seen.message.expires_at
        if progress.ended or seen is None or expires_at is None or expires_at > self._clock.now():
            return progress
        trial = await router.try_execution(seen.message, block=block)
        return replace(progress, ended=trial.result is TrialResult.SETTLED)

    def _with_record(self, job: SyncJob, now: float) -> SyncJob:
        """Returns the job with a signed record that refers to the block currently holding its message.

        A deep reorg may have moved the message.
        """
        seen = self._store.observations.message(job.message_id)
        attempts = self._store.observations.attempts(job.message_id)
        if seen is not None and attempts and attempts[0].block != job.record.block:
            job = replace(job, record=PrimaryRecord.of(seen.message, attempts[0], now), since=now)
        if job.record.signature:
            return job
        signature = self._signer.sign(job.record.digest)
        return replace(job, record=replace(job.record, signer=self._signer.address, signature=signature))

    async def _settle_ended(
        self, context: JobContext[SyncJob], router: RouterReader, state: SyncState, now: float
    ) -> None:
        """Settles the job as APPLIED or ENDED once the block with that state is final and canonical."""
        job, chain = context.job, self._chains[context.job.lane.destination_chain]

        async def is_over(block: int) -> bool:
            return (await self._progress(job.record, router, block=block)).ended

        height = self._store.observations.final_height(chain.chain_id)
        soon, later = now + self._poll_interval, self._rescheduled(job, now)
        if job.seen is not None:  # few chains finalise a block in less than a second
            wait = max(self._settings.LOOK, job.seen.number - height)
            later = replace(later, available_at=min(later.available_at, now + wait))
        final = await is_final(context, chain, height, is_over, soon=soon, later=later)
        if final and context.save(job.settled(state, "", now)) and job.tries:
            _log.info("message applied by an earlier transaction", message=f"0x{job.message_id.hex()}")

    async def _propagate(self, context: JobContext[SyncJob], now: float) -> None:
        pause = self._settings.pause_after(context.job.tries + 1)
        if not context.save(replace(context.job, seen=None).locked(now, self._lock_ttl, now + pause)):
            return  # another worker took the lease
        job = context.job
        message = self._store.observations.message(job.message_id)
        assert message is not None
        log = _log.bind(message=f"0x{job.message_id.hex()}", fence=job.fence)
        tries = job.tries + 1
        diverged = tries >= self._settings.most
        if diverged and job.state is not SyncState.DIVERGED:
            log.error("message diverged", tries=tries, reason=job.outcome)
        try:
            if diverged:
                await self._require_standing(job.record)
            done = await self._propagator.propagate(message.message, by_force=diverged)
            problem = f"re-propagated, not applied yet: {done}"
            log.warning("message re-propagated", step=done, lag=round(now - job.since))
        except AbandonedError as error:
            context.save(job.settled(SyncState.ENDED, str(error), now))
            return
        except PropagationError as error:
            problem = str(error)
            log.warning("message not re-propagated", reason=problem)
        if diverged:
            block = job.record.block.number
            problem = f"forced reconciliation with the record of block {block}; {problem}"
        state = SyncState.DIVERGED if diverged else job.state
        context.save(job.rescheduled(problem, job.available_at, tries=tries, state=state))

    async def _require_standing(self, record: PrimaryRecord) -> None:
        """Checks that the source chain still has the change that is about to be forced on a destination.

        Raises:
            PropagationError: The source no longer has the record's block.
            TransientError: The source does not respond.
        """
        chain = self._chains[record.source_chain]
        found = await chain.block(record.block.number)
        if found is None or found.hash != record.block.hash:
            raise PropagationError(f"chain {record.source_chain} no longer has the block in the message's final record")

    def _rescheduled(self, job: SyncJob, now: float, problem: str = "") -> SyncJob:
        """Returns the job rescheduled with a pause as long as it has waited so far."""
        age = now - job.since
        wait = min(max(age, self._settings.LOOK), self._settings.LONGEST_LOOK)
        lags_in = self._settings.threshold - age
        if lags_in >= 0:  # check it exactly when it starts to lag
            wait = min(wait, lags_in + self._poll_interval)
        return job.rescheduled(problem or job.outcome, now + wait)

    def _lag(self, lane: Lane, now: float) -> float:
        """Returns the lane's lag in seconds: the lag in its latest heartbeat plus the time since."""
        for heartbeat in self._records.heartbeats():
            if heartbeat.lane == lane and heartbeat.progress.lag_seconds:
                return heartbeat.progress.lag_seconds + (now - heartbeat.at)
        return 0.0


class RoutePropagator:
    """Propagates a message at the lowest cost: by executing it if possible, otherwise by resending it over other GMPs.

    Dead deliveries stay dead until an operator decides. A message that acts under a lock is propagated while
    the lock holds; an expired lock is retaken first (OIP-141).
    """

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        *,
        dead_letters: DeadLetterLog,
        recovery: Recovery,
        execution: Execution,
        senders: Mapping[int, Sending],
    ) -> None:
        """Stores the dependencies. `senders` are the accounts that pay for retaking locks, by chain."""
        self._senders = senders
        self._deployment = deployment
        self._chains = chains
        self._letters = dead_letters
        self._recovery = recovery
        self._execution = execution

    async def propagate(self, message: Message, *, by_force: bool = False) -> str:
        """See `Propagator.propagate`."""
        if await self._letters.in_thread(partial(self._letters.is_abandoned, message.id)):
            raise AbandonedError("an operator abandoned the message")
        destination = self._deployment.chain(message.destination_chain)
        router = RouterReader(self._chains[destination.chain_id], destination.router)
        try:
            await self._ensure_locked(message)
            if await router.missing_receipts(message) == 0:
                return await self._execute(message)
            done = await self._recovery.retry(message.id, wide=by_force)
        except RetryFailedError as error:
            raise PropagationError(str(error)) from error
        except CallRevertedError as error:
            raise PropagationError(f"the router call reverted: {explain_revert(error.data)}") from error
        return f"attempt {done.attempt} over {', '.join(gmp.label for gmp in sorted(done.gmps))}"

    async def _ensure_locked(self, message: Message) -> None:
        """Ensures that a message that acts under a lock holds it.

        Raises:
            PropagationError: The lock is lost for good, or can't be retaken.
            TransientError: The destination does not respond.
        """
        chain, recipient = self._chains[message.destination_chain], from_bytes32(message.recipient)
        lock = await message_lock(chain, recipient, message.payload)
        if lock is MessageLock.LOST:
            raise PropagationError(
                "the message's lock was released or replaced by another lock: the sender must acquire a lock and send the message again"
            )
        if lock is not MessageLock.EXPIRED:
            return
        if (sender := self._senders.get(message.destination_chain)) is None:
            raise PropagationError(
                f"the message's lock has expired, and no configured key can retake it: {_LOCK_ADVICE}"
            )
        key = f"{LOCK_KEYS}0x{message.id.hex()}/{(await chain.head()).number}"
        try:
            receipt = await sender.send(key, retake_lock_call(recipient, message.payload))
        except CallRevertedError as error:
            why = explain_revert(error.data)
            raise PropagationError(
                f"the message's lock has expired, and recipient {recipient} rejects retaking it ({why}): {_LOCK_ADVICE}"
            ) from error
        except SpendBlockedError as error:
            raise PropagationError(f"the message's lock has expired and can't be retaken now: {error}") from error
        if not receipt.succeeded:
            raise PropagationError("the message's lock has expired, and the transaction to retake it reverted")
        _log.warning("lock retaken", message=f"0x{message.id.hex()}", recipient=recipient)

    async def _execute(self, message: Message) -> str:
        done = await self._execution.execute(message.id)
        if done.state not in (ExecutionState.SENT, ExecutionState.EXECUTED):
            raise PropagationError(done.outcome)
        return done.outcome
