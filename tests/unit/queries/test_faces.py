"""The command, the API and the explorer are asked the same about one seeded world, and say the same."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.cli.serving import api_of, opened_backend
from bridge.cli.workspace import Workspace
from bridge.domain.lanes import Lane, LaneChange, LaneState
from bridge.store import open_dead_letters
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import executed, received, routed, sent_message
from tests.unit.web.explorer import Client, World, text_of


@dataclass
class Faces:
    """One world, three faces."""

    world: World
    waybill: Command
    letter: str
    explorer: Client

    def command(self, *words: str) -> Any:
        """What a command prints as JSON. That chains do not answer does not matter here."""
        return json.loads(self.waybill(*words, "--json").out)

    def api(self, path: str) -> Any:
        """What the API answers."""

        async def ask() -> Any:
            workspace = Workspace.of("devnet")
            async with opened_backend(workspace) as backend:
                client = Client(api_of(backend, workspace.settings()))
                return (await client._request("GET", f"/v1{path}")).json()

        return asyncio.run(ask())

    def page(self, path: str) -> str:
        """What a page of the explorer is."""
        return self.explorer.get(path).text


@pytest.fixture
def faces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Faces:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    home = tmp_path / ".waybill" / "devnet"
    home.mkdir(parents=True)
    world = World(home, now=time.time())  # the clock that a command has
    arrived, stuck, forged = (sent_message(nonce, quorum=1) for nonce in (1, 2, 3))
    world.alpha.mine(routed(arrived), routed(stuck))
    world.beta.mine(received(arrived, 1), executed(arrived))
    world.beta.mine(executed(forged))
    world.index()
    log = open_dead_letters(f"sqlite:///{home / 'bridge.db'}")
    service = DeadLetterService(store=world.relayer, dead_letters=log)
    letter = asyncio.run(service.die(stuck, error="no gas"))
    change = LaneChange(lane=Lane(ALPHA, BETA), state=LaneState.PAUSED, reason="router upgrade", by="ann", at=5.0)
    assert world.relayer.lanes.change(change)
    capsys.readouterr()  # what the relayer logged
    return Faces(world, Command(monkeypatch, capsys), letter, world.explorer(dead_letters=lambda: log))


def test_a_message_has_one_state_and_one_lane(faces: Faces) -> None:
    listed = {one["messageId"]: one for one in faces.command("message", "list")["messages"]}
    assert {one["messageId"]: one for one in faces.api("/messages")["messages"]} == listed
    assert len({one["status"] for one in listed.values()}) > 1
    body = faces.page("/messages")
    for message_id, one in listed.items():
        row = text_of(body.partition(f'title="{message_id}"')[2].partition("</tr>")[0])
        assert one["status"].replace("_", " ").lower() in row
        assert one["lane"] in row


def test_messages_are_counted_once_by_state(faces: Faces) -> None:
    counted = faces.command("status")["messages"]
    assert faces.api("/status")["messages"] == counted
    shown = re.findall(r'status=(\w+)"><strong>(\d+)</strong>', faces.page("/messages"))
    assert {status: int(count) for status, count in shown} == counted
    assert counted["DIVERGED"] == 1


def test_a_lane_that_is_held_is_held_everywhere(faces: Faces) -> None:
    (held,) = faces.command("lane", "list")
    assert faces.api("/lanes") == [held]
    assert faces.api("/status")["lanes"] == faces.command("status")["lanes"] == [held]
    lane = text_of(faces.page("/lanes").partition(f'aria-label="{held["lane"]}"')[2].partition("</section>")[0])
    assert f"{held['state'].lower()} by {held['by']}: {held['reason']}" in lane


def test_a_gmp_has_one_queue(faces: Faces) -> None:
    queue = faces.command("status")["outbox"]
    assert faces.api("/status")["outbox"] == queue
    (dead,) = (row for row in queue if row["state"] == "DEAD")
    assert f"given up {dead['count']} on {dead['lane']}" in text_of(faces.page("/gmps"))


def test_a_dead_letter_has_one_state_error_and_advice(faces: Faces) -> None:
    (listed,) = faces.command("dlq", "list")
    assert faces.api("/dead-letters") == [listed]
    assert listed["id"] == faces.letter
    row = text_of(faces.page("/dead-letters").partition(f'title="{faces.letter}"')[2].partition("</tr>")[0])
    for said in (listed["status"].replace("_", " ").lower(), listed["errorCode"], listed["gmp"]):
        assert said in row
