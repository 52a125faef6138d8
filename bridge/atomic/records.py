"""Atomic actions: the records of coordinators and participants, and whether they agree.

The names and numbers are those of `contracts/types/Atomic.sol`. The coordinator's record of a decision is the
primary record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from bridge.protocol.status import Status


class Level(IntEnum):
    """The guarantee of an action."""

    BEST_EFFORT = 0
    GUARANTEED = 1
    ALL_OR_NOTHING = 2


class Decision(IntEnum):
    """The coordinator's decision, which is final."""

    NONE = 0
    COMMIT = 1
    ABORT = 2


class Cause(IntEnum):
    """The cause of a decision."""

    NONE = 0
    LEVEL = 1
    ALL_PREPARED = 2
    REFUSED = 3
    TIMED_OUT = 4
    CANCELLED = 5
    CONTRADICTED = 6


class ActionState(IntEnum):
    """The progress of an action."""

    NONE = 0
    PREPARING = 1
    COMMITTING = 2
    COMMITTED = 3
    PARTIALLY_COMMITTED = 4
    ABORTING = 5
    ABORTED = 6
    DIVERGED = 7
    ROLLBACK_INCOMPLETE = 8

    @property
    def is_over(self) -> bool:
        """Whether the state is final."""
        return self in _OVER

    @property
    def is_stalled(self) -> bool:
        """Whether the chains differ, so that an operator must intervene; new actions on the subject are rejected."""
        return self in (ActionState.DIVERGED, ActionState.ROLLBACK_INCOMPLETE)


_OVER: Final = frozenset({ActionState.COMMITTED, ActionState.PARTIALLY_COMMITTED, ActionState.ABORTED})


class BranchState(IntEnum):
    """The progress of one participant, in the coordinator's record or its own."""

    NONE = 0
    PREPARED = 1
    REFUSED = 2
    APPLIED = 3
    RELEASED = 4
    NOT_APPLIED = 5
    DIVERGED = 6
    RECONCILED = 7

    @property
    def is_settled(self) -> bool:
        """Whether the coordinator no longer waits for this participant."""
        return self not in (BranchState.NONE, BranchState.PREPARED, BranchState.DIVERGED)


class Phase(IntEnum):
    """The phases, each of which is sent as messages."""

    PREPARE = 0
    COMMIT = 1
    ABORT = 2
    VOTE = 3
    FINALIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMessage:
    """The message of one phase, to a participant or from it."""

    phase: Phase
    message_id: bytes
    status: Status | None  # None: the destination did not respond


@dataclass(frozen=True, slots=True)
class Offer:
    """A possible call, with its cost in wei or the reason why the contract rejects it."""

    fee: int | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Participation:
    """A participant's own record. Times are in Unix seconds."""

    state: BranchState
    reason: str  # the participant's reason for refusing or diverging
    reply_id: bytes  # the message with its last answer; zeros: none was sent
    locked_until: int  # 0: the action has no lock
    reply: Offer  # the reply that is outstanding


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One participant of an action, in the coordinator's record."""

    number: int
    chain: int
    participant: str
    state: BranchState  # from the coordinator
    retries: int
    sent_at: int  # when the present phase's message was last sent, Unix seconds; 0: not yet
    prepare_id: bytes
    decision_id: bytes
    change: bytes = b""  # the change in the participant's own encoding
    dispatch: Offer = Offer()  # the present phase's message
    can_settle: bool = False  # whether the outcome of a BEST_EFFORT message can be recorded
    participation: Participation | None = None  # None: not read
    problem: str = ""  # the reason why it was not read
    messages: tuple[PhaseMessage, ...] = ()

    @property
    def says(self) -> BranchState | None:
        """Returns the state in the participant's own record, or None if the record was not read."""
        return None if self.participation is None else self.participation.state

    @property
    def reason(self) -> str:
        """Returns the participant's reason for refusing or diverging, or an empty string."""
        return "" if self.participation is None else self.participation.reason


