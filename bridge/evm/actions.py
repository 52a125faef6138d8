"""What the bridge asks of coordinators and participants of atomic actions, and the calls that move an action on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from eth_abi.abi import decode, encode
from eth_utils import decode_hex, keccak

from bridge.evm.routers import RouterReader
from bridge.protocol.actions import (
    Action,
    ActionMessage,
    ActionState,
    Branch,
    BranchState,
    Cause,
    Decision,
    Level,
    Offer,
    Participation,
    Phase,
    PhaseMessage,
    Window,
)
from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.contracts import Contract, explain_revert, message_tuple
from bridge.protocol.deployment import Deployment
from bridge.protocol.events import UNDECODABLE, load_abi
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain, TransientError, read_view
from bridge.protocol.status import Status

COORDINATOR: Final = Contract(load_abi("AtomicCoordinator"))
PARTICIPANT: Final = Contract(load_abi("AtomicParticipant"))

_INSTRUCTION: Final = "(uint8,uint8,uint64,uint8,bytes32,(uint32,uint32,uint32,uint32,uint32),bytes)"
"""`Instruction` of contracts/types/Atomic.sol: what a coordinator sends."""

_REPLY: Final = "(uint8,bytes32,uint8,uint8,bytes32)"
"""`Reply`: what a participant sends."""

_NEWEST: Final = 50
"""So many of a coordinator's actions are looked through for those on one subject."""

_NO_MESSAGE: Final = bytes(32)
ACTING_PATIENCE: Final = 5.0
"""Seconds that a participant's chain may take: an action is followed while one of its chains is down."""

SHOWN_PATIENCE: Final = 2.0
"""The same for who waits for the answer on a page or in a terminal, and can look again."""


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Where a coordinator is."""

    chain: int
    address: str


_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Generic[_Answer]):
    """What was read from the coordinators whose chains answer, and why nothing was from the others."""

    given: Sequence[_Answer]
    problems: Mapping[Coordinator, TransientError]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSubject:
    """The other actions on an action's subject, the newest first, without their participants' records."""

    actions: tuple[Action, ...] = ()
    since: int = 1
    """The number of the coordinator's oldest action that was looked at. An older one is there only if it is not finished."""


NOTHING_ELSE: Final = OnSubject()
"""What is on the subject of a coordinator's only action."""


def dispatch_call(action: Action, branch: Branch) -> Call:
    """Sends the present phase's message to a participant, at the fee that was quoted."""
    data = COORDINATOR.encode("dispatch", action.id, branch.number)
    return Call(to=action.coordinator, data=data, value=branch.dispatch.fee or 0)


def reply_call(action: Action, branch: Branch) -> Call:
    """Sends a participant's answer, at the fee that was quoted."""
    fee = branch.participation.reply.fee if branch.participation else None
    return Call(to=branch.participant, data=PARTICIPANT.encode("reply", action.id), value=fee or 0)


def settle_call(action: Action, branch: Branch) -> Call:
    """Takes over how a BEST_EFFORT message ended."""
    return Call(to=action.coordinator, data=COORDINATOR.encode("settle", action.id, branch.number))


def time_out_call(action: Action) -> Call:
    """Ends a phase whose retries and time are used up."""
    return Call(to=action.coordinator, data=COORDINATOR.encode("timeOut", action.id))


def abort_call(action: Action) -> Call:
    """Aborts an action that is not decided."""
    return Call(to=action.coordinator, data=COORDINATOR.encode("abort", action.id))


def reconcile_calls(action: Action, branch: Branch, evidence: bytes) -> tuple[Call, Call]:
    """The participant's own reconciliation, and the one by which the coordinator's owner vouches for it."""
    return (
        Call(to=branch.participant, data=PARTICIPANT.encode("reconcile", action.id)),
        Call(to=action.coordinator, data=COORDINATOR.encode("reconcile", action.id, branch.number, evidence)),
    )


