"""What is said of an atomic action: contradictions, retries that are due, letters, and what can be done."""

from __future__ import annotations

from dataclasses import replace

from bridge.atomic.answers import action_acts, findings, meaning
from bridge.atomic.follower import failures_of
from bridge.atomic.records import ActionState, BranchState, Decision, Level, Offer, Phase, PhaseMessage
from bridge.atomic.steps import due_steps
from tests.cases import for_each_case
from tests.support.actions import action, branch, participation

NONE, PREPARED, APPLIED, RELEASED = (
    BranchState.NONE,
    BranchState.PREPARED,
    BranchState.APPLIED,
    BranchState.RELEASED,
)


@for_each_case(
    "decision, says, contradicts",
    [
        (Decision.COMMIT, RELEASED, True),
        (Decision.COMMIT, BranchState.REFUSED, True),
        (Decision.COMMIT, PREPARED, False),
        (Decision.COMMIT, BranchState.DIVERGED, True),
        (Decision.ABORT, APPLIED, True),
        (Decision.ABORT, PREPARED, False),
        (Decision.NONE, APPLIED, True),
        (Decision.NONE, RELEASED, True),
        (Decision.NONE, PREPARED, False),
    ],
)
def test_committed_here_and_aborted_there_is_found(decision: Decision, says: BranchState, *, contradicts: bool) -> None:
    found = action(branch(0, 2, NONE, participation=participation(says)), decision=decision)
    assert bool(findings(found)) is contradicts
    assert [failure.code for _, failure in failures_of(found, 1.0)] == ["DIVERGED"] * contradicts


def test_a_promise_of_no_more_than_a_message_is_not_broken() -> None:
    found = action(branch(0, 2, NONE, participation=participation(RELEASED)), level=Level.BEST_EFFORT)
    assert findings(found) == []


def test_what_its_owner_vouches_for_needs_no_letter() -> None:
    found = action(
        branch(0, 2, BranchState.RECONCILED, participation=participation(RELEASED)), state=ActionState.COMMITTED
    )
    assert list(failures_of(found, 1.0)) == []
    assert found.agrees


def test_vouched_action_ends_without_its_chain() -> None:
    gone = branch(0, 2, BranchState.RECONCILED, problem="gamma does not answer within 5 s")
    assert action(gone, state=ActionState.COMMITTED).agrees


def test_action_is_followed_until_participants_confirm() -> None:
    over = {"state": ActionState.COMMITTED}
    assert action(branch(0, 2, APPLIED, participation=participation(APPLIED)), **over).agrees
    assert not action(branch(0, 2, APPLIED, participation=participation(RELEASED)), **over).agrees
    assert not action(branch(0, 2, APPLIED, problem="silent"), **over).agrees


def test_overdue_participant_gets_a_letter() -> None:
    late = action(branch(0, 2, APPLIED), branch(1, 3, NONE, problem="silent"), state=ActionState.DIVERGED)
    ((about, failure),) = failures_of(late, 1.0)
    assert (about.number, failure.code) == (1, "DIVERGED")
    undone = action(
        branch(0, 2, NONE, problem="silent"), state=ActionState.ROLLBACK_INCOMPLETE, decision=Decision.ABORT
    )
    assert [failure.code for _, failure in failures_of(undone, 1.0)] == ["ROLLBACK_INCOMPLETE"]


def test_a_phase_is_retried_within_its_budget() -> None:
    preparing = {"state": ActionState.PREPARING, "decision": Decision.NONE}
    begun = 1_700_000_000
    silent = branch(0, 2, NONE, problem="silent")
    assert action(silent, **preparing).overdue(begun + 60) == (), "it has a minute to answer"
    ((late, message_id),) = action(silent, **preparing).overdue(begun + 61)
    assert (late.number, message_id) == (0, silent.prepare_id)
    assert action(replace(silent, retries=5), **preparing).overdue(begun + 61) == (), "five retries were made"
    unaware = branch(0, 2, NONE, participation=participation(NONE))
    assert action(unaware, **preparing).overdue(begun + 61) == ((unaware, unaware.prepare_id),)
    assert action(branch(0, 2, NONE), **preparing).overdue(begun + 61) == (), "it was not asked yet"
    answered = branch(0, 2, NONE, participation=participation(PREPARED))
    assert action(answered, **preparing).overdue(begun + 61) == (), "its answer is what is missing"
    assert action(replace(silent, state=PREPARED), **preparing).overdue(begun + 61) == ()
    assert action(silent, is_timed_out=True, **preparing).overdue(begun + 61) == ()


def test_steps_are_those_that_the_contracts_take() -> None:
    ready = branch(0, 2, NONE, dispatch=Offer(fee=5))
    owes = branch(1, 3, NONE, participation=participation(APPLIED, reply=Offer(fee=7)))
    steps = due_steps(action(ready, owes))
    assert [(step.chain, step.call.value) for step in steps] == [(1, 5), (3, 7)]
    (timed_out,) = due_steps(action(ready, owes, is_timed_out=True))
    assert timed_out.text == "time COMMIT out"
    assert [act.kind for act in action_acts(action(ready, owes))] == ["advance"]
    assert due_steps(action(owes, state=ActionState.COMMITTED)) == [], "nobody waits for that answer any more"


def test_unreported_best_effort_part_is_offered_a_report() -> None:
    applied = branch(0, 2, NONE, participation=participation(APPLIED))
    found = action(applied, level=Level.BEST_EFFORT, state=ActionState.COMMITTING)
    assert "nobody insists on it" in meaning(found)
    (act,) = [act for act in action_acts(found) if act.kind == "report"]
    assert act.command == f"waybill message report 0x{applied.decision_id.hex()}"
    others = (
        action(applied, level=Level.GUARANTEED),
        action(replace(applied, can_settle=True), level=Level.BEST_EFFORT),
        action(branch(0, 2, APPLIED, participation=participation(APPLIED)), level=Level.BEST_EFFORT),
        action(branch(0, 2, NONE, problem="silent"), level=Level.BEST_EFFORT),
    )
    assert [other.unreported for other in others] == [()] * len(others)


@for_each_case(
    "state, decision, knows, offered",
    [
        (ActionState.COMMITTING, Decision.COMMIT, PREPARED, True),
        (ActionState.DIVERGED, Decision.COMMIT, PREPARED, True),
        (ActionState.COMMITTING, Decision.COMMIT, APPLIED, False),
        (ActionState.COMMITTED, Decision.COMMIT, APPLIED, False),
        (ActionState.PREPARING, Decision.NONE, NONE, True),
        (ActionState.PREPARING, Decision.NONE, PREPARED, False),
    ],
)
def test_phase_is_retried_only_while_awaited(
    state: ActionState, decision: Decision, knows: BranchState, *, offered: bool
) -> None:
    phase = Phase.PREPARE if decision is Decision.NONE else Phase.COMMIT
    unknown = PhaseMessage(phase=phase, message_id=bytes(32), status=None)
    down = branch(0, 2, knows, problem="silent", messages=(unknown,))
    acts = action_acts(action(down, state=state, decision=decision))
    assert ("retry" in [act.kind for act in acts]) is offered
