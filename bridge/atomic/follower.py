"""Advances atomic actions, and writes a dead letter for a participant that contradicts the decision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog
from eth_utils.address import to_checksum_address
from pydantic import Field

from bridge.atomic.reader import ActionReader, Coordinator
from bridge.atomic.records import Action, ActionState, Branch, BranchState
from bridge.atomic.steps import Step, due_steps
from bridge.client import RefusedError
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.evm.sender import Sending
from bridge.evm.supervision import run_forever
from bridge.protocol.contracts import explain_revert
from bridge.protocol.deployment import COORDINATOR_EXAMPLE, Deployment
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain, Clock, TransientError
from bridge.protocol.times import iso_milliseconds
from bridge.records.spending import SpendBlockedError
from bridge.relayer.retries import Retried, RetryFailedError
from bridge.relayer.retry_planning import find_message
from bridge.settings import Addresses, Section
from bridge.store.observations import Observations

_log = structlog.get_logger(__name__)

ACTION_KEYS: Final = "action/"
"""Prefix of the transaction keys of all steps of actions."""

_NO_MESSAGE: Final = bytes(32)


class ActionSettings(Section):
    """Settings for following atomic actions."""

    coordinators: dict[str, Addresses] = Field(
        default={},
        description="coordinators whose actions are followed, by chain, in addition to the network's examples",
    )
    advance: bool = Field(
        default=False, description="whether the relayer pays for calls that anyone may make: phases, answers, timeouts"
    )

    def named(self, deployment: Deployment) -> tuple[Coordinator, ...]:
        """Returns the configured coordinators on the network's chains."""
        found: dict[Coordinator, None] = {}  # in order, each once
        for chain in deployment.chains:
            examples = [chain.examples[COORDINATOR_EXAMPLE]] if COORDINATOR_EXAMPLE in chain.examples else []
            for address in [*examples, *sorted(self.coordinators.get(chain.name, frozenset()))]:
                found[Coordinator(chain.chain_id, to_checksum_address(address))] = None
        return tuple(found)


