"""Coordinator and participants of atomic actions on simulated chains: contracts/atomic over again, as far as a relayer can tell.

The first chain has the coordinator, each other one a participant. A change sets the subject's value. An owner's local act closes a
participant: its guards refuse every change until it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from eth_abi.abi import decode, encode
from eth_utils import keccak
from eth_utils.abi import collapse_if_tuple
from eth_utils.address import to_checksum_address

from bridge.atomic.reader import COORDINATOR, PARTICIPANT
from bridge.atomic.records import ActionState, BranchState, Cause, Decision, Level, Phase, Window
from bridge.protocol.events import load_abi
from bridge.protocol.message import Kind, Message
from tests.support.simulation.reverts import refusal

COORDINATOR_ADDRESS: Final = to_checksum_address("0x" + "c0" * 20)
PARTICIPANT_ADDRESS: Final = to_checksum_address("0x" + "c1" * 20)

SUBJECTS: Final = (keccak(text="gold"), keccak(text="silver"))
OPENED: Final = b"as it was"
"""A subject's value before any action."""

_NONE: Final = bytes(32)
_UNSETTLED: Final = frozenset({BranchState.NONE, BranchState.PREPARED, BranchState.DIVERGED})
_STALLED: Final = frozenset({ActionState.DIVERGED, ActionState.ROLLBACK_INCOMPLETE})
_INSTRUCTION: Final = ("uint8", "uint8", "uint64", "uint8", "bytes32", "(uint32,uint32,uint32,uint32,uint32)", "bytes")
_REPLY: Final = ("uint8", "bytes32", "uint8", "uint8", "bytes32")


