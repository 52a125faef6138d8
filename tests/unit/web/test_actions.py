"""The pages of atomic actions: one list, and all participants of an action on one page."""

from __future__ import annotations

from dataclasses import replace

from bridge.domain.actions import Action, ActionState, BranchState, Decision, Phase, PhaseMessage
from bridge.domain.ports import UnansweredError
from bridge.evm.actions import OnSubject
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.status import Status
from bridge.queries.actions import ActionList, FoundAction, summary_value
from tests.support.actions import ACTION_ID, action, branch, participation
from tests.support.phases import COORDINATOR, PARTICIPANTS, action_id_of, freeze, instruction, reply
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import executed, received, retried, routed, sent_message
from tests.unit.web.explorer import World, deployment, page, text_of

PAGE = f"/actions/0x{ACTION_ID.hex()}"
COMMIT = PhaseMessage(
    phase=Phase.COMMIT, message_id=b"\x0c" * 32, source_chain=ALPHA, destination_chain=BETA, status=Status.ROUTED
)


def stuck() -> Action:
    applied = branch(0, BETA, BranchState.APPLIED, participation=participation(BranchState.APPLIED))
    says = participation(BranchState.DIVERGED, reason="<b>OTHER_VALUE")
    diverged = branch(1, BETA, BranchState.DIVERGED, participation=says, messages=(COMMIT,), retries=2)
    return action(applied, diverged, chain=ALPHA, state=ActionState.DIVERGED)


def test_an_action_is_shown_with_all_its_participants_and_what_to_do(world: World) -> None:
    asked: list[bytes] = []

    def read(action_id: bytes) -> FoundAction:
        asked.append(action_id)
        return FoundAction(action=stuck())

    explorer = world.explorer(action=read)
    page = explorer.get(PAGE)
    said = text_of(page.text)
    assert page.status_code == 200
    assert "diverged COMMIT is decided, and participant 1 says DIVERGED: <b>OTHER_VALUE" in said
    assert "<b>OTHER_VALUE" not in page.text, "a reason is a stranger's text"
    assert "New actions on its subject are refused until that is put right." in said
    assert "0: beta" in said
    assert "1: beta" in said
    assert f'href="/message/0x{COMMIT.message_id.hex()}">COMMIT</a>' in page.text
    assert "COMMIT to 1: beta routed" in said
    assert f"waybill action reconcile 0x{ACTION_ID.hex()} --branch 1 " in said + " "
    assert f"waybill action retry 0x{ACTION_ID.hex()} --branch 1" in said
    explorer.get(PAGE)
    assert asked == [ACTION_ID], "visitors do not make the chains be asked again"


def test_commands_name_the_network(world: World) -> None:
    page = world.explorer(action=lambda _: FoundAction(action=stuck()), network="main").get(PAGE)
    assert f"waybill action reconcile 0x{ACTION_ID.hex()} --branch 1 --network main" in text_of(page.text)


def test_the_list_has_each_action_with_its_participants(world: World) -> None:
    value = summary_value(stuck(), deployment())
    page = world.explorer(actions=lambda: ActionList(values=[value])).get("/actions")
    assert f'href="{PAGE}"' in page.text
    said = text_of(page.text)
    assert "beta applied (nothing) , beta diverged (nothing)" in said
    assert "all or nothing" in said
    explorer = world.explorer(actions=lambda: ActionList(values=[value]))
    assert explorer.get("/search", params={"q": ACTION_ID.hex()}).headers["location"] == PAGE
    assert explorer.get("/search", params={"q": "ab" * 32}).status_code == 404
    aborted = summary_value(action(branch(0, BETA, BranchState.RELEASED), chain=ALPHA), deployment())
    said = text_of(world.explorer(actions=lambda: ActionList(values=[aborted])).get("/actions").text)
    assert "beta unchanged, its lock is released" in said, "not that its subject is"
    assert "begun an action yet" in text_of(world.explorer(actions=lambda: ActionList(values=[])).get("/actions").text)


def test_the_list_says_which_chain_is_missing_and_has_the_actions_of_the_others(world: World) -> None:
    value = summary_value(stuck(), deployment())
    said = text_of(world.explorer(actions=lambda: ActionList(values=[value], silent=["beta"])).get("/actions").text)
    assert "beta does not answer: the actions of its coordinators are missing." in said
    assert "beta applied" in said
    said = text_of(world.explorer(actions=lambda: ActionList(values=[], silent=["beta"])).get("/actions").text)
    assert "No coordinator that answers has begun an action yet." in said


def test_chains_that_do_not_answer_and_ids_that_nobody_knows(world: World) -> None:
    def silent(_: bytes) -> None:
        raise UnansweredError("https://secret:key@rpc.example does not answer")

    page = world.explorer(action=silent).get(PAGE)
    assert "A chain gives no usable answer." in page.text
    assert "secret" not in page.text
    assert world.explorer().get(PAGE).status_code == 404
    assert world.explorer().get("/actions/0x12").status_code == 400