class Actions:
    """Follows every action of the configured coordinators to its end.

    An action is dropped once it has ended and each participant's own record matches the decision. Actions that
    were read and steps in progress are held only in memory. After a restart, the relayer reads all actions
    again, and the contracts reject any step that was already taken.
    """

    def __init__(
        self,
        reader: ActionReader,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        observations: Observations,
        senders: Mapping[int, Sending],
        next_look: Callable[[int], Awaitable[None]],
        retry: Callable[[bytes], Awaitable[Retried]],
        report_call: Callable[[Message], Awaitable[Call]],
        dead_letters: DeadLetterQueue,
        clock: Clock,
        settings: ActionSettings,
        poll_interval: float,
    ) -> None:
        """Stores the dependencies. Reads nothing yet.

        Args:
            reader: Reads the coordinators.
            deployment: The network.
            chains: Chains of the network by id.
            observations: Messages that this relayer has observed.
            senders: Accounts that pay for steps, by chain.
            next_look: Waits for a chain's next poll, so that a request can share the poll's HTTP request.
            retry: Resends a message without querying its destination, which may be down.
            report_call: Builds the call with which a message's destination reports its outcome.
            dead_letters: Queue that receives the letters.
            clock: Source of time.
            settings: Whether to pay for steps (`advance`).
            poll_interval: Seconds between polls of the open actions.
        """
        self._reader = reader
        self._deployment = deployment
        self._chains = chains
        self._observations = observations
        self._senders = senders
        self._next_look = next_look
        self._retry = retry
        self._report_call = report_call
        self._letters = dead_letters
        self._clock = clock
        self._settings = settings
        self._poll_interval = poll_interval
        self._over: set[tuple[Coordinator, int]] = set()
        self._agreed: dict[tuple[Coordinator, int], set[int]] = {}  # participants that match the decision
        self._active: dict[str, asyncio.Task[None]] = {}
        self._last_logged: dict[str, str] = {}  # last log message by action

    async def run(self) -> None:
        """Follows actions until cancelled. A coordinator whose chain is down does not delay the others."""
        every = self._poll_interval
        try:
            async with asyncio.TaskGroup() as group:
                for one in self._reader.coordinators:
                    group.create_task(run_forever("follow actions", partial(self.look, one), every=every))
        finally:
            tasks = list(self._active.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self, coordinator: Coordinator) -> bool:
        """Starts a check of every open action of a coordinator.

        Always returns False, since nothing is left to start.
        """
        await self._next_look(coordinator.chain)
        for number in range(1, await self._reader.count(coordinator) + 1):
            if (coordinator, number) not in self._over:
                self._start(_name(coordinator, number), partial(self._follow, coordinator, number))
        return False

    async def settled(self) -> None:
        """Waits until no step is in progress."""
        while self._active:
            await asyncio.gather(*self._active.values())

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Runs `work` in a separate task, unless a task with the same name is running.

        So a chain that is down delays nothing else.
        """
        if name in self._active:
            return
        task = asyncio.get_running_loop().create_task(self._guarded(name, work))
        self._active[name] = task
        task.add_done_callback(lambda _: self._active.pop(name, None))

    async def _guarded(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (TransientError, SpendBlockedError) as error:
            _log.warning("action task postponed", task=name, reason=str(error))
        except CallRevertedError as error:
            _log.info("action step no longer needed", task=name, reason=explain_revert(error.data))
        except Exception:  # noqa: BLE001  # whatever failed, the action is checked again
            _log.exception("action task failed", task=name)

    async def _follow(self, coordinator: Coordinator, number: int) -> None:
        action = await self._reader.at(coordinator, number)
        if action is None:
            return  # a reorg removed it
        self._log_state(action)
        self._advance(action, self._clock.now())  # the coordinator's own steps do not wait for participants
        for branch in action.branches:
            name = f"{_name(coordinator, number)}/{branch.number}"
            self._start(name, partial(self._check_participant, coordinator, action, branch))

    async def _check_participant(self, coordinator: Coordinator, action: Action, branch: Branch) -> None:
        """Reads one participant's record and acts on it. Participants are read independently of each other."""
        agreed = self._agreed.setdefault((coordinator, action.number), set())
        agreed.discard(branch.number)  # the new reply may contradict the earlier one
        asked_at = self._clock.now()
        part = await self._reader.with_participants(replace(action, branches=(branch,)))
        await self._write_letters(part)
        # A record may have changed while it travelled; a chain that gave no answer has said nothing until now.
        self._advance(part, self._clock.now() if part.branches[0].problem else asked_at)
        if part.agrees:
            await self._letters.close_action(part.id, branch.number, {"by": part.name, "state": part.state.name})
            if not self._pays_report(part):
                agreed.add(branch.number)
        if len(agreed) == len(action.branches):
            self._over.add((coordinator, action.number))
            self._agreed.pop((coordinator, action.number), None)

    def _pays_report(self, action: Action) -> bool:
        """Whether this relayer pays for reporting a participant's outcome, which counts even after a timeout."""
        untold = (branch.chain for branch in action.branches if branch.can_settle or branch in action.unreported)
        return self._settings.advance and any(chain in self._senders for chain in untold)

    def _advance(self, action: Action, asked_at: float) -> None:
        """Starts the steps that anyone may take, if this relayer pays for them.

        Args:
            action: The action as last read.
            asked_at: Unix seconds at which the records were read. Overdue answers are determined as of this time.
        """
        if not self._settings.advance:
            return
        for step in due_steps(action):
            if step.chain in self._senders:
                self._start(f"{ACTION_KEYS}{action.name}/{step.name}", partial(self._take, action, step))
        for branch in action.unreported:
            if branch.chain in self._senders:
                self._start(f"{ACTION_KEYS}{action.name}/report/{branch.number}", partial(self._report, action, branch))
        for branch, message_id in action.overdue(asked_at):
            name = f"{ACTION_KEYS}{action.name}/retry/{branch.number}/{action.phase.name}/{branch.retries}"
            self._start(name, partial(self._retry_phase, action, branch, message_id))

    async def _retry_phase(self, action: Action, branch: Branch, message_id: bytes) -> None:
        """Retries an unanswered phase within its budget before the level's handler acts (OIP-144)."""
        try:
            done = await self._retry(message_id)
        except RetryFailedError as error:
            self._log_obstacle(f"{action.name}/{branch.number}", str(error))
        else:
            gmps = ", ".join(gmp.label for gmp in sorted(done.gmps))
            _log.info("phase retried", action=action.name, branch=branch.number, phase=action.phase.name, gmps=gmps)

    async def _report(self, action: Action, branch: Branch) -> None:
        """Pays for the report that settles a participant, only once.

        An earlier transaction with the same key is found again.
        """
        key = f"{ACTION_KEYS}{action.name}/report/{branch.number}"
        message = await self._message(action, branch)
        if message is None or await self._senders[branch.chain].outcome(key) is not None:
            return
        try:
            call = await self._report_call(message)
        except RefusedError as error:
            self._log_obstacle(key, str(error))
            return
        receipt = await self._senders[branch.chain].send(key, call)
        _log.info("message outcome reported", action=action.name, branch=branch.number, succeeded=receipt.succeeded)

    async def _take(self, action: Action, step: Step) -> None:
        key = f"{ACTION_KEYS}{action.name}/{step.name}"
        receipt = await self._senders[step.chain].send(key, step.call)
        done = "action advanced" if receipt.succeeded else "action step reverted"
        _log.info(done, action=action.name, step=step.text, transaction=f"0x{receipt.transaction_hash.hex()}")

    def _log_obstacle(self, phase: str, reason: str) -> None:
        if self._last_logged.get(phase) != reason:
            self._last_logged[phase] = reason
            _log.warning("phase not sent", phase=phase, reason=reason)

    def _log_state(self, action: Action) -> None:
        """Logs each new state once, as an error if the chains differ.

        Also logs each obstacle to sending a phase's message.
        """
        for branch in action.branches:
            if reason := action.obstacle(branch):
                self._log_obstacle(f"{action.name}/{branch.number}", reason)
        if self._last_logged.get(action.name) != action.state.name:
            self._last_logged[action.name] = action.state.name
            log = _log.error if action.state.is_stalled else _log.info
            log("action state changed", action=action.name, state=action.state.name, decision=action.decision.name)

    async def _write_letters(self, action: Action) -> None:
        """Writes a letter for each participant that contradicts or has not answered the decision."""
        for branch, failure in failures_of(action, self._clock.now()):
            message = await self._message(action, branch)
            if message is None:
                _log.error(
                    "participant contradicts the decision, and no message reached it",
                    action=action.name,
                    branch=branch.number,
                    reason=failure.message,
                )
            elif await self._letters.mark_action_diverged(
                action.id,
                branch.number,
                message,
                failure,
                reason=action.state.name,
                attempt=branch.retries,
                evidence=evidence_of(action, branch),
            ):
                _log.error(
                    "participant contradicts the decision",
                    action=action.name,
                    branch=branch.number,
                    reason=failure.message,
                    next=f"waybill action show {action.name}",
                )

    async def _message(self, action: Action, branch: Branch) -> Message | None:
        """Returns the message that carries the decision to the participant, or its PREPARE if no decision was sent."""
        for message_id in (branch.decision_id, branch.prepare_id):
            if message_id != _NO_MESSAGE:
                deployed = self._deployment.chain(action.chain)
                return await find_message(message_id, self._observations, self._chains[action.chain], deployed)
        return None


