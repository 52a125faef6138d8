"""Executes messages that reached their quorum without being executed, after a pause or after a quorum was lowered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from bridge.evm.routers import RouterReader, Trial, TrialResult, readers_of
from bridge.evm.sender import Sending
from bridge.protocol.backoff import backoff
from bridge.protocol.contracts import explain_revert
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain, Clock, TransientError
from bridge.records.jobs import EXECUTION_KEYS, ExecutionJob, ExecutionState
from bridge.records.spending import Refusal, SpendBlockedError, SpentFor
from bridge.records.transactions import Slot
from bridge.relayer.jobs import JobContext, Worker, is_final
from bridge.relayer.spending import SpendGate
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog

_log = structlog.get_logger(__name__)


# Seconds. The pause equals the time waited so far, within these bounds.
_POLL_INTERVAL: Final = 1.0  # between two polls for due jobs, and of a block that is not final yet
_LOOK: Final = 5.0  # minimum between two simulations of one message
_LONGEST_LOOK: Final = 60.0
_REFUSED_LOOK: Final = 60.0  # minimum if its recipient reverts; doubles with each failed transaction
_LONGEST_REFUSED_LOOK: Final = 600.0
_LONGEST_FAILED_LOOK: Final = 86_400.0  # maximum after failed transactions
_LEASE: Final = 60.0  # during which a message is left alone after its transaction was requested

_IN_FLIGHT: Final = 200  # maximum jobs in progress


class Execution:
    """Simulates the execution of waiting messages, and sends the transaction once a simulation succeeds.

    The relayer sends at most one transaction each time a message becomes ready; the nonce ledger enforces that.
    A recipient may accept every simulated call and revert every transaction. Pauses therefore grow with each
    transaction, and the message waits once it reaches the spending gate's bounds.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        store: Store,
        dead_letters: DeadLetterLog,
        senders: Mapping[int, Sending],
        gate: SpendGate,
        clock: Clock,
    ) -> None:
        """Stores the dependencies.

        Args:
            deployment: The network.
            chains: Chains of the network by id.
            store: Deliveries and execution jobs.
            dead_letters: Log of decisions; an abandoned message is not executed.
            senders: Paying accounts by chain. Messages to other chains are left to other relayers.
            gate: Spending gate, consulted before each transaction.
            clock: Source of time.
        """
        self._routers = readers_of(deployment, chains)
        self._chains = chains
        self._store = store
        self._letters = dead_letters
        self._senders = senders
        self._gate = gate
        self._clock = clock
        self._jobs = store.jobs
        self._worker = Worker(ExecutionJob, self, store.jobs, clock, poll_interval=_POLL_INTERVAL, in_flight=_IN_FLIGHT)

    async def run(self) -> None:
        """Processes execution jobs until cancelled."""
        await self._worker.run()

    async def execute(self, message_id: bytes) -> ExecutionJob:
        """Executes one message now if possible, whether or not its job is due.

        Returns:
            The job: SENT or EXECUTED if the message was executed; otherwise its outcome states the reason.

        Raises:
            KeyError: This relayer has not observed the message.
            TransientError: The destination does not respond.
        """
        self._jobs.await_execution(message_id, self._clock.now())
        job = self._jobs.newest(ExecutionJob, message_id)
        if job is None:
            raise KeyError(message_id.hex())
        context = JobContext(self._jobs, job)
        await self.perform(context)
        return context.job

    async def perform(self, context: JobContext[ExecutionJob]) -> None:
        """See `Handler.perform`."""
        job = context.job
        chain_id = job.lane.destination_chain
        observed, router = self._store.observations.message(job.message_id), self._routers.get(chain_id)
        if observed is None or router is None:
            self._reschedule(context, job, ExecutionState.BLOCKED, f"chain {chain_id} is not relayed to")
            return
        message = observed.message
        trial = await router.try_execution(message)
        match trial.result:
            case TrialResult.SETTLED | TrialResult.REJECTED:
                await self._over(context, message, router, trial)
            case TrialResult.READY:
                await self._ready(context, message, router)
            case TrialResult.REFUSED:
                self._wait_until_ready(context, ExecutionState.REFUSED, trial.why)
            case TrialResult.WAITING:
                self._wait_until_ready(context, ExecutionState.WAITING, trial.why)

    def failed(self, context: JobContext[ExecutionJob], error: Exception) -> None:
        """See `Handler.failed`."""
        why, is_told = str(error) or repr(error), not isinstance(error, TransientError)
        self._reschedule(context, context.job, context.job.state, why, is_told=is_told)

    async def _over(
        self, context: JobContext[ExecutionJob], message: Message, router: RouterReader, trial: Trial
    ) -> None:
        """Settles the job as EXECUTED, ENDED or REJECTED once the block with that state is final."""
        why = trial.why
        context.job = job = replace(context.job, outcome=why)
        chain, now = self._chains[job.lane.destination_chain], self._clock.now()

        async def is_over(block: int) -> bool:
            return (await router.try_execution(message, block=block)).result is trial.result

        height = self._store.observations.final_height(chain.chain_id)
        soon, later = now + _POLL_INTERVAL, self._rescheduled(job, job.state, why)
        if await is_final(context, chain, height, is_over, soon=soon, later=later):
            if trial.result is TrialResult.REJECTED:
                _log.warning("message rejected by its recipient", message=f"0x{message.id.hex()}", reason=why)
                context.save(job.settled(ExecutionState.REJECTED, why, now))
                return
            landed = any(slot.included is not None and slot.included.succeeded for slot in self._spent(job))
            context.save(job.settled(ExecutionState.EXECUTED if landed else ExecutionState.ENDED, why, now))

    def _wait_until_ready(self, context: JobContext[ExecutionJob], state: ExecutionState, why: str) -> None:
        """Records that the message can't be executed now.

        If the last transaction is settled, the relayer may pay for another one later.
        """
        job = context.job
        if self._is_under_way(job):
            self._reschedule(context, job, ExecutionState.SENT, f"the transaction is pending; now {why}")
        else:
            fresh = job.in_next_round() if job.was_sent else job
            self._reschedule(context, replace(fresh, seen=None), state, why)

    async def _ready(self, context: JobContext[ExecutionJob], message: Message, router: RouterReader) -> None:
        job = replace(context.job, seen=None)
        if self._is_under_way(job):
            self._reschedule(context, job, ExecutionState.SENT, "its transaction is under way")
            return
        spent = self._spent(job)
        if spent:
            self._reschedule(context, job, *_state_after(spent[-1]))
            return
        refusal = self._gate.refusal(message, job.lane.destination_chain)
        if refusal is not None:
            self._note_blocked(context, job, message, refusal)
            return
        sender = self._senders.get(job.lane.destination_chain)
        if sender is None:
            obstacle: str | None = f"no key pays on chain {job.lane.destination_chain}"
        else:
            obstacle = await self._obstacle(job)
            if obstacle is None and not await sender.can_pay():
                obstacle = "the relayer's accounts can't pay for it now"
        if sender is None or obstacle is not None:
            self._reschedule(context, job, ExecutionState.BLOCKED, obstacle or "")
        elif context.save(job.locked(self._clock.now() + _LEASE)):
            await self._send(context, message, sender, router.execute_call(message))
        else:  # another worker holds it, or it was delivered again
            context.job = self._jobs.newest(ExecutionJob, job.message_id) or job

    async def _send(self, context: JobContext[ExecutionJob], message: Message, sender: Sending, call: Call) -> None:
        job = context.job
        try:
            receipt = await sender.send(job.transaction_key, call, spent_for=SpentFor.of(message))
        except SpendBlockedError as error:
            self._note_blocked(context, job, message, error.refusal)
        except CallRevertedError as error:  # the state changed since the simulation; nothing was sent
            self._reschedule(context, job, ExecutionState.WAITING, explain_revert(error.data))
        except Exception as error:  # noqa: BLE001  # a transaction that was sent is in the ledger and awaited
            is_told = not isinstance(error, TransientError)
            self._reschedule(context, job, ExecutionState.BLOCKED, str(error) or repr(error), is_told=is_told)
        else:
            self._gate.release(_subject(message))
            name, soon = f"0x{receipt.transaction_hash.hex()}", self._clock.now() + _POLL_INTERVAL
            if receipt.succeeded:
                _log.info("message executed", message=f"0x{message.id.hex()}", transaction=name)
                context.save(job.rescheduled(f"executed in {name}", soon))
            else:
                _log.warning("execution reverted", message=f"0x{message.id.hex()}", transaction=name)
                context.save(job.rescheduled(f"its execution reverted in {name}", soon))

    async def _obstacle(self, job: ExecutionJob) -> str | None:
        """Returns the reason why this relayer may not execute a message that is executable, or None if it may."""
        held = next((change for change in self._store.lanes.held() if change.lane == job.lane), None)
        if held is not None:
            return f"the lane is {held.state}: {held.reason}"
        if await self._letters.in_thread(partial(self._letters.is_abandoned, job.message_id)):
            return "an operator abandoned it"
        return None

    def _slots(self, job: ExecutionJob) -> list[Slot]:
        return self._store.transactions.slots_for(job.transaction_key) if job.was_sent else []

    def _is_under_way(self, job: ExecutionJob) -> bool:
        return any(slot.is_open for slot in self._slots(job))

    def _spent(self, job: ExecutionJob) -> list[Slot]:
        """Returns the transactions paid for in this round, excluding slots that were closed without a signature."""
        return [
            slot
            for slot in self._slots(job)
            if slot.included is not None and not all(version.is_noop for version in slot.versions)
        ]

    def _reschedule(
        self,
        context: JobContext[ExecutionJob],
        job: ExecutionJob,
        state: ExecutionState,
        why: str,
        *,
        is_told: bool = True,
    ) -> None:
        """Reschedules the job. Transient errors are not reported."""
        if is_told and why != job.outcome and state in (ExecutionState.REFUSED, ExecutionState.BLOCKED):
            _log.warning("message not executed", message=f"0x{job.message_id.hex()}", state=state.value, reason=why)
        context.save(self._rescheduled(job, state, why))

    def _rescheduled(self, job: ExecutionJob, state: ExecutionState, why: str) -> ExecutionJob:
        """Returns the job rescheduled with a pause as long as it has waited so far."""
        now, shortest, longest = self._clock.now(), _LOOK, _LONGEST_LOOK
        if state is ExecutionState.REFUSED:
            transactions = job.round + job.was_sent
            shortest = backoff(_REFUSED_LOOK, transactions, cap=_LONGEST_FAILED_LOOK)
            longest = max(_LONGEST_REFUSED_LOOK, shortest)
        return job.rescheduled(why, now + min(max(now - job.since, shortest), longest), state=state)

    def _note_blocked(
        self, context: JobContext[ExecutionJob], job: ExecutionJob, message: Message, refusal: Refusal
    ) -> None:
        """Records that the spending gate blocked the execution. The job waits, which does not count as a try."""
        look_at = self._gate.note_blocked(_subject(message), message, refusal)
        context.save(job.rescheduled(refusal.why, look_at, state=ExecutionState.BLOCKED))


def _subject(message: Message) -> str:
    """Returns the label of a message's execution in the list of blocked work."""
    return f"{EXECUTION_KEYS}0x{message.id.hex()}"


def _state_after(slot: Slot) -> tuple[ExecutionState, str]:
    """Derives the job's state from its last transaction, after which the message is still executable."""
    assert slot.included is not None
    name = f"0x{slot.included.transaction_hash.hex()}"
    if slot.ended_as_noop:
        return ExecutionState.REFUSED, "the chain does not accept the execution's transaction"
    if slot.included.succeeded:
        return ExecutionState.SENT, f"executed in {name}, but the destination's node does not report it"
    return ExecutionState.REFUSED, f"the execution reverted in {name}, although a simulation succeeds"