@dataclass(frozen=True, slots=True)
class Window:
    """The time limits of an action, in seconds."""

    prepare_ttl: int
    decision_ttl: int
    max_retries: int
    max_backoff: int
    lock_ttl: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action as recorded by its coordinator, with the participants' records that were read."""

    id: bytes
    chain: int  # the coordinator's
    coordinator: str
    number: int
    initiator: str
    level: Level
    state: ActionState
    decision: Decision
    cause: Cause
    subject: bytes
    begun_at: int  # Unix seconds
    decided_at: int  # Unix seconds; 0: not decided
    phase_ends_at: int  # Unix seconds; 0: the action is over
    is_timed_out: bool
    window: Window
    branches: tuple[Branch, ...]

    @property
    def name(self) -> str:
        """Returns the action's id as text."""
        return f"0x{self.id.hex()}"

    @property
    def phase(self) -> Phase:
        """Returns the phase whose message is sent to participants now."""
        if self.decision is Decision.NONE:
            return Phase.PREPARE
        return Phase.COMMIT if self.decision is Decision.COMMIT else Phase.ABORT

    def obstacle(self, branch: Branch) -> str:
        """Returns the reason why the current phase's message can't be sent to a participant yet.

        Returns an empty string if there is none.
        """
        sent = branch.prepare_id if self.decision is Decision.NONE else branch.decision_id
        waits = not self.state.is_over and not branch.state.is_settled and not any(sent)
        return branch.dispatch.refusal if waits else ""

    def awaits(self, branch: Branch) -> bool:
        """Whether the current phase still needs a participant's reply. If it does not, the contract rejects a retry."""
        if self.state.is_over or branch.state.is_settled:
            return False
        return self.decision is not Decision.NONE or branch.state is BranchState.NONE

    def overdue(self, now: float) -> tuple[tuple[Branch, bytes], ...]:
        """Returns each participant that is late in answering the current phase and has retries left.

        Each comes with the id of the message to retry. A participant whose record was not queried is left out,
        because its message may have arrived and only the reply may be missing. A participant whose chain did not
        respond is included. The decision's message is retried beyond that limit, like any other stalled message.
        """
        if self.is_timed_out or self.level is Level.BEST_EFFORT:
            return ()
        found = []
        for branch in self.branches:
            sent = branch.prepare_id if self.decision is Decision.NONE else branch.decision_id
            is_late = branch.sent_at and now > branch.sent_at + self.window.max_backoff
            was_asked = branch.participation is not None or branch.problem
            if (
                self.awaits(branch)
                and is_late
                and was_asked
                and branch.retries < self.window.max_retries
                and not self._has_answered(branch)
            ):
                found.append((branch, sent))
        return tuple(found)

    @property
    def unreported(self) -> tuple[Branch, ...]:
        """Returns the participants of a BEST_EFFORT action that have applied it without a report to the coordinator."""
        return tuple(
            branch
            for branch in self.branches
            if self.level is Level.BEST_EFFORT
            and not (branch.state.is_settled or branch.can_settle)
            and branch.says is BranchState.APPLIED
        )

    def _has_answered(self, branch: Branch) -> bool:
        """Whether the phase's message has reached the participant, so that only the reply is missing."""
        if branch.says in (None, BranchState.NONE):
            return False
        return self.decision is Decision.NONE or branch.says is not BranchState.PREPARED

    @property
    def contradictions(self) -> tuple[Branch, ...]:
        """Returns the participants whose record contradicts the decision, or that report that they can't follow it."""
        if self.level is Level.BEST_EFFORT:
            return ()
        return tuple(branch for branch in self.branches if branch.says in _AGAINST[self.decision])

    @property
    def agrees(self) -> bool:
        """Whether the action is over and every participant's record, as read, confirms the decision.

        A reconciled participant counts as confirmed, since its chain may be gone permanently.
        """
        return self.state.is_over and all(map(self._bears_out, self.branches))

    def _bears_out(self, branch: Branch) -> bool:
        if branch.state is BranchState.RECONCILED:
            return True
        if branch.says is None:
            return False
        if branch.state is BranchState.NOT_APPLIED or self.level is Level.BEST_EFFORT:
            return True
        if self.decision is Decision.COMMIT:
            return branch.says is BranchState.APPLIED
        return branch.says in (BranchState.NONE, BranchState.RELEASED, BranchState.REFUSED)


_AGAINST: Final = {
    Decision.NONE: frozenset({BranchState.APPLIED, BranchState.RELEASED, BranchState.DIVERGED}),
    Decision.COMMIT: frozenset({BranchState.RELEASED, BranchState.REFUSED, BranchState.DIVERGED}),
    Decision.ABORT: frozenset({BranchState.APPLIED, BranchState.DIVERGED}),
}
"""States of a participant's own record that contradict a decision."""