def contract_retry_call(message: Message, sender: str, fees: Sequence[tuple[Gmp, int]], refund_to: str) -> Call:
    """A retry of what a contract has sent, made by the contract itself (`IRouterClient.retry`) for one of its retriers."""
    named = [(int(gmp), fee) for gmp, fee in fees]
    data = COORDINATOR.encode("retry", (message.id, message_tuple(message), 1, named, refund_to))
    return Call(to=sender, data=data, value=sum(fee for _, fee in fees))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that moves an action on, and that anyone may call and pay."""

    name: str  # the same step has the same name
    chain: int
    call: Call
    text: str  # for people


def due_steps(action: Action) -> list[Step]:
    """What can be done about an action now. Each contract has said that it would take the call."""
    if action.is_timed_out:
        done = f"time {action.phase.name} out"
        return [Step(name=f"timeOut/{action.phase.name}", chain=action.chain, call=time_out_call(action), text=done)]
    steps: list[Step] = []
    for branch in action.branches:
        if branch.dispatch.is_open:
            name, call = f"dispatch/{branch.number}/{action.phase.name}", dispatch_call(action, branch)
            text = f"send {action.phase.name} to participant {branch.number}"
            steps.append(Step(name=name, chain=action.chain, call=call, text=text))
        if branch.can_settle:
            name, call = f"settle/{branch.number}", settle_call(action, branch)
            steps.append(Step(name=name, chain=action.chain, call=call, text=f"settle participant {branch.number}"))
        told = branch.participation
        if told is not None and told.reply.is_open and not action.state.is_over:
            name, call = f"reply/{branch.number}/{told.state.name}", reply_call(action, branch)
            text = f"have participant {branch.number} answer {told.state.name}"
            steps.append(Step(name=name, chain=branch.chain, call=call, text=text))
    return steps


async def is_contract_retrier(chain: Chain, sender: str, account: str) -> bool:
    """Whether a message's sender is a contract that lets an account retry what it sends."""
    try:
        answer = await chain.call(Call(to=sender, data=COORDINATOR.encode("isRetrier", account)))
    except CallRevertedError:
        return False
    return answer == (1).to_bytes(32, "big")


def action_message(message: Message, coordinators: Collection[Coordinator]) -> ActionMessage | None:
    """What a message says about an action of one of those coordinators; None if it says nothing about any.

    A coordinator speaks for itself. Who answers in a participant's name is checked by the coordinator, and not here.
    """
    try:
        if Coordinator(message.source_chain, from_bytes32(message.sender)) in coordinators:
            return _instruction(message)
        if Coordinator(message.destination_chain, from_bytes32(message.recipient)) in coordinators:
            return _reply(message.payload)
    except (AddressError, *UNDECODABLE, ValueError):
        return None
    return None


def _instruction(message: Message) -> ActionMessage:
    (found,) = decode([_INSTRUCTION], message.payload)
    phase, level, number, branch, subject, window, change = found
    named = (message.source_chain, from_bytes32(message.sender), number)
    return ActionMessage(
        action_id=keccak(encode(["uint64", "address", "uint64"], named)),  # `AtomicActions.actionIdOf`
        phase=Phase(phase),
        branch=branch,
        level=Level(level),
        subject=bytes(subject),
        window=_window(window),
        change=bytes(change),
    )


def _reply(payload: bytes) -> ActionMessage:
    (found,) = decode([_REPLY], payload)
    phase, action_id, branch, state, reason = found
    why = _text(bytes(reason)) if any(reason) else ""
    return ActionMessage(
        action_id=bytes(action_id), phase=Phase(phase), branch=branch, state=BranchState(state), reason=why
    )


def _window(values: Sequence[int]) -> Window:
    names = ("prepare_ttl", "decision_ttl", "max_retries", "max_backoff", "lock_ttl")
    return Window(**dict(zip(names, values, strict=True)))


