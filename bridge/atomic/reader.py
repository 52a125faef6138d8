"""Reads coordinators and participants of atomic actions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from eth_utils import decode_hex

from bridge.atomic.records import (
    Action,
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
from bridge.atomic.steps import COORDINATOR, PARTICIPANT
from bridge.evm.routers import RouterReader
from bridge.protocol.contracts import Contract, explain_revert
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import Call, CallRevertedError, Chain, TransientError, read_view
from bridge.protocol.status import Status

_NO_MESSAGE: Final = bytes(32)
ACTING_PATIENCE: Final = 5.0
"""Timeout of a participant's chain in seconds, so that an action is followed while one of its chains is down."""

SHOWN_PATIENCE: Final = 2.0
"""Timeout of a participant's chain in seconds, for interactive use."""


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Chain and address of a coordinator."""

    chain: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Actions of the coordinators whose chains responded, and the errors of the other chains."""

    actions: Sequence[Action]
    problems: Mapping[Coordinator, TransientError]


class ActionReader:
    """Reads the actions of the given coordinators, with their participants' records.

    Methods raise `UnansweredError` if a coordinator's chain does not respond; methods that read all
    coordinators do so only if no chain responds. If a participant's chain does not respond, its branch says so,
    so that an action can be shown while a chain is down.
    """

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], coordinators: Sequence[Coordinator]
    ) -> None:
        self._deployment = deployment
        self._chains = chains
        self.coordinators = coordinators

    async def count(self, coordinator: Coordinator) -> int:
        """Returns the number of a coordinator's actions, both open and ended."""
        return int(await self._ask(coordinator, "actionCount"))

    async def at(self, coordinator: Coordinator, number: int) -> Action | None:
        """Returns the action with the given number, or None if there is none.

        Does not read its participants' records.
        """
        return await self._action(coordinator, bytes(await self._ask(coordinator, "actionIdOf", number)))

    async def newest(self, limit: int) -> Answers:
        """Returns the newest actions of all coordinators together, without their participants' records.

        Raises:
            UnansweredError: no coordinator's chain responded.
        """

        async def read(coordinator: Coordinator) -> Sequence[Action | None] | TransientError:
            try:
                count = await self.count(coordinator)
                numbers = range(count, max(0, count - limit), -1)
                return await asyncio.gather(*(self.at(coordinator, number) for number in numbers))
            except TransientError as error:
                return error

        answers = await asyncio.gather(*map(read, self.coordinators))
        pairs = list(zip(self.coordinators, answers, strict=True))
        problems = {coordinator: answer for coordinator, answer in pairs if isinstance(answer, TransientError)}
        if problems and len(problems) == len(pairs):
            raise next(iter(problems.values()))
        given = [action for answer in answers if not isinstance(answer, TransientError) for action in answer if action]
        newest = sorted(given, key=lambda action: action.begun_at, reverse=True)
        return Answers(actions=newest[:limit], problems=problems)

    async def find(self, action_id: bytes, patience: float = ACTING_PATIENCE) -> Action | None:
        """Returns an action with its participants' records, or None if no coordinator knows the action.

        Args:
            action_id: Id of the action.
            patience: Timeout of a participant's chain in seconds.
        """
        action = await self._known(action_id)
        if action is None:
            return None
        return await self._with_messages(await self.with_participants(action, patience), patience)

    async def _known(self, action_id: bytes) -> Action | None:
        """Returns an action from the coordinator that knows it.

        A coordinator that does not respond matters only if no other one knows the action.
        """
        answers = await asyncio.gather(
            *(self._action(coordinator, action_id) for coordinator in self.coordinators), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, Action):
                return answer
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return None

    async def with_participants(self, action: Action, patience: float = ACTING_PATIENCE) -> Action:
        """Returns the action, read again, with the records of the participants in its branches.

        Participants are read first, so that their state can't be newer than the decision, which is read afterwards.

        Args:
            action: The action from its coordinator.
            patience: Timeout in seconds for each participant's chain; all are awaited.
        """
        records = await asyncio.gather(*(self._participation(action, branch, patience) for branch in action.branches))
        numbers = [branch.number for branch in action.branches]
        again = await self._action(Coordinator(action.chain, action.coordinator), action.id, numbers)
        if again is None:
            return action  # a reorg has removed it
        branches = [
            replace(branch, participation=record.participation, problem=record.problem)
            for branch, record in zip(again.branches, records, strict=True)
        ]
        return replace(again, branches=tuple(branches))

    async def _with_messages(self, action: Action, patience: float) -> Action:
        """Returns the action with the state of each phase's message."""
        messages = await asyncio.gather(*(self._messages(action, branch, patience) for branch in action.branches))
        branches = (replace(branch, messages=each) for branch, each in zip(action.branches, messages, strict=True))
        return replace(action, branches=tuple(branches))

    async def _ask(self, coordinator: Coordinator, function: str, *arguments: Any) -> Any:
        return await read_view(self._chains[coordinator.chain], COORDINATOR, coordinator.address, function, *arguments)

    async def _action(
        self, coordinator: Coordinator, action_id: bytes, numbers: Sequence[int] | None = None
    ) -> Action | None:
        """Returns an action from its coordinator, with all branches or those in `numbers`.

        Returns None if the action does not exist.
        """
        record = await self._ask(coordinator, "actionOf", action_id)
        initiator, level, state, decision, cause, _, count, number, begun, decided, subject, window = record
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
            window=Window(*window),
            branches=tuple(branches),
        )

    async def _branch(self, coordinator: Coordinator, action_id: bytes, number: int) -> Branch:
        record, dispatch, can_settle = await asyncio.gather(
            self._ask(coordinator, "branchOf", action_id, number),
            _offer(
                self._chains[coordinator.chain], COORDINATOR, coordinator.address, "quoteDispatch", action_id, number
            ),
            self._can_settle(coordinator, action_id, number),
        )
        chain, participant, state, retries, sent_at, prepare_id, decision_id, change = record
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

    async def _participation(self, action: Action, branch: Branch, patience: float) -> Branch:
        chain = self._chains.get(branch.chain)
        if chain is None:
            return replace(branch, problem=f"chain {branch.chain} is not part of this network")
        place = (chain, PARTICIPANT, branch.participant)
        try:
            async with asyncio.timeout(patience):
                record, (holder, until, _), reply = await asyncio.gather(
                    read_view(*place, "participationOf", action.id),
                    read_view(*place, "lockOf", action.subject),
                    _offer(*place, "quoteReply", action.id),
                )
        except TimeoutError:
            return replace(
                branch, problem=f"{self._deployment.chain(branch.chain).name} did not answer within {patience:g} s"
            )
        except (TransientError, CallRevertedError) as error:
            return replace(branch, problem=str(error))
        state, _, _, _, _, _, _, _, reason, reply_id, _ = record
        is_locked = decode_hex(holder) == action.id[-20:]  # `AtomicParticipant._holderOf`
        return replace(
            branch,
            participation=Participation(
                state=BranchState(state),
                reason=_text(bytes(reason)),
                reply_id=bytes(reply_id),
                locked_until=until if is_locked else 0,
                reply=reply,
            ),
        )

    async def _messages(self, action: Action, branch: Branch, patience: float) -> tuple[PhaseMessage, ...]:
        """Returns the state of each phase's message. A chain that just failed to respond is not queried again."""
        decided = Phase.ABORT if action.decision is Decision.ABORT else Phase.COMMIT
        named = [(Phase.PREPARE, branch.prepare_id, branch.chain), (decided, branch.decision_id, branch.chain)]
        participation = branch.participation
        if participation is not None:
            votes = participation.state in (BranchState.PREPARED, BranchState.REFUSED)
            named.append((Phase.VOTE if votes else Phase.FINALIZE, participation.reply_id, action.chain))
        silent = branch.chain if branch.problem else None

        async def read(phase: Phase, message_id: bytes, destination: int) -> PhaseMessage:
            status = None if destination == silent else await self._status(message_id, destination, patience)
            return PhaseMessage(phase=phase, message_id=message_id, status=status)

        sent = [message for message in named if message[1] != _NO_MESSAGE]
        return tuple(await asyncio.gather(*(read(*message) for message in sent)))

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
    """Returns a short text stored in 32 bytes, or hex digits if the bytes are not text."""
    text = word.rstrip(b"\0")
    return text.decode("ascii") if text.isascii() and text.decode("ascii").isprintable() else f"0x{word.hex()}"


async def _offer(chain: Chain, contract: Contract, address: str, function: str, *arguments: Any) -> Offer:
    """Returns a quote from one of Waybill's contracts, or the reason why the call reverts."""
    try:
        return Offer(fee=int(await read_view(chain, contract, address, function, *arguments)))
    except CallRevertedError as error:
        return Offer(refusal=explain_revert(error.data))
