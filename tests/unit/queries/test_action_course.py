"""Why an action was decided as it was: who had not voted, and which deadline ended the wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.protocol.actions import Action, ActionState, BranchState, Cause, Decision, Phase, PhaseMessage, Window
from bridge.protocol.indexed import Index
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from bridge.queries import action_course
from bridge.queries.action_course import course_of, decision_reasons
from tests.cases import for_each_case
from tests.support.actions import action, branch, participation
from tests.support.phases import COORDINATOR, PARTICIPANTS, action_id_of, instruction, reply
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import START, executed, received, retried, routed, sent_message
from tests.unit.web.explorer import World, deployment

HASTY = Window(prepare_ttl=300, decision_ttl=60, max_retries=2, max_backoff=4, lock_ttl=368)
PREPARES = tuple(
    instruction(sent_message(number + 1, quorum=1), Phase.PREPARE, number=7, branch=number) for number in (0, 1)
)
VOTES = tuple(
    reply(sent_message(number + 1, quorum=1), Phase.VOTE, BranchState.PREPARED, number=7, branch=number)
    for number in (0, 1)
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Participant 0 votes at once; participant 1 gets PREPARE three times, and only after the decision."""
    made = World(tmp_path)
    made.alpha.mine(*map(routed, PREPARES), time=START + 10)
    made.beta.mine(received(PREPARES[0], 1), executed(PREPARES[0]), time=START + 12)
    made.beta.mine(routed(VOTES[0]), time=START + 13)
    made.alpha.mine(retried(PREPARES[1], 1), time=START + 15)
    made.alpha.mine(received(VOTES[0], 1), executed(VOTES[0]), time=START + 16)
    made.alpha.mine(retried(PREPARES[1], 2), time=START + 20)
    made.beta.mine(received(PREPARES[1], 1), executed(PREPARES[1]), time=START + 32)
    made.now = START + 60
    made.index()
    yield made
    made.store.close()
    made.relayer.close()


def aborted(**changes: Any) -> Action:
    branches = [
        branch(
            number,
            BETA,
            BranchState.RELEASED,
            participant=PARTICIPANTS[number],
            participation=participation(BranchState.RELEASED),
            prepare_id=PREPARES[number].id,
            messages=(phase_message(Phase.PREPARE, PREPARES[number]),),
        )
        for number in (0, 1)
    ]
    values: dict[str, Any] = {
        "id": action_id_of(7),
        "chain": ALPHA,
        "coordinator": COORDINATOR.address,
        "state": ActionState.ABORTED,
        "decision": Decision.ABORT,
        "cause": Cause.TIMED_OUT,
        "begun_at": START + 9,
        "decided_at": START + 31,
        "window": HASTY,
    }
    return action(*branches, **{**values, **changes})


def phase_message(phase: Phase, sent: Message) -> PhaseMessage:
    return PhaseMessage(
        phase=phase,
        message_id=sent.id,
        source_chain=sent.source_chain,
        destination_chain=sent.destination_chain,
        status=Status.EXECUTED,
    )


def index_of(world: World) -> Index:
    index = world.sources().index()
    assert index is not None
    return index


def test_an_abort_names_who_had_not_voted_by_when_and_which_deadline_it_was(world: World) -> None:
    course = course_of(aborted(), index_of(world))
    said = decision_reasons(aborted(), course, deployment())
    assert " ".join(said) == (
        "A participant's tries were used up before the time for votes was, at 13:52:49. "
        "It gets PREPARE at most 3 times, and has 4 s to answer each. "
        "participant 1 on beta had not voted by 13:47:11: its PREPARE was sent at 13:46:50, 13:46:55 and 13:47:00, "
        "and the last try ended at 13:47:04. Its PREPARE arrived at 13:47:12."
    )


def test_the_time_for_all_votes_is_named_where_that_was_it(world: World) -> None:
    late = aborted(decided_at=START + 9 + 361)
    first, *_ = decision_reasons(late, course_of(late, index_of(world)), deployment())
    assert first.startswith("The time for votes was over at 13:52:49")


def test_a_vote_is_found_although_its_participant_keeps_its_last_answer_alone(world: World) -> None:
    one, other = course_of(aborted(), index_of(world))
    assert [found.phase for found in one.phases] == [Phase.PREPARE, Phase.VOTE]
    vote = one.of(Phase.VOTE)
    assert vote is not None
    assert (vote.message_id, vote.sent, vote.arrived_at) == (VOTES[0].id, (START + 13,), START + 16)
    assert other.of(Phase.VOTE) is None
    assert [found.retries for found in other.phases] == [2]


def test_a_vote_for_another_action_or_of_another_participant_does_not_count(world: World) -> None:
    foreign = aborted(id=action_id_of(8))
    assert all(one.of(Phase.VOTE) is None for one in course_of(foreign, index_of(world)))


def test_a_vote_is_found_between_the_participants_other_messages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_course, "_PART", 1)
    others = [
        reply(sent_message(number, quorum=1), Phase.VOTE, BranchState.PREPARED, number=number, branch=0)
        for number in (8, 9)
    ]
    world.beta.mine(routed(others[0]), time=START + 12)
    world.beta.mine(routed(others[1]), time=START + 70)
    world.index()
    vote = course_of(aborted(), index_of(world))[0].of(Phase.VOTE)
    assert vote is not None
    assert vote.message_id == VOTES[0].id


def test_without_an_index_it_is_said_that_nothing_is_known_of_votes() -> None:
    _deadline, *unknown = decision_reasons(aborted(), course_of(aborted(), None), deployment())
    assert len(unknown) == 2
    assert all("is not known" in one for one in unknown)


@for_each_case(
    "cause, said",
    [
        (Cause.LEVEL, ["Its level decides when it begins."]),
        (Cause.ALL_PREPARED, ["Every participant had voted yes."]),
        (Cause.CANCELLED, ["Its initiator or the coordinator's owner aborted it."]),
        (Cause.CONTRADICTED, ["A participant reported an end before anything was decided."]),
        (Cause.REFUSED, ["beta voted no: FROZEN."]),
        (Cause.NONE, []),
    ],
)
def test_every_other_cause_is_said_in_words(cause: Cause, said: list[str]) -> None:
    refused = participation(BranchState.REFUSED, reason="FROZEN")
    found = action(branch(0, BETA, BranchState.REFUSED, participation=refused), cause=cause)
    assert decision_reasons(found, course_of(found, None), deployment()) == said
