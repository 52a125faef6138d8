"""Follows atomic actions: moves them on, and writes a letter for a participant that is not where the decision wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
from eth_utils.address import to_checksum_address
from pydantic import Field

from bridge.client import RefusedError
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.evm.actions import ActionReader, Coordinator, Step, due_steps
from bridge.evm.sender import Sending
from bridge.evm.supervision import run_forever
from bridge.protocol.actions import Action, ActionState, Branch, BranchState
from bridge.protocol.contracts import explain_revert
from bridge.protocol.deployment import COORDINATOR_EXAMPLE, Deployment
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain, Clock, TransientError
from bridge.records.spending import SpendBlockedError
from bridge.relayer.retries import Retried, RetryFailedError
from bridge.relayer.retry_planning import find_message
from bridge.settings import Addresses, Section
from bridge.store.observations import Observations

_log = structlog.get_logger(__name__)

ACTION_KEYS: Final = "action/"
"""How the transaction keys of all steps of actions begin."""

_NO_MESSAGE: Final = bytes(32)


class ActionSettings(Section):
    """Which atomic actions are followed, and whether they are moved on; times in seconds."""

    coordinators: dict[str, Addresses] = Field(
        default={}, description="by chain, the coordinators whose actions are followed, beside the network's examples"
    )
    advance: bool = Field(
        default=False, description="whether the relayer pays for what anyone may call: phases, answers, time-outs"
    )
    poll_interval: float = Field(default=5.0, gt=0, description="between two looks at actions that are not over")

    def named(self, deployment: Deployment) -> tuple[Coordinator, ...]:
        """The coordinators on a network; those on chains that it does not have are left out."""
        found: dict[Coordinator, None] = {}  # in order, each once
        for chain in deployment.chains:
            examples = [chain.examples[COORDINATOR_EXAMPLE]] if COORDINATOR_EXAMPLE in chain.examples else []
            for address in [*examples, *sorted(self.coordinators.get(chain.name, frozenset()))]:
                found[Coordinator(chain.chain_id, to_checksum_address(address))] = None
        return tuple(found)


class Actions:
    """Follows every action of its coordinators to its end.

    An action is left alone once it is over and each participant's own record bears the decision out. What was read and what is
    under way is in memory alone: after a restart all actions are looked at again, and the contracts refuse what is done.
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
    ) -> None:
        """Reads nothing yet.

        Args:
            reader: of the coordinators.
            deployment: the network.
            chains: its chains by id.
            observations: messages that this relayer has seen.
            senders: those who pay for steps, by chain.
            next_look: returns when a chain is looked at anyhow, so that asking it costs no HTTP request more.
            retry: sends a message again without asking its destination, which may be down.
            report_call: makes the call by which a message's destination reports how it ended.
            dead_letters: where letters are written.
            clock: time.
            settings: whether to pay for steps, and how often to look.
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
        self._over: set[tuple[Coordinator, int]] = set()
        self._agreed: dict[tuple[Coordinator, int], set[int]] = {}  # participants with whom nothing is left to follow
        self._active: dict[str, asyncio.Task[None]] = {}
        self._told: dict[str, str] = {}  # by action, what was logged last

    async def run(self) -> None:
        """Follows until it is cancelled. A coordinator whose chain is down holds up no other."""
        every = self._settings.poll_interval
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
        """Starts to look at every action of a coordinator that is not over; never more is to be done at once."""
        await self._next_look(coordinator.chain)
        for number in range(1, await self._reader.count(coordinator) + 1):
            if (coordinator, number) not in self._over:
                self._start(_name(coordinator, number), partial(self._follow, coordinator, number))
        return False

    async def settled(self) -> None:
        """Waits until nothing is under way."""
        while self._active:
            await asyncio.gather(*self._active.values())

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Has something done in a task of its own, unless it is under way: a chain that is down holds up nothing else."""
        if name in self._active:
            return
        task = asyncio.get_running_loop().create_task(self._guarded(name, work))
        self._active[name] = task
        task.add_done_callback(lambda _: self._active.pop(name, None))

    async def _guarded(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (TransientError, SpendBlockedError) as error:
            _log.warning("action not followed now", what=name, reason=str(error))
        except CallRevertedError as error:
            _log.info("step of an action is not needed any more", what=name, reason=explain_revert(error.data))
        except Exception:  # noqa: BLE001  # whatever it is, the action is looked at again
            _log.exception("action can't be followed", what=name)

    async def _follow(self, coordinator: Coordinator, number: int) -> None:
        action = await self._reader.at(coordinator, number)
        if action is None:
            return  # a reorg took it away
        self._tell(action)
        self._advance(action, self._clock.now())  # what its coordinator takes does not wait for participants
        for branch in action.branches:
            name = f"{_name(coordinator, number)}/{branch.number}"
            self._start(name, partial(self._hear, coordinator, action, branch))

    async def _hear(self, coordinator: Coordinator, action: Action, branch: Branch) -> None:
        """Asks one participant, and does what its answer asks for. None waits for another whose chain is down."""
        agreed = self._agreed.setdefault((coordinator, action.number), set())
        agreed.discard(branch.number)  # what is asked now may contradict what was read before
        asked_at = self._clock.now()
        part = await self._reader.with_participants(replace(action, branches=(branch,)))
        await self._judge(part)
        self._advance(part, asked_at)
        if part.agrees:
            self._letters.close_action(part, {"by": part.name, "state": part.state.name})
            if not self._owes_report(part):
                agreed.add(branch.number)
        if len(agreed) == len(action.branches):
            self._over.add((coordinator, action.number))
            self._agreed.pop((coordinator, action.number), None)

    def _owes_report(self, action: Action) -> bool:
        """Whether this relayer pays for telling the coordinator how a participant ended, which counts after a time-out too."""
        untold = (branch.chain for branch in action.branches if branch.can_settle or branch in action.unreported)
        return self._settings.advance and any(chain in self._senders for chain in untold)

    def _advance(self, action: Action, asked_at: float) -> None:
        """Starts what anyone may call, if this relayer pays for that.

        Args:
            action: as it was read.
            asked_at: Unix seconds, before it was read. What arrives while a chain answers is not late.
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
            self._start(name, partial(self._again, action, branch, message_id))

    async def _again(self, action: Action, branch: Branch, message_id: bytes) -> None:
        """OIP-144: a phase that was not answered is retried within its budget, before the level's handler acts."""
        try:
            done = await self._retry(message_id)
        except RetryFailedError as error:
            self._tell_once(f"{action.name}/{branch.number}", str(error))
        else:
            gmps = ", ".join(gmp.label for gmp in sorted(done.gmps))
            _log.info("phase sent again", action=action.name, branch=branch.number, phase=action.phase.name, gmps=gmps)

    async def _report(self, action: Action, branch: Branch) -> None:
        """Pays for the report that settles a participant, once: what was sent for its key is found again."""
        key = f"{ACTION_KEYS}{action.name}/report/{branch.number}"
        message = await self._message(action, branch)
        if message is None or await self._senders[branch.chain].outcome(key) is not None:
            return
        try:
            call = await self._report_call(message)
        except RefusedError as error:
            self._tell_once(key, str(error))
            return
        receipt = await self._senders[branch.chain].send(key, call)
        _log.info("end of a message reported", action=action.name, branch=branch.number, succeeded=receipt.succeeded)

    async def _take(self, action: Action, step: Step) -> None:
        key = f"{ACTION_KEYS}{action.name}/{step.name}"
        receipt = await self._senders[step.chain].send(key, step.call)
        done = "action moved on" if receipt.succeeded else "step of an action reverted"
        _log.info(done, action=action.name, step=step.text, transaction=f"0x{receipt.transaction_hash.hex()}")

    def _tell_once(self, what: str, reason: str) -> None:
        if self._told.get(what) != reason:
            self._told[what] = reason
            _log.warning("phase not sent", what=what, reason=reason)

    def _tell(self, action: Action) -> None:
        """Logs each state once, loudly if the chains differ, and what keeps a phase from being sent."""
        for branch in action.branches:
            if reason := action.obstacle(branch):
                self._tell_once(f"{action.name}/{branch.number}", reason)
        if self._told.get(action.name) != action.state.name:
            self._told[action.name] = action.state.name
            log = _log.error if action.state.is_stalled else _log.info
            log("action", action=action.name, state=action.state.name, decision=action.decision.name)

    async def _judge(self, action: Action) -> None:
        """Writes a letter for each participant that contradicts the decision, or is silent after it."""
        for branch, failure in failures_of(action, self._clock.now()):
            message = await self._message(action, branch)
            if message is None:
                _log.error(
                    "participant is not where the decision wants it, and got no message yet",
                    action=action.name,
                    branch=branch.number,
                    reason=failure.message,
                )
            elif await self._letters.mark_action_diverged(action, branch, message, failure):
                _log.error(
                    "participant is not where the decision wants it",
                    action=action.name,
                    branch=branch.number,
                    reason=failure.message,
                    next=f"waybill action show {action.name}",
                )

    async def _message(self, action: Action, branch: Branch) -> Message | None:
        """What carries the decision to the participant, or its PREPARE where the decision was not sent."""
        for message_id in (branch.decision_id, branch.prepare_id):
            if message_id != _NO_MESSAGE:
                deployed = self._deployment.chain(action.chain)
                return await find_message(message_id, self._observations, self._chains[action.chain], deployed)
        return None


def _name(coordinator: Coordinator, number: int) -> str:
    return f"{coordinator.chain}/{coordinator.address}/{number}"


def failures_of(action: Action, now: float) -> Iterator[tuple[Branch, Failure]]:
    """The participants that are not where the decision wants them, and what is wrong with each.

    Args:
        action: with its participants' records.
        now: Unix seconds.
    """
    against = {found.branch.number: found for found in action.contradictions}
    for branch in action.branches:
        found = against.get(branch.number)
        if branch.state is BranchState.RECONCILED:
            continue  # its owner vouches for it
        if found is not None:
            why = f": {found.reason}" if found.reason else ""
            text = f"the coordinator decided {action.decision.name}, participant {branch.participant} says {found.found.name}{why}"
            yield branch, Failure(at=now, kind=FailureKind.REFUSED, code=_code(action), message=text)
        elif action.state.is_stalled and not branch.state.is_settled:
            seen = f"it says {branch.participation.state.name}" if branch.participation else branch.problem
            text = f"participant {branch.participant} did not confirm {action.decision.name} in time; {seen}"
            yield branch, Failure(at=now, kind=FailureKind.UNANSWERED, code=_code(action), message=text)


def _code(action: Action) -> str:
    stalled = {ActionState.ROLLBACK_INCOMPLETE, ActionState.ABORTING, ActionState.ABORTED}
    return ActionState.ROLLBACK_INCOMPLETE.name if action.state in stalled else ActionState.DIVERGED.name
