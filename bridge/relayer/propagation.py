"""Brings what is final on a source to the chains where it is not applied: the pending sync queue at work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from bridge.domain.dead_letters import DeadLetterLog, LetterStatus
from bridge.domain.executions import ExecutionState
from bridge.domain.lanes import Lane
from bridge.domain.merkle import root_of
from bridge.domain.observations import BlockRef
from bridge.domain.pending_sync import FOLLOWED, Heartbeat, PendingSync, PrimaryRecord, Segment, SyncState
from bridge.domain.ports import CallRevertedError, Chain, Clock, TransientError
from bridge.domain.store import Store
from bridge.domain.supervision import run_forever
from bridge.evm.routers import Progress, RouterReader, Verdict, readers_of
from bridge.protocol.backoff import backoff
from bridge.protocol.contracts import explain_revert
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Message
from bridge.relayer.execution import Execution
from bridge.relayer.recovery import Recovery, RetryFailedError

_log = structlog.get_logger(__name__)

_ARCHIVE_EVERY = 3_600.0  # seconds


class PropagationError(Exception):
    """A message was not brought forward; the text says why."""


class AbandonedError(Exception):
    """A message must not be brought forward: an operator decided that it never arrives."""


class HeartbeatSigner(Protocol):
    """Signs heartbeats and archives."""

    @property
    def address(self) -> str:
        """The account."""

    def sign(self, digest: bytes) -> bytes:
        """A signature over 32 bytes."""


class Propagator(Protocol):
    """How a message is brought forward."""

    async def propagate(self, message: Message) -> str:
        """Does the next thing that can bring the message to its recipient, and says what.

        Raises:
            PropagationError: nothing could be done.
            AbandonedError: nothing may be done any more.
            TransientError: a chain does not answer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PropagationSettings:
    """Times are in seconds."""

    poll_interval: float = 1.0  # between two looks at the queue
    heartbeat: float = 5.0  # between two heartbeats of a lane
    threshold: float = 300.0  # lag above which messages are re-propagated
    look: float = 5.0  # between two looks at one message; doubles with each, up to `longest_look`
    longest_look: float = 60.0
    pause: float = 60.0  # between two re-propagations of one message
    most: int = 5  # re-propagations in vain, after which it is DIVERGED, and each pause is twice the one before
    longest_pause: float = 900.0
    lock_ttl: float = 1_020.0  # for which one worker re-propagates a message alone
    keep: float = 30 * 86_400.0  # for which resolved records stay out of the archive
    segment: int = 1_000  # records archived together at most
    batch: int = 200  # messages looked at at once

    def pause_after(self, propagations: int) -> float:
        """How long to wait after so many re-propagations in vain: ever longer once it is DIVERGED, for each may cost money."""
        doublings = max(0, propagations - self.most + 1)
        return max(self.pause, backoff(self.pause, doublings, cap=self.longest_pause))