class ActionReader:
    """Reads the actions of some coordinators, and what their participants have on record.

    Methods raise `UnansweredError` if a coordinator's chain gives no answer; those about all coordinators, if none does.
    A participant's chain that gives none is named in its branch instead: an action is shown while one of its chains is down.
    """

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], coordinators: Sequence[Coordinator]
    ) -> None:
        self._deployment = deployment
        self._chains = chains
        self.coordinators = coordinators

    async def count(self, coordinator: Coordinator) -> int:
        """How many actions were begun."""
        return int(await self._ask(coordinator, "actionCount"))

    async def at(self, coordinator: Coordinator, number: int) -> Action | None:
        """The action with that number, without its participants' records; None if there is none (any more)."""
        return await self._action(coordinator, bytes(await self._ask(coordinator, "actionIdOf", number)))

    async def newest(self, limit: int) -> Answers[Action]:
        """The newest actions of all coordinators together, without their participants' records."""
        read = await self._of_each(limit, self.at)
        found = sorted(filter(None, read.given), key=lambda action: action.begun_at, reverse=True)
        return Answers(given=found[:limit], problems=read.problems)

    async def states(self, limit: int) -> Answers[ActionState]:
        """The states of the newest actions of each coordinator: cheaper than the actions themselves."""
        read = await self._of_each(limit, self._state)
        return Answers(given=[state for state in read.given if state is not ActionState.NONE], problems=read.problems)

    async def _of_each(self, limit: int, read: Callable[[Coordinator, int], Awaitable[_Answer]]) -> Answers[_Answer]:
        """What is read of each coordinator's newest actions. All coordinators are asked at once.

        Raises:
            UnansweredError: none of them answers.
        """

        async def read_newest(coordinator: Coordinator) -> Sequence[_Answer] | TransientError:
            try:
                count = await self.count(coordinator)
                numbers = range(count, max(0, count - limit), -1)
                return await asyncio.gather(*(read(coordinator, number) for number in numbers))
            except TransientError as error:
                return error

        told = await asyncio.gather(*map(read_newest, self.coordinators))
        pairs = list(zip(self.coordinators, told, strict=True))
        problems = {coordinator: answer for coordinator, answer in pairs if isinstance(answer, TransientError)}
        if problems and len(problems) == len(pairs):
            raise next(iter(problems.values()))
        given = [one for _, answer in pairs if not isinstance(answer, TransientError) for one in answer]
        return Answers(given=given, problems=problems)

    async def _state(self, coordinator: Coordinator, number: int) -> ActionState:
        action_id = await self._ask(coordinator, "actionIdOf", number)
        return ActionState((await self._ask(coordinator, "actionOf", action_id))[2])

    async def find(self, action_id: bytes, patience: float = ACTING_PATIENCE) -> Action | None:
        """An action with all that its participants say; None if no coordinator knows it.

        Args:
            action_id: its id.
            patience: seconds that a participant's chain may take.
        """
        action = await self._known(action_id)
        if action is None:
            return None
        return await self._with_messages(await self.with_participants(action, patience), patience)

    async def _known(self, action_id: bytes) -> Action | None:
        """An action by the coordinator that has it. Another one, whose chain is down, matters only if none has it."""
        asked = [asyncio.create_task(self._action(coordinator, action_id)) for coordinator in self.coordinators]
        failure: TransientError | None = None
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    action = await answer
                except TransientError as error:
                    failure = error
                else:
                    if action is not None:
                        return action
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if failure is not None:
            raise failure
        return None

    async def on_subject(self, action: Action) -> OnSubject:
        """Other actions of its coordinator on its subject: among the newest, and the unfinished one that occupies it."""
        coordinator = Coordinator(action.chain, action.coordinator)
        count, present = await asyncio.gather(
            self.count(coordinator), self._ask(coordinator, "actionOn", action.subject)
        )
        since = max(1, count - _NEWEST + 1)
        numbers = [number for number in range(count, since - 1, -1) if number != action.number]
        ids = await asyncio.gather(*(self._ask(coordinator, "actionIdOf", number) for number in numbers))
        kept = await asyncio.gather(*(self._ask(coordinator, "actionOf", action_id) for action_id in ids))
        same = [bytes(one) for one, record in zip(ids, kept, strict=True) if bytes(record[10]) == action.subject]
        if any(present) and bytes(present) not in (action.id, *same):
            same.append(bytes(present))  # older than all of them
        found = await asyncio.gather(*(self._action(coordinator, action_id) for action_id in same))
        return OnSubject(actions=tuple(one for one in found if one is not None), since=since)

    async def with_participants(self, action: Action, patience: float = ACTING_PATIENCE) -> Action:
        """The same action with what its participants say, or those of them that it is given with.

        They are read first: what one of them has done must follow from the decision that is read afterwards.

        Args:
            action: as its coordinator has it.
            patience: seconds that a participant's chain may take. All are waited for.
        """
        told = await asyncio.gather(*(self._participation(action, branch, patience) for branch in action.branches))
        numbers = [branch.number for branch in action.branches]
        again = await self._action(Coordinator(action.chain, action.coordinator), action.id, numbers)
        if again is None:
            return action  # a reorg took it away in between
        branches = [
            replace(branch, participation=one.participation, problem=one.problem)
            for branch, one in zip(again.branches, told, strict=True)
        ]
        return replace(again, branches=tuple(branches))

    async def _with_messages(self, action: Action, patience: float) -> Action:
        """The same action, read with its participants, with how far each phase's message is."""
        seen = await asyncio.gather(*(self._messages(action, branch, patience) for branch in action.branches))
        return replace(
            action,
            branches=tuple(replace(branch, messages=one) for branch, one in zip(action.branches, seen, strict=True)),
        )

    async def _ask(self, coordinator: Coordinator, function: str, *arguments: Any) -> Any:
        return await read_view(self._chains[coordinator.chain], COORDINATOR, coordinator.address, function, *arguments)

    async def _action(
        self, coordinator: Coordinator, action_id: bytes, numbers: Sequence[int] | None = None
    ) -> Action | None:
        """An action as its coordinator has it, with all its participants or those of these numbers; None if it has none."""
        found = await self._ask(coordinator, "actionOf", action_id)
        initiator, level, state, decision, cause, _, count, number, begun, decided, subject, window = found
        if ActionState(state) is ActionState.NONE:
            return None
        ends, timed_out, *branches = await asyncio.gather(
            self._ask(coordinator, "phaseEndsAt", action_id),
            self._ask(coordinator, "isTimedOut", action_id),
            *(
                self._branch(coordinator, action_id, number)
                for number in (range(count) if numbers is None else numbers)
            ),
        )
        return Action(
            id=action_id,
            chain=coordinator.chain,
            coordinator=coordinator.address,
            number=number,
            initiator=initiator,
            level=Level(level),
            state=ActionState(state),
            decision=Decision(decision),
            cause=Cause(cause),
            subject=bytes(subject),
            begun_at=begun,
            decided_at=decided,
            phase_ends_at=ends,
            is_timed_out=timed_out,
            window=_window(window),
            branches=tuple(branches),
        )

    async def _branch(self, coordinator: Coordinator, action_id: bytes, number: int) -> Branch:
        asked = (coordinator, action_id, number)
        found, dispatch, can_settle = await asyncio.gather(
            self._ask(coordinator, "branchOf", action_id, number),
            self._offer(self._ask(coordinator, "quoteDispatch", action_id, number)),
            self._can_settle(*asked),
        )
        chain, participant, state, retries, sent_at, prepare_id, decision_id, change = found
        return Branch(
            number=number,
            chain=chain,
            participant=participant,
            state=BranchState(state),
            retries=retries,
            sent_at=sent_at,
            prepare_id=bytes(prepare_id),
            decision_id=bytes(decision_id),
            change=bytes(change),
            dispatch=dispatch,
            can_settle=can_settle,
        )

    async def _can_settle(self, coordinator: Coordinator, action_id: bytes, number: int) -> bool:
        call = Call(to=coordinator.address, data=COORDINATOR.encode("settle", action_id, number))
        try:
            await self._chains[coordinator.chain].call(call)
        except CallRevertedError:
            return False
        return True

    async def _offer(self, quote: Any) -> Offer:
        """The quote; None if the contracts refuse one, since it can't be sent now."""
        try:
            return Offer(fee=int(await quote))
        except CallRevertedError as error:
            return Offer(refusal=explain_revert(error.data))

    async def _participation(self, action: Action, branch: Branch, patience: float) -> Branch:
        chain = self._chains.get(branch.chain)
        if chain is None:
            return replace(branch, problem=f"chain {branch.chain} is not of this network")
        place = (chain, PARTICIPANT, branch.participant)
        try:
            async with asyncio.timeout(patience):
                found, (holder, until, _), diverged, reply = await asyncio.gather(
                    read_view(*place, "participationOf", action.id),
                    read_view(*place, "lockOf", action.subject),
                    read_view(*place, "divergedOn", action.subject),
                    self._offer(read_view(*place, "quoteReply", action.id)),
                )
        except TimeoutError:
            return replace(
                branch, problem=f"{self._deployment.chain(branch.chain).name} does not answer within {patience:g} s"
            )
        except (TransientError, CallRevertedError) as error:
            return replace(branch, problem=str(error))
        state, _, _, _, _, _, _, _, reason, reply_id, _ = found
        is_locked = decode_hex(holder) == action.id[-20:]  # `AtomicParticipant._holderOf`
        return replace(
            branch,
            participation=Participation(
                state=BranchState(state),
                reason=_text(bytes(reason)),
                reply_id=bytes(reply_id),
                is_locked=is_locked,
                locked_until=until if is_locked else 0,
                reply=reply,
                diverged_on=bytes(diverged),
            ),
        )

    async def _messages(self, action: Action, branch: Branch, patience: float) -> tuple[PhaseMessage, ...]:
        """A chain that has just been silent about its participant is not asked about messages."""
        named = [
            (Phase.PREPARE, branch.prepare_id, action.chain, branch.chain),
            (
                Phase.ABORT if action.decision is Decision.ABORT else Phase.COMMIT,
                branch.decision_id,
                action.chain,
                branch.chain,
            ),
        ]
        told = branch.participation
        if told is not None:
            votes = told.state in (BranchState.PREPARED, BranchState.REFUSED)
            named.append((Phase.VOTE if votes else Phase.FINALIZE, told.reply_id, branch.chain, action.chain))
        silent = branch.chain if branch.problem else None

        async def read(phase: Phase, message_id: bytes, source: int, destination: int) -> PhaseMessage:
            return PhaseMessage(
                phase=phase,
                message_id=message_id,
                source_chain=source,
                destination_chain=destination,
                status=None if destination == silent else await self._status(message_id, destination, patience),
            )

        sent = [one for one in named if one[1] != _NO_MESSAGE]
        return tuple(await asyncio.gather(*(read(*one) for one in sent)))

    async def _status(self, message_id: bytes, destination: int, patience: float) -> Status | None:
        if destination not in self._chains:
            return None
        router = RouterReader(self._chains[destination], self._deployment.chain(destination).router)
        try:
            async with asyncio.timeout(patience):
                progress = await router.progress(message_id)
        except (TimeoutError, TransientError, CallRevertedError):
            return None
        if progress.outcome is not None:
            return progress.outcome
        return Status.RECEIVED if progress.receipts else Status.ROUTED


def _text(word: bytes) -> str:
    """A short text that a contract keeps in 32 bytes, as hex digits if it is none."""
    text = word.rstrip(b"\0")
    return text.decode("ascii") if text.isascii() and text.decode("ascii").isprintable() else f"0x{word.hex()}"
