"""Executes messages whose deliveries are there and have not executed them: after a pause, or when a quorum was lowered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

import structlog

from bridge.domain.dead_letters import DeadLetterLog, LetterStatus
from bridge.domain.executions import PURPOSE, AwaitedExecution, ExecutionState
from bridge.domain.observations import BlockRef
from bridge.domain.ports import CallRevertedError, Chain, Clock, TransientError
from bridge.domain.spending import Refusal, SpendHeldError, SpentFor
from bridge.domain.store import Store
from bridge.domain.supervision import run_forever
from bridge.domain.transactions import Slot
from bridge.evm.routers import Verdict, readers_of
from bridge.evm.sender import Sending
from bridge.protocol.backoff import backoff
from bridge.protocol.contracts import explain_revert
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Message
from bridge.relayer.spending import SpendGate

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSettings:
    """Times are in seconds. What has waited long is looked at less often: after as long again, within these bounds."""

    poll_interval: float = 1.0  # between two looks at what is due, and at a block that is not final yet
    look: float = 5.0  # the shortest time between two looks at one message
    longest_look: float = 60.0
    refused_look: float = (
        60.0  # the shortest, if its recipient refuses it; twice as long after each that failed in a block
    )
    longest_refused_look: float = 600.0
    longest_failed_look: float = 86_400.0  # after executions that failed in a block
    lock: float = 60.0  # for which a message is left alone after its transaction was asked for
    in_flight: int = 200  # messages looked at at once


class Execution:
    """Looks at what waits for its execution, and executes it once a call without a transaction shows that it would succeed.

    For each time that a message comes to that there is one transaction at most, whatever becomes of it: the nonce ledger knows.
    A recipient may accept every call and refuse every transaction. So those that failed in a block count, for their message and
    for its sender; looks get rarer with each, and at the bounds of the gate the message waits.
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
        settings: ExecutionSettings | None = None,
    ) -> None:
        """Looks after what the store has noted.

        Args:
            deployment: the network.
            chains: its chains by id.
            store: what was delivered, and what was done about it.
            dead_letters: what was abandoned is not executed.
            senders: those who pay, by chain; messages to other chains are left to others.
            gate: asked before each transaction.
            clock: time.
            settings: how often.
        """
        self._settings = settings or ExecutionSettings()
        self._routers = readers_of(deployment, chains)
        self._chains = chains
        self._store = store
        self._executions = store.executions
        self._letters = dead_letters
        self._senders = senders
        self._gate = gate
        self._clock = clock
        self._active: dict[bytes, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Works until it is cancelled."""
        try:
            await run_forever("execute messages", self.step, every=self._settings.poll_interval)
        finally:
            tasks = list(self._active.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def step(self) -> bool:
        """Starts to look at what is due; there is never more to do at once."""
        room = self._settings.in_flight - len(self._active)
        for one in self._executions.due(self._clock.now(), self._settings.in_flight):
            if room > 0 and one.message_id not in self._active:
                self._active[one.message_id] = asyncio.get_running_loop().create_task(self._process(one))
                room -= 1
        return False

    async def execute(self, message_id: bytes) -> AwaitedExecution:
        """Looks at one message now, due or not, and executes it if that is possible.

        Returns:
            How far it is: SENT or EXECUTED if it was executed; the outcome says why not.

        Raises:
            KeyError: this relayer has not observed it.
            TransientError: the destination does not answer.
        """
        self._executions.note(message_id, self._clock.now())
        one = self._executions.of_message(message_id)
        if one is None:
            raise KeyError(message_id.hex())
        return await self._look_at(one)

    async def _process(self, one: AwaitedExecution) -> None:
        try:
            await self._look_at(one)
        except Exception as error:  # noqa: BLE001  # whatever it is, the message is looked at again
            self._reschedule(one, one.state, str(error) or repr(error), is_told=not isinstance(error, TransientError))
        finally:
            del self._active[one.message_id]

    async def _look_at(self, one: AwaitedExecution) -> AwaitedExecution:
        observed, router = self._store.observations.message(one.message_id), self._routers.get(one.destination_chain)
        if observed is None or router is None:
            return self._reschedule(one, ExecutionState.BLOCKED, f"chain {one.destination_chain} is not relayed to")
        message = observed.message
        trial = await router.try_execution(message)
        match trial.verdict:
            case Verdict.SETTLED:
                return await self._over(one, message, trial.why)
            case Verdict.READY:
                return await self._ready(replace(one, seen=None), message)
            case Verdict.REFUSED:
                return self._not_ready(one, ExecutionState.REFUSED, trial.why)
            case Verdict.WAITING:
                return self._not_ready(one, ExecutionState.WAITING, trial.why)

    async def _over(self, one: AwaitedExecution, message: Message, why: str) -> AwaitedExecution:
        """EXECUTED or ENDED, once the block at whose end it was seen so is final and stands."""
        chain, now = self._chains[one.destination_chain], self._clock.now()
        if one.seen is None:
            seen = await self._pinned(one, message)
            return self._save(one, replace(one, seen=seen, outcome=why, next_at=now + self._settings.poll_interval))
        if one.seen.number > self._store.observations.final_height(chain.chain_id):
            return self._reschedule(one, one.state, why)
        block = await chain.block(one.seen.number)
        if block is None or block.hash != one.seen.hash:
            return self._save(one, replace(one, seen=None, next_at=now + self._settings.poll_interval))
        landed = any(slot.included is not None and slot.included.succeeded for slot in self._spent(one))
        return self._save(one, one.found(ExecutionState.EXECUTED if landed else ExecutionState.ENDED, why, now))

    async def _pinned(self, one: AwaitedExecution, message: Message) -> BlockRef | None:
        """The newest block, if the message is over at its very end."""
        chain = self._chains[one.destination_chain]
        head = await chain.head()
        trial = await self._routers[one.destination_chain].try_execution(message, block=head.number)
        return (
            BlockRef.of(head) if trial.verdict is Verdict.SETTLED and await chain.block(head.number) == head else None
        )

    def _not_ready(self, one: AwaitedExecution, state: ExecutionState, why: str) -> AwaitedExecution:
        """The next time that it can be executed it may cost a transaction again, if the last one has come to its end."""
        if self._is_under_way(one):
            return self._reschedule(one, ExecutionState.SENT, f"its transaction is under way; now {why}")
        fresh = one.in_next_round() if one.was_sent else one
        return self._reschedule(replace(fresh, seen=None), state, why)

    async def _ready(self, one: AwaitedExecution, message: Message) -> AwaitedExecution:
        if self._is_under_way(one):
            return self._reschedule(one, ExecutionState.SENT, "its transaction is under way")
        spent = self._spent(one)
        if spent:
            return self._reschedule(one, *_told_by(spent[-1]))
        refusal = self._gate.refusal(message, one.destination_chain, executes=True)
        if refusal is not None:
            return self._held(one, message, refusal)
        sender = self._senders.get(one.destination_chain)
        obstacle = f"no key pays on chain {one.destination_chain}" if sender is None else self._obstacle(one, message)
        if sender is not None and obstacle is None and not await sender.can_pay():
            obstacle = "the relayer's accounts can't pay for it now"
        if sender is None or obstacle is not None:
            return self._reschedule(one, ExecutionState.BLOCKED, obstacle or "")
        held = one.locked(self._clock.now() + self._settings.lock)
        if not self._executions.save(held, fence=one.fence):
            return (
                self._executions.of_message(one.message_id) or one
            )  # another worker has it, or it was delivered again
        return await self._send(held, message, sender)

    async def _send(self, held: AwaitedExecution, message: Message, sender: Sending) -> AwaitedExecution:
        call = self._routers[held.destination_chain].execute_call(message)
        try:
            receipt = await sender.send(held.transaction_key, call, spent_for=SpentFor.of(message))
        except SpendHeldError as error:
            return self._held(held, message, error.refusal)
        except CallRevertedError as error:  # something changed since the trial; nothing was sent
            return self._reschedule(held, ExecutionState.WAITING, explain_revert(error.data))
        except Exception as error:  # noqa: BLE001  # what was sent is in the ledger, and is waited for
            is_told = not isinstance(error, TransientError)
            return self._reschedule(held, ExecutionState.BLOCKED, str(error) or repr(error), is_told=is_told)
        self._gate.release(_subject(message))
        name, soon = f"0x{receipt.transaction_hash.hex()}", self._clock.now() + self._settings.poll_interval
        if receipt.succeeded:
            _log.info("message executed", message=f"0x{message.id.hex()}", transaction=name)
            return self._save(held, held.found(ExecutionState.SENT, f"executed in {name}", soon))
        _log.warning("execution reverted", message=f"0x{message.id.hex()}", transaction=name)
        return self._save(held, held.found(ExecutionState.SENT, f"its execution reverted in {name}", soon))

    def _obstacle(self, one: AwaitedExecution, message: Message) -> str | None:
        """Why this relayer may not execute it now, though it could; None if it may."""
        held = next((change for change in self._store.lanes.held() if change.lane == one.lane), None)
        if held is not None:
            return f"its lane is {held.state}: {held.reason}"
        if self._letters.dead_letters(statuses=frozenset({LetterStatus.ABANDONED}), message_id=message.id):
            return "it was abandoned by decision"
        return None

    def _slots(self, one: AwaitedExecution) -> list[Slot]:
        return self._store.transactions.slots_for(one.transaction_key) if one.was_sent else []

    def _is_under_way(self, one: AwaitedExecution) -> bool:
        return any(slot.is_open for slot in self._slots(one))

    def _spent(self, one: AwaitedExecution) -> list[Slot]:
        """Transactions of this round that were paid for: of one that was never signed only the nonce had to be closed."""
        return [
            slot
            for slot in self._slots(one)
            if slot.included is not None and not all(version.is_noop for version in slot.versions)
        ]

    def _reschedule(
        self, one: AwaitedExecution, state: ExecutionState, why: str, *, is_told: bool = True
    ) -> AwaitedExecution:
        """Looks at it again after about as long as it has waited by now. What may pass by itself need not be told of."""
        settings, now = self._settings, self._clock.now()
        shortest, longest = settings.look, settings.longest_look
        if state is ExecutionState.REFUSED:
            failures = self._failures(one)
            shortest = backoff(settings.refused_look, failures, cap=settings.longest_failed_look)
            longest = max(settings.longest_refused_look, shortest)
        is_new = why != one.outcome
        if is_told and is_new and state in (ExecutionState.REFUSED, ExecutionState.BLOCKED):
            _log.warning("message not executed", message=f"0x{one.message_id.hex()}", state=state.value, reason=why)
        return self._save(one, one.found(state, why, now + min(max(now - one.since, shortest), longest)))

    def _failures(self, one: AwaitedExecution) -> int:
        observed = self._store.observations.message(one.message_id)
        return 0 if observed is None else self._gate.failures(observed.message)

    def _held(self, one: AwaitedExecution, message: Message, refusal: Refusal) -> AwaitedExecution:
        """The gate has no room for it: it waits, and uses up nothing."""
        look_at = self._gate.hold(_subject(message), message, refusal)
        return self._save(one, one.found(ExecutionState.BLOCKED, refusal.why, look_at))

    def _save(self, one: AwaitedExecution, changed: AwaitedExecution) -> AwaitedExecution:
        self._executions.save(changed, fence=one.fence)
        return changed


def _subject(message: Message) -> str:
    """What waits, if the execution of a message does."""
    return f"{PURPOSE}0x{message.id.hex()}"


def _told_by(slot: Slot) -> tuple[ExecutionState, str]:
    """What a transaction says of a message that could still be executed after it."""
    assert slot.included is not None
    name = f"0x{slot.included.transaction_hash.hex()}"
    if slot.ended_as_noop:
        return ExecutionState.REFUSED, "the chain does not take the transaction that would execute it"
    if slot.included.succeeded:
        return ExecutionState.SENT, f"executed in {name}, which the destination's node does not show"
    return ExecutionState.REFUSED, f"its execution reverted in {name}, though a call without a transaction succeeds"