def test_an_unread_participant_is_said_to_be_that(world: World) -> None:
    one, other = stuck().branches
    away = replace(stuck(), branches=(one, replace(other, participation=None, problem="chain 3 is silent")))
    said = text_of(world.explorer(action=lambda _: FoundAction(action=away)).get(PAGE).text)
    assert "not read" in said
    assert "The coordinator's owner vouches for the participant" in said


def test_the_other_actions_on_the_subject_and_what_holds_there_are_linked(world: World) -> None:
    applied = branch(0, BETA, BranchState.APPLIED, participation=participation(BranchState.APPLIED), change=freeze())
    first = action(applied, id=b"\1" * 32, chain=ALPHA, number=1, state=ActionState.COMMITTED)
    released = replace(applied, state=BranchState.RELEASED, change=b"\1" * 32)
    second = action(released, chain=ALPHA, number=2, state=ActionState.ABORTED, decision=Decision.ABORT)
    shown = world.explorer(action=lambda _: FoundAction(action=second, on_subject=OnSubject(actions=(first,)))).get(
        PAGE
    )
    said = text_of(shown.text)
    assert shown.text.count(f'href="/actions/{first.name}"') == 2
    assert f"beta: 0x{freeze().hex()}" in said
    assert "Its change was not made" in said
    assert "It holds without an end, until another action on the subject changes it." in said
    alone = text_of(world.explorer(action=lambda _: FoundAction(action=second)).get(PAGE).text)
    assert "No action on the subject has changed anything." in alone
    assert "looked at" not in alone
    assert "without an end" not in alone


def test_a_page_that_does_not_know_all_actions_of_the_coordinator_says_which_it_knows(world: World) -> None:
    found = FoundAction(action=stuck(), on_subject=OnSubject(since=52))
    said = text_of(world.explorer(action=lambda _: found).get(PAGE).text)
    assert "before number 52, only this one and an unfinished one on the subject were looked at." in said
    nothing = FoundAction(action=replace(stuck(), decision=Decision.NONE), on_subject=OnSubject(since=2))
    assert "has changed anything, as far as was looked." in text_of(
        world.explorer(action=lambda _: nothing).get(PAGE).text
    )


def test_accounts_of_an_action_are_links_and_its_whole_id_is_text(world: World) -> None:
    shown = world.explorer(action=lambda _: FoundAction(action=stuck())).get(PAGE)
    assert f'id="action-id">0x{ACTION_ID.hex()}</code>' in shown.text
    initiator = "0x1a1A1A1A1a1A1A1a1A1a1a1a1a1a1a1A1A1a1a1a"
    assert f'href="/address/{initiator}">{initiator}</a>' in shown.text
    assert 'href="/address/0x0000000000000000000000000000000000000001"' in shown.text


def test_a_message_of_an_action_and_the_action_lead_to_each_other(world: World) -> None:
    prepare = instruction(sent_message(1, quorum=1), Phase.PREPARE, number=7, branch=0, change=freeze())
    vote = reply(sent_message(2, quorum=1), Phase.VOTE, BranchState.REFUSED, number=7, branch=0, reason=b"FROZEN")
    world.alpha.mine(routed(prepare))
    world.beta.mine(received(prepare, 1), executed(prepare))
    world.alpha.mine(retried(prepare, 1, gmps=0b10))
    world.beta.mine(routed(vote))
    world.index()
    says = participation(BranchState.REFUSED)
    sent = branch(0, BETA, BranchState.NONE, participant=PARTICIPANTS[0], prepare_id=prepare.id, participation=says)
    of_prepare = PhaseMessage(
        phase=Phase.PREPARE,
        message_id=prepare.id,
        source_chain=ALPHA,
        destination_chain=BETA,
        status=Status.EXECUTED,
    )
    found = action(
        replace(sent, messages=(of_prepare,)), id=action_id_of(7), chain=ALPHA, coordinator=COORDINATOR.address
    )
    explorer = world.explorer(action=lambda _: FoundAction(action=found), coordinators=(COORDINATOR,))
    of_action = f"/actions/{found.name}"
    body = explorer.get(of_action).text
    for one in (prepare, vote):
        assert f'href="/message/0x{one.id.hex()}"' in body, (
            "the vote is found although its participant has no record of it"
        )
        assert f'href="{of_action}"' in explorer.get(page(one)).text
    said = text_of(explorer.get(page(prepare)).text)
    assert "PREPARE of atomic action" in said
    assert "lock management, as PREPARE of" in said
    assert f"change bytes 0x{freeze().hex()}" in said
    answered = text_of(explorer.get(page(vote)).text)
    assert "VOTE of atomic action" in answered
    assert "it says enum REFUSED reason bytes32 FROZEN" in answered


def test_a_stranger_who_writes_like_a_coordinator_has_no_action(world: World) -> None:
    prepare = instruction(sent_message(1, quorum=1), Phase.PREPARE, number=7, branch=0)
    forged = replace(prepare, sender=to_bytes32(PARTICIPANTS[1]))
    garbled = replace(prepare, nonce=2, payload=b"\xff" * 64)
    world.alpha.mine(routed(forged), routed(garbled))
    world.index()
    explorer = world.explorer(coordinators=(COORDINATOR,))
    for one in (forged, garbled):
        assert 'href="/actions/0x' not in explorer.get(page(one)).text
