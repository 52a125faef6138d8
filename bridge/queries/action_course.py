"""The course of an atomic action as the index has it: when each phase was sent and arrived, and why it was decided so.

Its coordinator keeps a decision and its cause. Which participant had not voted, and until when it was waited for, is in the
times of the messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bridge.evm.actions import Coordinator, action_message
from bridge.protocol.actions import Action, Branch, BranchState, Cause, Level, Phase
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import Index, MessageFilter, Position
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.protocol.status import Status
from bridge.queries.lanes import chain_name

_PART: Final = 50
_PARTS: Final = 4
"""How many of a participant's messages are looked at for its vote, in how many questions."""

_DISPATCHES: Final = ("MessageRouted", "MessageRetried")


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseCourse:
    """The message of one phase; times are of blocks, in Unix seconds."""

    phase: Phase
    message_id: bytes
    status: Status
    sent: tuple[int, ...] = ()  # the route and each retry; none if the index does not know the message
    arrived_at: int | None = None  # when it was executed

    @property
    def retries(self) -> int:
        """How often it was sent again."""
        return max(0, len(self.sent) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCourse:
    """A participant's part."""

    branch: Branch
    phases: tuple[PhaseCourse, ...]

    def of(self, phase: Phase) -> PhaseCourse | None:
        """Its message of a phase, if one is known."""
        return next((one for one in self.phases if one.phase is phase), None)


def course_of(action: Action, index: Index | None) -> tuple[BranchCourse, ...]:
    """What each participant was sent and has answered.

    Args:
        action: with its participants' messages.
        index: of its network; without one nothing but the states of the messages is known.
    """
    return tuple(
        BranchCourse(branch=branch, phases=tuple(_phases(action, branch, index))) for branch in action.branches
    )


def _phases(action: Action, branch: Branch, index: Index | None) -> Iterator[PhaseCourse]:
    known = [(one.phase, one.message_id, one.status or Status.UNKNOWN) for one in branch.messages]
    if index is not None and Phase.VOTE not in {phase for phase, _, _ in known}:
        vote = _vote(action, branch, index)
        if vote is not None:  # the participant keeps its last answer alone
            known.append((Phase.VOTE, *vote))
    order = (Phase.PREPARE, Phase.VOTE, Phase.COMMIT, Phase.ABORT, Phase.FINALIZE)
    for phase, message_id, status in sorted(known, key=lambda one: order.index(one[0])):
        record = index.message(message_id) if index is not None else None
        if index is None or record is None:
            yield PhaseCourse(phase=phase, message_id=message_id, status=status)
            continue
        sent = [event.block_time for event in index.events(message_id) if event.event in _DISPATCHES]
        yield PhaseCourse(
            phase=phase, message_id=message_id, status=status, sent=tuple(sent), arrived_at=record.executed_time
        )


def _vote(action: Action, branch: Branch, index: Index) -> tuple[bytes, Status] | None:
    """A participant votes after PREPARE has arrived, on the same chain, and before votes no longer count."""
    prepare = index.message(branch.prepare_id) if any(branch.prepare_id) else None
    if action.level is not Level.ALL_OR_NOTHING or prepare is None or prepare.executed_time is None:
        return None
    wanted = MessageFilter(
        source_chain=branch.chain,
        destination_chain=action.chain,
        account=to_bytes32(branch.participant),
        since=prepare.executed_time,
        until=prepare.executed_time + action.window.prepare_ttl + action.window.decision_ttl + 1,
    )
    after: Position | None = None
    for _ in range(_PARTS):
        page = index.page(wanted, after=after, limit=_PART)
        for record in page.messages:
            if record.sender == wanted.account and _is_vote(action, branch, _message(index, record.message_id)):
                return record.message_id, record.status
        after = page.next
        if after is None:
            break
    return None


def _message(index: Index, message_id: bytes) -> Message | None:
    envelope = next((event.envelope for event in index.events(message_id) if event.envelope), None)
    try:
        return decode_envelope(envelope).message if envelope else None
    except EnvelopeError:
        return None


def _is_vote(action: Action, branch: Branch, message: Message | None) -> bool:
    coordinators: Collection[Coordinator] = (Coordinator(action.chain, action.coordinator),)
    said = action_message(message, coordinators) if message is not None else None
    return said is not None and (said.action_id, said.phase, said.branch) == (action.id, Phase.VOTE, branch.number)


def decision_reasons(action: Action, course: Sequence[BranchCourse], deployment: Deployment) -> list[str]:
    """Why the coordinator decided as it did, and until when it had waited for whom; a sentence each, times in UTC."""
    if action.cause is Cause.REFUSED:
        return [f"{_name(action, one, deployment)} voted no{_because(one)}." for one in _refusing(course)]
    if action.cause is Cause.TIMED_OUT:
        return _time_out(action, course, deployment)
    return [_CAUSES[action.cause]] if action.cause in _CAUSES else []


_CAUSES: Final = {
    Cause.LEVEL: "Its level decides when it begins.",
    Cause.ALL_PREPARED: "Every participant had voted yes.",
    Cause.CANCELLED: "Its initiator or the coordinator's owner aborted it.",
    Cause.CONTRADICTED: "A participant reported an end before anything was decided.",
}


def _refusing(course: Sequence[BranchCourse]) -> list[Branch]:
    return [one.branch for one in course if one.branch.state is BranchState.REFUSED]


def _because(branch: Branch) -> str:
    reason = branch.participation.reason if branch.participation else ""
    return f": {reason}" if reason else ""


def _time_out(action: Action, course: Sequence[BranchCourse], deployment: Deployment) -> list[str]:
    """Which of the two deadlines it was: the time for all votes, or the last try of one participant."""
    window, decided, end = action.window, _clock(action.decided_at), _clock(action.votes_end_at)
    if action.decided_at > action.votes_end_at:
        said = [f"The time for votes was over at {end}: PREPARE's time to live and the time for votes after it."]
    else:
        tries = (
            f"It gets PREPARE at most {window.max_retries + 1} times, and has {window.max_backoff} s to answer each."
        )
        said = [f"A participant's tries were used up before the time for votes was, at {end}. {tries}"]
    for one in course:
        vote, prepare = one.of(Phase.VOTE), one.of(Phase.PREPARE)
        if vote is not None and vote.arrived_at is not None and vote.arrived_at <= action.decided_at:
            continue
        name = _name(action, one.branch, deployment)
        if prepare is None or not prepare.sent:
            said.append(f"Whether {name} had voted by {decided} is not known: the index does not have its PREPARE.")
            continue
        last = _clock(prepare.sent[-1] + window.max_backoff)
        sent = (
            f"its PREPARE was sent at {_listed([_clock(at) for at in prepare.sent])}, and the last try ended at {last}"
        )
        arrived = f"arrived at {_clock(prepare.arrived_at)}" if prepare.arrived_at else "has not arrived"
        said.append(f"{name} had not voted by {decided}: {sent}. Its PREPARE {arrived}{_late(vote)}.")
    return said


def _late(vote: PhaseCourse | None) -> str:
    if vote is None or not vote.sent:
        return ""
    arrived = f"and arrived at {_clock(vote.arrived_at)}" if vote.arrived_at else "and has not arrived"
    return f"; its vote was sent at {_clock(vote.sent[0])} {arrived}"


def _name(action: Action, branch: Branch, deployment: Deployment) -> str:
    name = chain_name(deployment, branch.chain)
    is_alone = sum(other.chain == branch.chain for other in action.branches) == 1
    return name if is_alone else f"participant {branch.number} on {name}"


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _clock(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")