class Propagation:
    """Follows every message from its primary finality to its application."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        store: Store,
        propagator: Propagator,
        signer: HeartbeatSigner,
        clock: Clock,
        settings: PropagationSettings | None = None,
    ) -> None:
        self._routers = readers_of(deployment, chains)
        self._chains = chains
        self._store = store
        self._queue = store.pending_sync
        self._propagator = propagator
        self._signer = signer
        self._clock = clock
        self._settings = settings or PropagationSettings()
        self._collected = 0

    async def run(self) -> None:
        """Works until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("follow state changes", self.step, every=self._settings.poll_interval))
            group.create_task(run_forever("heartbeat", self.beat, every=self._settings.heartbeat))
            group.create_task(run_forever("archive records", self.archive, every=_ARCHIVE_EVERY))

    async def step(self) -> bool:
        """Takes up what became final, and looks at what is due; there is never more to do at once."""
        self._collected = self._queue.collect(FOLLOWED, self._collected)
        groups: dict[int, list[PendingSync]] = {}
        for one in self._queue.due(self._clock.now(), self._settings.batch):
            groups.setdefault(one.record.destination_chain, []).append(one)
        await asyncio.gather(*map(self._look_at_all, groups.values()))
        return False

    async def _look_at_all(self, group: Sequence[PendingSync]) -> None:
        """Looks at messages of one destination.

        If it does not answer, the rest is put off at once: there may be more of them than are looked at in one step, and others
        must have their turn.
        """
        answers = True
        for one in group:
            if answers:
                try:
                    await self._look_at(one)
                    continue
                except TransientError as error:
                    answers = False
                    _log.warning("destination can't be asked", chain=one.record.destination_chain, error=str(error))
            self._reschedule(one, self._clock.now(), "")

    async def beat(self) -> bool:
        """Signs how far each lane is. Nothing is queued: what could not be written now is outdated in a moment."""
        now = self._clock.now()
        for lane, progress in self._queue.progress(now).items():
            heartbeat = Heartbeat(lane=lane, at=now, progress=progress)
            signature = self._signer.sign(heartbeat.digest)
            self._queue.beat(replace(heartbeat, signer=self._signer.address, signature=signature))
        return False

    async def archive(self) -> bool:
        """Moves old resolved records below a signed Merkle root; says whether there are more."""
        now = self._clock.now()
        records = self._queue.resolved(now - self._settings.keep, self._settings.segment)
        if not records:
            return False
        root = root_of([record.leaf for record in records])
        segment = Segment(
            number=len(self._queue.segments()) + 1,
            root=root,
            count=len(records),
            archived_at=now,
            signer=self._signer.address,
            signature=self._signer.sign(root),
        )
        self._queue.archive(records, segment)
        return len(records) == self._settings.segment

    async def reconcile(self, message_id: bytes) -> PendingSync:
        """Compares a message's record with what its destination shows now, and goes by the record.

        What was applied and is not any more is pending again; what was thought lost and is applied is APPLIED.

        Raises:
            KeyError: there is no record of it.
            TransientError: the destination does not answer.
        """
        one = self._queue.of_message(message_id)
        if one is None:
            raise KeyError(message_id.hex())
        progress = await self._routers[one.record.destination_chain].progress(message_id)
        if one.state is SyncState.APPLIED and not progress.executed:
            changed = one.reopened("the destination does not show it any more", self._clock.now())
            _log.error("applied message is not there any more, pending again", message=f"0x{message_id.hex()}")
            self._queue.save(changed, fence=one.fence)
        elif one.state is not SyncState.APPLIED:
            await self._look_at(one)
        return self._queue.of_message(message_id) or one

    async def _look_at(self, one: PendingSync) -> None:
        now = self._clock.now()
        one = self._recorded_anew(one, now)
        record = one.record
        router = self._routers.get(record.destination_chain)
        if router is None:
            self._reschedule(one, now, f"chain {record.destination_chain} is not relayed to")
            return
        progress = await self._progress(record)
        if progress.ended:
            await self._ended(one, SyncState.APPLIED if progress.executed else SyncState.ENDED, now)
        elif min(self._lag(record.lane, now), now - record.final_at) > self._settings.threshold:
            await self._propagate(replace(one, seen=None), now)
        else:
            self._reschedule(replace(one, seen=None), now, "")

    async def _progress(self, record: PrimaryRecord, *, block: int | None = None) -> Progress:
        """How far it is, at the head or at the end of a block. Past its time it has ended, though nobody has marked that yet."""
        router = self._routers[record.destination_chain]
        progress = await router.progress(record.message_id, block=block)
        seen = self._store.observations.message(record.message_id)
        expires_at = None if seen is None else seen.message.expires_at
        if progress.ended or seen is None or expires_at is None or expires_at > self._clock.now():
            return progress
        trial = await router.try_execution(seen.message, block=block)
        return replace(progress, ended=trial.verdict is Verdict.SETTLED)

    def _recorded_anew(self, one: PendingSync, now: float) -> PendingSync:
        """With the record of where it is now, if its source took back what was final and it is in another block."""
        seen = self._store.observations.message(one.record.message_id)
        attempts = self._store.observations.attempts(one.record.message_id)
        if seen is None or not attempts or attempts[0].block == one.record.block:
            return one
        return replace(one, record=PrimaryRecord.of(seen.message, attempts[0], now))

    async def _ended(self, one: PendingSync, state: SyncState, now: float) -> None:
        """APPLIED or ENDED, once the block at whose end it was seen so is final and stands."""
        chain, record = self._chains[one.record.destination_chain], one.record
        if one.seen is None:
            seen = await self._pinned(record)
            self._queue.save(replace(one, seen=seen, next_at=now + self._settings.poll_interval), fence=one.fence)
            return
        if one.seen.number > self._store.observations.final_height(chain.chain_id):
            self._reschedule(one, now, "")
            return
        block = await chain.block(one.seen.number)
        if block is None or block.hash != one.seen.hash:
            self._queue.save(replace(one, seen=None, next_at=now + self._settings.poll_interval), fence=one.fence)
        elif self._queue.save(one.resolved(state, now), fence=one.fence) and one.propagations:
            _log.info("message applied after all", message=f"0x{record.message_id.hex()}")

    async def _pinned(self, record: PrimaryRecord) -> BlockRef | None:
        """The newest block, if the message has ended at its very end."""
        chain = self._chains[record.destination_chain]
        head = await chain.head()
        progress = await self._progress(record, block=head.number)
        return BlockRef.of(head) if progress.ended and await chain.block(head.number) == head else None

    async def _propagate(self, one: PendingSync, now: float) -> None:
        pause = self._settings.pause_after(one.propagations + 1)
        held = replace(one.locked(now, self._settings.lock_ttl), next_at=now + pause)
        if not self._queue.save(held, fence=one.fence):
            return  # another worker took the lock
        message = self._store.observations.message(one.record.message_id)
        assert message is not None
        log = _log.bind(message=f"0x{one.record.message_id.hex()}", fence=held.fence)
        try:
            done = await self._propagator.propagate(message.message)
            problem = f"re-propagated, not applied yet: {done}"
            log.warning("message re-propagated", how=done, behind=round(now - one.record.final_at))
        except AbandonedError as error:
            self._queue.save(replace(held.resolved(SyncState.ENDED, now), problem=str(error)), fence=held.fence)
            return
        except PropagationError as error:
            problem = str(error)
            log.warning("message not re-propagated", reason=problem)
        count = held.propagations + 1
        diverged = count >= self._settings.most
        if diverged and held.state is not SyncState.DIVERGED:
            log.error("message diverged: final on its source, not applied after all", tries=count, reason=problem)
        state = SyncState.DIVERGED if diverged else held.state
        self._queue.save(replace(held, propagations=count, state=state, problem=problem), fence=held.fence)

    def _reschedule(self, one: PendingSync, now: float, problem: str) -> None:
        age = now - one.record.final_at
        wait = min(max(age, self._settings.look), self._settings.longest_look)
        lags_in = self._settings.threshold - age
        if lags_in >= 0:  # then it is looked at just when it lags, however far apart looks are by then
            wait = min(wait, lags_in + self._settings.poll_interval)
        self._queue.save(replace(one, next_at=now + wait, problem=problem or one.problem), fence=one.fence)

    def _lag(self, lane: Lane, now: float) -> float:
        """What the lane's latest heartbeat says, and what passed since."""
        for heartbeat in self._queue.heartbeats():
            if heartbeat.lane == lane and heartbeat.progress.lag_seconds:
                return heartbeat.progress.lag_seconds + (now - heartbeat.at)
        return 0.0


