"""What is said of an atomic action: contradictions, retries that are due, letters, and what can be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.domain.actions import ActionState, BranchState, Decision, Level, Offer
from bridge.evm.actions import due_steps
from bridge.queries.actions import action_acts, by_state, findings, meaning
from bridge.relayer.actions import failures_of
from tests.support.actions import action, branch, participation

NONE, PREPARED, APPLIED, RELEASED = (
    BranchState.NONE,
    BranchState.PREPARED,
    BranchState.APPLIED,
    BranchState.RELEASED,
)


@pytest.mark.parametrize(
    ("decision", "says", "contradicts"),
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


def test_an_action_is_followed_until_each_participant_bears_it_out() -> None:
    over = {"state": ActionState.COMMITTED}
    assert action(branch(0, 2, APPLIED, participation=participation(APPLIED)), **over).agrees
    assert not action(branch(0, 2, APPLIED, participation=participation(RELEASED)), **over).agrees
    assert not action(branch(0, 2, APPLIED, problem="silent"), **over).agrees


def test_a_participant_that_is_silent_after_its_time_gets_a_letter() -> None:
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


def test_a_best_effort_part_that_is_applied_and_not_reported_is_offered_a_report_and_no_promise() -> None:
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


def test_actions_are_counted_by_state() -> None:
    counted = by_state([ActionState.ABORTED, ActionState.COMMITTING, ActionState.COMMITTING])
    assert counted == {"COMMITTING": 2, "ABORTED": 1}
