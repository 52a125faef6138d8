"""The pages of atomic actions: one list, and all participants of an action on one page."""

from __future__ import annotations

from dataclasses import replace

from bridge.domain.actions import Action, ActionState, BranchState, Phase, PhaseMessage
from bridge.domain.ports import UnansweredError
from bridge.protocol.status import Status
from bridge.queries.actions import action_value, summary_value
from tests.support.actions import ACTION_ID, action, branch, participation
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.web.explorer import World, deployment, text_of

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

    def read(action_id: bytes) -> dict[str, object]:
        asked.append(action_id)
        return action_value(stuck(), deployment())

    explorer = world.explorer(action=read)
    page = explorer.get(PAGE)
    said = text_of(page.text)
    assert page.status_code == 200
    assert "diverged COMMIT is decided, and participant 1 says DIVERGED: <b>OTHER_VALUE" in said
    assert "<b>OTHER_VALUE" not in page.text, "a reason is a stranger's text"
    assert "New actions on its subject are refused until that is put right." in said
    assert "0: beta" in said
    assert "1: beta" in said
    assert f'href="/message/0x{COMMIT.message_id.hex()}">COMMIT</a> <span class="state plain">routed' in page.text
    assert f"waybill action reconcile 0x{ACTION_ID.hex()} --branch 1 " in said + " "
    assert f"waybill action retry 0x{ACTION_ID.hex()} --branch 1" in said
    explorer.get(PAGE)
    assert asked == [ACTION_ID], "visitors do not make the chains be asked again"


def test_commands_name_the_network(world: World) -> None:
    page = world.explorer(action=lambda _: action_value(stuck(), deployment()), network="main").get(PAGE)
    assert f"waybill action reconcile 0x{ACTION_ID.hex()} --branch 1 --network main" in text_of(page.text)


def test_the_list_has_each_action_with_its_participants(world: World) -> None:
    value = summary_value(stuck(), deployment())
    page = world.explorer(actions=lambda: [value]).get("/actions")
    assert f'href="{PAGE}"' in page.text
    said = text_of(page.text)
    assert "beta applied, beta diverged" in said
    assert "all or nothing" in said
    assert "begun an action yet" in text_of(world.explorer(actions=list).get("/actions").text)


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
    said = text_of(world.explorer(action=lambda _: action_value(away, deployment())).get(PAGE).text)
    assert "not read" in said
    assert "The coordinator's owner vouches for the participant" in said