class Sends(Protocol):
    """Routes a message of a contract; returns its id."""

    def __call__(self, sender: str, destination: int, recipient: str, payload: bytes, *, kind: Kind, ttl: int) -> bytes:
        """See above."""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """What the coordinator keeps of an action."""

    number: int
    level: Level
    subject: bytes
    window: Window
    begun_at: int
    chains: tuple[int, ...]  # of its participants
    state: ActionState = ActionState.PREPARING
    decision: Decision = Decision.NONE
    cause: Cause = Cause.NONE
    decided_at: int = 0
    branches: tuple[BranchRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """What the coordinator keeps of a participant's part."""

    state: BranchState = BranchState.NONE
    retries: int = 0
    sent_at: int = 0
    prepare_id: bytes = _NONE
    decision_id: bytes = _NONE


@dataclass(frozen=True, slots=True)
class PartRecord:
    """What a participant keeps of an action."""

    level: Level
    branch: int
    subject: bytes
    state: BranchState = BranchState.NONE
    vote_ttl: int = 0
    lock_ttl: int = 0
    reason: bytes = _NONE
    reply_id: bytes = _NONE
    change: bytes = b""


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The last lock of a subject."""

    action_id: bytes
    taken_at: int
    until: int


@dataclass(slots=True)
class Atomics:
    """The contracts of one chain. Methods change it; what raises leaves it to be thrown away."""

    chain_id: int
    home: int = 0  # the coordinator's chain; 0: there are no actions in this world
    actions: dict[bytes, ActionRecord] = field(default_factory=dict)
    places: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    parts: dict[bytes, PartRecord] = field(default_factory=dict)
    locks: dict[bytes, LockRecord] = field(default_factory=dict)
    diverged: dict[bytes, bytes] = field(default_factory=dict)
    values: dict[bytes, bytes] = field(default_factory=dict)
    messages: dict[bytes, Message] = field(default_factory=dict)  # that these contracts sent
    closed: frozenset[bytes] = frozenset()
    retrier: str = ""

    def copy(self) -> Atomics:
        """The same, to be changed."""
        return Atomics(
            self.chain_id,
            self.home,
            dict(self.actions),
            dict(self.places),
            dict(self.parts),
            dict(self.locks),
            dict(self.diverged),
            dict(self.values),
            dict(self.messages),
            self.closed,
            self.retrier,
        )

    # --- the coordinator

    def begin(self, level: Level, subject: bytes, window: Window, chains: Sequence[int], now: int) -> bytes | None:
        """A new action; None if the subject is busy."""
        if any(
            one.subject == subject and not one.state.is_over and one.level is not Level.BEST_EFFORT
            for one in self.actions.values()
        ):
            return None
        number = len(self.actions) + 1
        action_id = action_id_of(self.chain_id, number)
        self.actions[action_id] = ActionRecord(
            number, level, subject, window, now, tuple(chains), branches=tuple(BranchRecord() for _ in chains)
        )
        if level is not Level.ALL_OR_NOTHING:
            self._decide(action_id, Decision.COMMIT, Cause.LEVEL, now)
        return action_id

    def abort(self, action_id: bytes, now: int) -> None:
        """The initiator's; nothing if it is decided."""
        if self.actions[action_id].decision is Decision.NONE:
            self._decide(action_id, Decision.ABORT, Cause.CANCELLED, now)

    def _decide(self, action_id: bytes, decision: Decision, cause: Cause, now: int) -> None:
        state = ActionState.COMMITTING if decision is Decision.COMMIT else ActionState.ABORTING
        one = self.actions[action_id]
        assert one.decision is Decision.NONE
        branches = tuple(replace(branch, retries=0, sent_at=0) for branch in one.branches)
        self.actions[action_id] = replace(
            one, decision=decision, cause=cause, decided_at=now, state=state, branches=branches
        )
        for place, branch in enumerate(branches):
            if decision is Decision.COMMIT:
                continue
            if branch.state is BranchState.REFUSED:
                self._settle(action_id, place, BranchState.REFUSED)
            elif branch.state is BranchState.NONE and branch.prepare_id == _NONE:
                self._settle(action_id, place, BranchState.RELEASED)

    def _settle(self, action_id: bytes, place: int, state: BranchState) -> None:
        self._set_branch(action_id, place, state=state)
        one = self.actions[action_id]
        if any(branch.state in _UNSETTLED for branch in one.branches) or one.state.is_over:
            return
        over = ActionState.COMMITTED if one.decision is Decision.COMMIT else ActionState.ABORTED
        self.actions[action_id] = replace(one, state=over)

    def _stall(self, action_id: bytes) -> None:
        one = self.actions[action_id]
        stalled = ActionState.DIVERGED if one.decision is Decision.COMMIT else ActionState.ROLLBACK_INCOMPLETE
        self.actions[action_id] = replace(one, state=stalled)

    def _set_branch(self, action_id: bytes, place: int, **changes: Any) -> None:
        one = self.actions[action_id]
        branches = list(one.branches)
        branches[place] = replace(branches[place], **changes)
        self.actions[action_id] = replace(one, branches=tuple(branches))

    def take_reply(self, message: Message, now: int) -> None:
        """VOTE or FINALIZE arrives."""
        phase, action_id, place, reported, _ = decode([f"({','.join(_REPLY)})"], message.payload)[0]
        one = self.actions.get(action_id)
        if one is None:
            raise refusal("UnknownAction(bytes32)", action_id)
        if one.chains[place] != message.source_chain:
            raise refusal(
                "NotParticipant(bytes32,uint64,address)", action_id, message.source_chain, PARTICIPANT_ADDRESS
            )
        if Phase(phase) is Phase.VOTE:
            self._count_vote(action_id, place, BranchState(reported), now)
        else:
            self._finalize(action_id, place, BranchState(reported), now)

    def _count_vote(self, action_id: bytes, place: int, reported: BranchState, now: int) -> None:
        one, yes = self.actions[action_id], reported is BranchState.PREPARED
        if one.branches[place].state is not BranchState.NONE:
            return
        if one.decision is not Decision.NONE:
            if not yes and one.decision is Decision.ABORT and not one.state.is_over:
                self._settle(action_id, place, BranchState.REFUSED)
            return
        self._set_branch(action_id, place, state=BranchState.PREPARED if yes else BranchState.REFUSED)
        voted = all(branch.state is not BranchState.NONE for branch in self.actions[action_id].branches)
        if not yes:
            self._decide(action_id, Decision.ABORT, Cause.REFUSED, now)
        elif now > _decide_by(one):
            self._decide(action_id, Decision.ABORT, Cause.TIMED_OUT, now)
        elif voted:
            self._decide(action_id, Decision.COMMIT, Cause.ALL_PREPARED, now)

    def _finalize(self, action_id: bytes, place: int, reported: BranchState, now: int) -> None:
        one = self.actions[action_id]
        if one.state.is_over or one.branches[place].state not in _UNSETTLED:
            return
        if one.decision is Decision.NONE:
            self._set_branch(action_id, place, state=BranchState.DIVERGED)
            self._decide(action_id, Decision.ABORT, Cause.CONTRADICTED, now)
            one = self.actions[action_id]
        expected = BranchState.APPLIED if one.decision is Decision.COMMIT else BranchState.RELEASED
        if reported is expected:
            self._settle(action_id, place, reported)
        else:
            self._set_branch(action_id, place, state=BranchState.DIVERGED)
            self._stall(action_id)

    def _message_for(self, action_id: bytes, place: int, now: int) -> tuple[Phase, bytes, Kind, int]:
        one = self.actions.get(action_id)
        if one is None:
            raise refusal("UnknownAction(bytes32)", action_id)
        branch = one.branches[place]
        if one.state.is_over:
            raise refusal("WrongState(bytes32,uint8)", action_id, one.state)
        if not _owes_answer(one, branch):
            raise refusal("NothingToDispatch(bytes32,uint256)", action_id, place)
        phase = {Decision.NONE: Phase.PREPARE, Decision.COMMIT: Phase.COMMIT, Decision.ABORT: Phase.ABORT}[one.decision]
        sent = branch.prepare_id if phase is Phase.PREPARE else branch.decision_id
        if sent != _NONE:
            raise refusal("AlreadyDispatched(bytes32,uint256,bytes32)", action_id, place, sent)
        ttl = 0
        if phase is Phase.PREPARE or one.level is Level.BEST_EFFORT:
            ttl = one.begun_at + one.window.prepare_ttl - now
            if ttl <= 0:
                raise refusal("PhaseOver(bytes32,uint64)", action_id, now + ttl)
        change = change_of(action_id)
        fields = (phase, one.level, one.number, place, one.subject, _times(one.window), change)
        payload = encode([f"({','.join(_INSTRUCTION)})"], [fields])
        return phase, payload, Kind.LOCK_MANAGEMENT if phase is Phase.PREPARE else Kind.PLAIN, ttl

    def _dispatch(self, action_id: bytes, place: int, now: int, send: Sends) -> bytes:
        phase, payload, kind, ttl = self._message_for(action_id, place, now)
        chain = self.actions[action_id].chains[place]
        message_id = send(COORDINATOR_ADDRESS, chain, PARTICIPANT_ADDRESS, payload, kind=kind, ttl=ttl)
        field_name = "prepare_id" if phase is Phase.PREPARE else "decision_id"
        self._set_branch(action_id, place, sent_at=now, **{field_name: message_id})
        self.places[message_id] = (action_id, place)
        return message_id

    def before_retry(self, message_id: bytes, now: int) -> None:
        """The budget of a phase."""
        if message_id not in self.places:
            return
        action_id, place = self.places[message_id]
        one = self.actions[action_id]
        branch = one.branches[place]
        present = branch.prepare_id if one.decision is Decision.NONE else branch.decision_id
        if one.state.is_over or message_id != present or not _owes_answer(one, branch):
            raise refusal("NothingToDispatch(bytes32,uint256)", action_id, place)
        if one.decision is Decision.NONE and branch.retries >= one.window.max_retries:
            raise refusal("RetriesExhausted(bytes32,uint256,uint32)", action_id, place, branch.retries)
        self._set_branch(action_id, place, retries=branch.retries + 1, sent_at=now)

    def _phase_ends_at(self, action_id: bytes) -> int:
        one = self.actions.get(action_id)
        if one is None or one.state.is_over:
            return 0
        if one.level is Level.BEST_EFFORT:
            return one.begun_at + one.window.prepare_ttl
        if one.decision is Decision.NONE:
            return _decide_by(one)
        return one.decided_at + one.window.max_retries * one.window.max_backoff

    def _is_timed_out(self, action_id: bytes, now: int) -> bool:
        one = self.actions.get(action_id)
        if one is None or one.state.is_over or one.state in _STALLED:
            return False
        if now > self._phase_ends_at(action_id):
            return True
        return one.level is not Level.BEST_EFFORT and any(
            _owes_answer(one, branch)
            and branch.sent_at
            and branch.retries >= one.window.max_retries
            and now > branch.sent_at + one.window.max_backoff
            for branch in one.branches
        )

    def _time_out(self, action_id: bytes, now: int) -> None:
        one = self.actions.get(action_id)
        if one is None or not self._is_timed_out(action_id, now):
            raise refusal("NotTimedOut(bytes32,uint64)", action_id, self._phase_ends_at(action_id))
        if one.decision is Decision.NONE:
            self._decide(action_id, Decision.ABORT, Cause.TIMED_OUT, now)
        elif one.level is Level.BEST_EFFORT:
            self.actions[action_id] = replace(one, state=ActionState.PARTIALLY_COMMITTED)
        else:
            self._stall(action_id)

    # --- a participant

    def lock(self, subject: bytes, now: int) -> LockRecord | None:
        """The subject's lock, unless it has ended."""
        one = self.locks.get(subject)
        return one if one is not None and one.until > now else None

    def act_locally(self, subject: bytes, now: int, *, closed: bool) -> bool:
        """The owner closes or opens the guards, if no action holds the subject and none diverged on it."""
        if self.lock(subject, now) is not None or subject in self.diverged:
            return False
        self.closed = self.closed | {subject} if closed else self.closed - {subject}
        return True

    def reconcile(self, action_id: bytes, now: int) -> None:
        """The owner makes the change of a diverged action."""
        part = self.parts.get(action_id)
        if part is None or part.state is not BranchState.DIVERGED or self.lock(part.subject, now) is not None:
            return
        del self.diverged[part.subject]
        self._apply(action_id, replace(part, reason=_NONE))

    def take_instruction(self, message: Message, now: int) -> None:
        """PREPARE, COMMIT or ABORT arrives."""
        (found,) = decode([f"({','.join(_INSTRUCTION)})"], message.payload)
        phase, level, number, place, subject, window, change = found
        action_id = action_id_of(message.source_chain, number)
        part = self.parts.get(action_id) or PartRecord(Level(level), place, bytes(subject))
        if Phase(phase) is Phase.PREPARE:
            self._prepare(action_id, part, Window(**_named(window)), bytes(change), now)
        elif Phase(phase) is Phase.COMMIT:
            self._commit(action_id, part, bytes(change), now)
        else:
            self._release(action_id, part, now)

    def _prepare(self, action_id: bytes, part: PartRecord, window: Window, change: bytes, now: int) -> None:
        if part.state is not BranchState.NONE:
            return
        held = self.lock(part.subject, now)
        if held is not None:
            raise refusal("LockHeld(bytes32,address,uint64)", part.subject, _holder(held.action_id), held.until)
        part = replace(part, vote_ttl=window.prepare_ttl + window.decision_ttl, lock_ttl=window.lock_ttl)
        if part.subject in self.closed or part.subject in self.diverged:
            reason = b"CLOSED" if part.subject in self.closed else b"ROLLBACK_INCOMPLETE_REJECT"
            self.parts[action_id] = replace(part, state=BranchState.REFUSED, reason=reason.ljust(32, b"\0"))
            return
        self.parts[action_id] = replace(part, state=BranchState.PREPARED, change=change)
        self.locks[part.subject] = LockRecord(action_id, now, now + part.lock_ttl)

    def _commit(self, action_id: bytes, part: PartRecord, change: bytes, now: int) -> None:
        if part.state in (BranchState.APPLIED, BranchState.DIVERGED):
            return
        if part.state in (BranchState.RELEASED, BranchState.REFUSED):
            raise refusal("DecisionContradicted(bytes32,uint8,uint8)", action_id, Phase.COMMIT, part.state)
        held = self.lock(part.subject, now)
        if part.level is Level.ALL_OR_NOTHING and part.state is not BranchState.PREPARED:
            raise refusal("NotPrepared(bytes32,uint8)", action_id, part.state)
        is_own = held is not None and held.action_id == action_id
        if held is not None and not is_own:
            raise refusal("LockHeld(bytes32,address,uint64)", part.subject, _holder(held.action_id), held.until)
        if not is_own and part.subject in self.diverged:
            raise refusal("RollbackIncomplete(bytes32,bytes32)", part.subject, self.diverged[part.subject])
        is_refused = not is_own and part.subject in self.closed
        if part.level is not Level.ALL_OR_NOTHING:
            if is_refused:
                raise refusal("ChangeRefused(bytes32,bytes32)", action_id, b"CLOSED".ljust(32, b"\0"))
            self._apply(action_id, replace(part, change=change))
        elif is_refused:
            reason = b"CLOSED".ljust(32, b"\0")
            self.parts[action_id] = replace(part, state=BranchState.DIVERGED, reason=reason, reply_id=_NONE)
            self.diverged[part.subject] = action_id
        else:
            self._apply(action_id, part)

    def _apply(self, action_id: bytes, part: PartRecord) -> None:
        self.parts[action_id] = replace(part, state=BranchState.APPLIED, reply_id=_NONE)
        self.values[part.subject] = part.change
        self._unlock(action_id, part.subject)

    def _release(self, action_id: bytes, part: PartRecord, now: int) -> None:
        if part.state is BranchState.RELEASED:
            return
        if part.state in (BranchState.APPLIED, BranchState.DIVERGED):
            raise refusal("DecisionContradicted(bytes32,uint8,uint8)", action_id, Phase.ABORT, part.state)
        self.parts[action_id] = replace(part, state=BranchState.RELEASED, reason=_NONE, reply_id=_NONE)
        self._unlock(action_id, part.subject)

    def _unlock(self, action_id: bytes, subject: bytes) -> None:
        held = self.locks.get(subject)
        if held is not None and held.action_id == action_id:
            self.locks[subject] = replace(held, until=0)

    def _reply_of(self, action_id: bytes) -> tuple[bytes, Kind, int]:
        part = self.parts.get(action_id)
        if part is None or part.state is BranchState.NONE or part.level is Level.BEST_EFFORT:
            raise refusal("NothingToReply(bytes32)", action_id)
        if part.reply_id != _NONE:
            raise refusal("AlreadyReplied(bytes32,bytes32)", action_id, part.reply_id)
        votes = part.state in (BranchState.PREPARED, BranchState.REFUSED)
        fields = (Phase.VOTE if votes else Phase.FINALIZE, action_id, part.branch, part.state, part.reason)
        payload = encode([f"({','.join(_REPLY)})"], [fields])
        return payload, Kind.LOCK_MANAGEMENT if votes else Kind.PLAIN, part.vote_ttl if votes else 0

    def _reply(self, action_id: bytes, send: Sends) -> bytes:
        payload, kind, ttl = self._reply_of(action_id)
        message_id = send(PARTICIPANT_ADDRESS, self.home, COORDINATOR_ADDRESS, payload, kind=kind, ttl=ttl)
        self.parts[action_id] = replace(self.parts[action_id], reply_id=message_id)
        return message_id

    # --- calls from outside

    def call(self, to: str, data: bytes, now: int, send: Sends, fee: int) -> bytes:
        """Carries out a call of coordinator or participant, and answers it.

        Raises:
            RevertedError: it is refused.
        """
        functions = (
            self._coordinator(now, send, fee) if to == COORDINATOR_ADDRESS else self._participant(now, send, fee)
        )
        for name, function in functions.items():
            if data[:4] == _SELECTORS[name]:
                inputs, outputs = _TYPES[name]
                return encode(outputs, function(*decode(inputs, data[4:])))
        raise refusal("Error(string)", "no such function")

    def _coordinator(self, now: int, send: Sends, fee: int) -> Mapping[str, Callable[..., Sequence[Any]]]:
        def priced(action_id: bytes, place: int) -> list[int]:
            self._message_for(action_id, place, now)
            return [fee]

        def refuse_to_settle(action_id: bytes, _place: int) -> list[Any]:
            raise refusal("NotReported(bytes32)", action_id)

        def time_out(action_id: bytes) -> list[Any]:
            self._time_out(action_id, now)
            return []

        return {
            "isRetrier": lambda account: [account.lower() == self.retrier.lower()],
            "actionCount": lambda: [len(self.actions)],
            "actionIdOf": lambda number: [action_id_of(self.chain_id, number)],
            "actionOf": lambda action_id: [self._action_tuple(action_id)],
            "branchOf": lambda action_id, place: [self._branch_tuple(action_id, place)],
            "phaseEndsAt": lambda action_id: [self._phase_ends_at(action_id)],
            "isTimedOut": lambda action_id: [self._is_timed_out(action_id, now)],
            "quoteDispatch": priced,
            "settle": refuse_to_settle,
            "timeOut": time_out,
            "dispatch": lambda action_id, place: [self._dispatch(action_id, place, now, send)],
        }

    def _participant(self, now: int, send: Sends, fee: int) -> Mapping[str, Callable[..., Sequence[Any]]]:
        def priced(action_id: bytes) -> list[int]:
            self._reply_of(action_id)
            return [fee]

        return {
            "isRetrier": lambda account: [account.lower() == self.retrier.lower()],
            "participationOf": lambda action_id: [self._part_tuple(action_id)],
            "lockOf": lambda subject: self._lock_values(subject, now),
            "quoteReply": priced,
            "reply": lambda action_id: [self._reply(action_id, send)],
        }

    def _action_tuple(self, action_id: bytes) -> tuple[Any, ...]:
        one = self.actions.get(action_id)
        if one is None:
            return (_NOBODY, 0, 0, 0, 0, 0, 0, 0, 0, 0, _NONE, (0,) * 5)
        pending = sum(_owes_answer(one, branch) for branch in one.branches)
        counts = (pending, len(one.branches), one.number, one.begun_at, one.decided_at)
        return (_NOBODY, one.level, one.state, one.decision, one.cause, *counts, one.subject, _times(one.window))

    def _branch_tuple(self, action_id: bytes, place: int) -> tuple[Any, ...]:
        one = self.actions.get(action_id)
        if one is None:
            raise refusal("UnknownBranch(bytes32,uint256)", action_id, place)
        branch = one.branches[place]
        ids = (branch.prepare_id, branch.decision_id, change_of(action_id))
        return (one.chains[place], PARTICIPANT_ADDRESS, branch.state, branch.retries, branch.sent_at, *ids)

    def _part_tuple(self, action_id: bytes) -> tuple[Any, ...]:
        part = self.parts.get(action_id) or PartRecord(Level.BEST_EFFORT, 0, _NONE)
        head = (part.state, part.level, part.branch, self.home, COORDINATOR_ADDRESS, part.vote_ttl, part.lock_ttl)
        return (*head, part.subject, part.reason, part.reply_id, part.change)

    def _lock_values(self, subject: bytes, now: int) -> list[Any]:
        held = self.lock(subject, now)
        return [_NOBODY, 0, 0] if held is None else [_holder(held.action_id), held.until, 1]


def action_id_of(chain_id: int, number: int) -> bytes:
    """As `AtomicActions.actionIdOf`."""
    return keccak(encode(["uint64", "address", "uint64"], [chain_id, COORDINATOR_ADDRESS, number]))


def change_of(action_id: bytes) -> bytes:
    """What an action makes of its subject's value: no other action makes the same of it."""
    return b"by " + action_id


def forged(message: Message, dice_phase: Phase) -> bytes:
    """The payload of an instruction with another phase, or of a reply with another state."""
    if from_coordinator(message):
        (fields,) = decode([f"({','.join(_INSTRUCTION)})"], message.payload)
        return encode([f"({','.join(_INSTRUCTION)})"], [(dice_phase, *fields[1:])])
    (fields,) = decode([f"({','.join(_REPLY)})"], message.payload)
    other = BranchState.PREPARED if fields[3] != BranchState.PREPARED else BranchState.REFUSED
    return encode([f"({','.join(_REPLY)})"], [(*fields[:3], other, fields[4])])


def from_coordinator(message: Message) -> bool:
    """Whether it is an instruction; else it is a reply."""
    return message.sender[12:] == bytes.fromhex(COORDINATOR_ADDRESS[2:])


def _decide_by(one: ActionRecord) -> int:
    return one.begun_at + one.window.prepare_ttl + one.window.decision_ttl


def _owes_answer(one: ActionRecord, branch: BranchRecord) -> bool:
    return branch.state is BranchState.NONE if one.decision is Decision.NONE else branch.state in _UNSETTLED


def _times(window: Window) -> tuple[int, ...]:
    return (window.prepare_ttl, window.decision_ttl, window.max_retries, window.max_backoff, window.lock_ttl)


def _named(times: Sequence[int]) -> Mapping[str, int]:
    return dict(zip(("prepare_ttl", "decision_ttl", "max_retries", "max_backoff", "lock_ttl"), times, strict=True))


def _holder(action_id: bytes) -> str:
    return to_checksum_address(action_id[-20:])


_NOBODY: Final = "0x" + "00" * 20
_ABI: Final = {
    item["name"]: item
    for item in (*load_abi("AtomicParticipant"), *load_abi("AtomicCoordinator"))
    if item["type"] == "function"
}
_TYPES: Final = {
    name: (
        [collapse_if_tuple(one) for one in item["inputs"]],
        [collapse_if_tuple(one) for one in item["outputs"]],
    )
    for name, item in _ABI.items()
}
_PARTICIPANTS: Final = ("participationOf", "lockOf", "quoteReply", "reply")
_COORDINATORS: Final = (
    *("isRetrier", "actionCount", "actionIdOf", "actionOf", "branchOf", "phaseEndsAt", "isTimedOut"),
    *("quoteDispatch", "settle", "timeOut", "dispatch"),
)
_SELECTORS: Final = {name: COORDINATOR.selector(name) for name in _COORDINATORS} | {
    name: PARTICIPANT.selector(name) for name in _PARTICIPANTS
}