class RoutePropagator:
    """Brings a message forward by the cheapest thing that can: by executing it, else by sending it over other GMPs.

    Deliveries that died stay dead: about those somebody decides.
    """

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        *,
        dead_letters: DeadLetterLog,
        recovery: Recovery,
        execution: Execution,
    ) -> None:
        self._deployment = deployment
        self._chains = chains
        self._letters = dead_letters
        self._recovery = recovery
        self._execution = execution

    async def propagate(self, message: Message) -> str:
        """See `Propagator.propagate`."""
        if self._letters.dead_letters(statuses=frozenset({LetterStatus.ABANDONED}), message_id=message.id):
            raise AbandonedError("it was abandoned by decision")
        destination = self._deployment.chain(message.destination_chain)
        router = RouterReader(self._chains[destination.chain_id], destination.router)
        try:
            if await router.missing_receipts(message) == 0:
                return await self._execute(message)
            done = await self._recovery.retry(message.id)
        except RetryFailedError as error:
            raise PropagationError(str(error)) from error
        except CallRevertedError as error:
            raise PropagationError(f"the router refuses: {explain_revert(error.data)}") from error
        return f"attempt {done.attempt} over {', '.join(gmp.label for gmp in sorted(done.gmps))}"

    async def _execute(self, message: Message) -> str:
        done = await self._execution.execute(message.id)
        if done.state not in (ExecutionState.SENT, ExecutionState.EXECUTED):
            raise PropagationError(done.outcome)
        return done.outcome