def _name(coordinator: Coordinator, number: int) -> str:
    return f"{coordinator.chain}/{coordinator.address}/{number}"


def failures_of(action: Action, now: float) -> Iterator[tuple[Branch, Failure]]:
    """Yields the participants that contradict or have not answered the decision, each with its failure.

    Args:
        action: The action with its participants' records.
        now: Unix seconds.
    """
    for branch in action.branches:
        says = branch.problem if branch.says is None else branch.says.name
        if branch.state is BranchState.RECONCILED:
            continue  # its owner has resolved it
        if branch in action.contradictions:
            why = f": {branch.reason}" if branch.reason else ""
            text = f"the coordinator decided {action.decision.name}, participant {branch.participant} says {says}{why}"
            yield branch, Failure(at=now, kind=FailureKind.REFUSED, code=_code(action), message=text)
        elif action.state.is_stalled and not branch.state.is_settled:
            seen = says if branch.says is None else f"it says {says}"
            text = f"participant {branch.participant} did not confirm {action.decision.name} in time; {seen}"
            yield branch, Failure(at=now, kind=FailureKind.UNANSWERED, code=_code(action), message=text)


def evidence_of(action: Action, branch: Branch) -> dict[str, Any]:
    """Returns the records of the coordinator, which is authoritative, and of a participant, for a dead letter."""
    return {
        "actionId": action.name,
        "coordinator": action.coordinator,
        "subject": f"0x{action.subject.hex()}",
        "level": action.level.name,
        "state": action.state.name,
        "decision": action.decision.name,
        "cause": action.cause.name,
        "decidedAt": iso_milliseconds(action.decided_at),
        "branch": branch.number,
        "participant": branch.participant,
        "knownToCoordinator": branch.state.name,
        "knownToParticipant": None if branch.says is None else branch.says.name,
        "participantSays": branch.problem if branch.says is None else branch.reason,
    }


def _code(action: Action) -> str:
    stalled = {ActionState.ROLLBACK_INCOMPLETE, ActionState.ABORTING, ActionState.ABORTED}
    return ActionState.ROLLBACK_INCOMPLETE.name if action.state in stalled else ActionState.DIVERGED.name
