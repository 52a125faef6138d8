"""The command, the API and the explorer are asked the same about one seeded world, and say the same."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils import keccak
from pydantic import SecretStr

from bridge.protocol.contracts import ROUTER
from bridge.protocol.events import MessageExecuted, MessageReceived, topic_of
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.message import Message
from bridge.queries.explain import Stage
from bridge.store import open_dead_letters
from bridge.web.messages import STAGES, headline
from tests.unit.cli.command import Command
from tests.unit.cli.nodes import nodes
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.evm.rpc_server import Answer, Behaviour
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import SimulatedChain, executed, received, routed, sent_message
from tests.unit.web.explorer import RPC, Client, World, deployment, page, patient, text_of


@dataclass
class Faces:
    """One world, three faces.

    Attributes:
        arrived: a message that was executed.
        stuck: one whose delivery was given up.
        forged: one that was executed and never sent.
        letter: the dead delivery of the stuck one.
    """

    arrived: Message
    stuck: Message
    forged: Message
    world: World
    waybill: Command
    letter: str
    explorer: Client

    def command(self, *words: str) -> Any:
        """What a command prints as JSON."""
        return json.loads(self.waybill(*words, "--json").out)

    def api(self, path: str) -> Any:
        """What the API answers."""
        return self.explorer.get(f"/v1{path}", headers=OPERATOR).json()

    def page(self, path: str) -> str:
        """What a page of the explorer is."""
        return self.explorer.get(path).text


TOKEN = "an operator's long token"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}


def node_of(chain: SimulatedChain) -> Behaviour:
    """A node of that chain, with a router that knows what has happened there."""

    def call(data: bytes) -> Answer:
        selector, told = data[:4], chain.logs(0, chain.head)
        happened = {
            event: {log["topics"][1] for log in told if log["topics"][0] == f"0x{topic_of(event).hex()}"}
            for event in (MessageReceived, MessageExecuted)
        }
        if selector == ROUTER.selector("receiptsOf"):
            message_id = f"0x{data[4:36].hex()}"
            state = [int(message_id in happened[event]) for event in (MessageReceived, MessageExecuted)]
            return {"result": f"0x{encode(['uint16', 'uint8'], state).hex()}"}
        if selector == ROUTER.selector("execute"):
            refusal = keccak(text="QuorumNotReached(bytes32,uint256,uint256)")[:4] + encode(
                ["bytes32", "uint256", "uint256"], [bytes(32), 0, 1]
            )
            return {"error": {"code": 3, "message": "execution reverted", "data": f"0x{refusal.hex()}"}}
        return {"result": f"0x{bytes(256).hex()}"}  # zeros, for whatever is asked

    def answer(method: str, params: list[Any]) -> Answer:
        if method == "eth_call":
            return call(bytes.fromhex(params[0]["data"][2:]))
        if method == "eth_getLogs":
            first, last = (int(params[0][end], 16) for end in ("fromBlock", "toBlock"))
            logs = [log for log in chain.logs(first, last) if log["topics"][0] in params[0]["topics"][0]]
            return {"result": [log | {"address": params[0]["address"][0]} for log in logs]}
        if method == "eth_getCode":
            return {"result": "0x60"}
        number = int(params[0], 16) if params[0].startswith("0x") else chain.head
        block = {
            "number": hex(number),
            "parentHash": f"0x{bytes(32).hex()}",
            "timestamp": hex(chain.blocks[number].time),
        }
        return {"result": block | {"hash": f"0x{chain.blocks[number].hash.hex()}"}}

    return answer


@pytest.fixture
def faces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Faces]:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setenv("WAYBILL_API_TOKEN", TOKEN)
    home = tmp_path / ".waybill" / "devnet"
    home.mkdir(parents=True)
    world = World(home, now=time.time())  # the clock that a command has
    arrived, stuck, forged = (sent_message(nonce, quorum=1) for nonce in (1, 2, 3))
    later = int(world.now) + 1_000  # however slow this machine is, the index is not behind
    world.alpha.mine(routed(arrived), routed(stuck, gmps=0b1), time=later)
    world.beta.mine(received(arrived, 1), executed(arrived), time=later)
    world.beta.mine(executed(forged), time=later + 1)
    world.index()
    world.beta.mine(time=later + 2)  # and the index has not read it
    log = open_dead_letters(f"sqlite:///{home / 'bridge.db'}")
    service = DeadLetterService(store=world.relayer, dead_letters=log)
    letter = asyncio.run(service.die(stuck, error="no gas"))
    change = LaneChange(lane=Lane(ALPHA, BETA), state=LaneState.PAUSED, reason="router upgrade", by="ann", at=5.0)
    assert world.relayer.lanes.change(change)
    capsys.readouterr()  # what the relayer logged
    with nodes((ALPHA, node_of(world.alpha)), (BETA, node_of(world.beta))) as urls:
        network = json.loads(deployment().to_json())
        for chain, url in zip(network["chains"], urls, strict=True):
            chain["rpcUrls"] = [url]
        (tmp_path / "deployments").mkdir()
        (tmp_path / "deployments" / "devnet.json").write_text(json.dumps(network))
        explorer = world.explorer(patient(public_rpc=RPC, token=SecretStr(TOKEN)), dead_letters=lambda: log)
        yield Faces(arrived, stuck, forged, world, Command(monkeypatch, capsys), letter, explorer)


def test_a_message_has_one_state_and_one_lane(faces: Faces) -> None:
    listed = {one["messageId"]: one for one in faces.command("message", "list")["messages"]}
    assert {one["messageId"]: one for one in faces.api("/messages")["messages"]} == listed
    assert len({one["status"] for one in listed.values()}) > 1
    rows = faces.page("/messages").split("<tr>")
    for message_id, one in listed.items():
        (row,) = (text_of(row) for row in rows if f'href="/message/{message_id}"' in row)
        assert one["status"].replace("_", " ").lower() in row
        assert one["lane"] in row


def test_messages_are_counted_once_by_state(faces: Faces) -> None:
    counted = faces.command("status")["messages"]
    told = ", ".join(f"{state} {count}" for state, count in counted.items())
    assert f"messages {told}" in " ".join(faces.waybill("status").out.split())
    assert faces.api("/status")["messages"] == counted
    shown = re.findall(r'status=(\w+)"><strong>(\d+)</strong>', faces.page("/status"))
    assert {status: int(count) for status, count in shown} == counted
    assert counted["DIVERGED"] == 1


def test_a_lane_that_is_held_is_held_everywhere(faces: Faces) -> None:
    (held,) = faces.command("lane", "list")
    assert faces.api("/status")["lanes"] == faces.command("status")["lanes"] == [held]
    lane = text_of(faces.page("/lanes"))
    assert f"{held['state'].lower()} by {held['by']}: {held['reason']}" in " ".join(lane.split())


def test_a_gmp_has_one_queue(faces: Faces) -> None:
    queue = faces.command("status")["outbox"]
    assert faces.api("/status")["outbox"] == queue
    (dead,) = (row for row in queue if row["state"] == "DEAD")
    assert f"{dead['count']} given up" in text_of(faces.page("/gmps"))


def test_a_dead_letter_has_one_state_error_and_advice(faces: Faces) -> None:
    (listed,) = faces.command("dlq", "list")
    assert faces.api("/dead-letters") == [listed]
    assert listed["id"] == faces.letter
    row = text_of(faces.page("/dead-letters").partition(f'title="{faces.letter}"')[2].partition("</tr>")[0])
    for said in (listed["status"].replace("_", " ").lower(), listed["errorCode"], listed["gmp"]):
        assert said in row
    (opened,) = faces.command("dlq", "show", faces.letter)
    assert faces.api(f"/dead-letters/{faces.letter}") == opened
    body = faces.page(f"/dead-letters/{faces.letter}")
    shown = text_of(body)
    assert f"Next: {opened['next'].replace('`', '')}" in shown
    assert re.findall(r'data-act="(\w+)"', body) == [one["decision"] for one in opened["decisions"]]
    for decision in opened["decisions"]:
        assert decision["why"] in shown
        assert decision["command"] in shown


def test_a_message_is_explained_the_same_way(faces: Faces) -> None:
    stages = {}
    for sent in (faces.arrived, faces.stuck, faces.forged):
        found = faces.command("message", "show", f"0x{sent.id.hex()}")
        told = faces.api(f"/messages/0x{sent.id.hex()}")
        for name in ("status", "next", "acts", "gmps", "divergences", "message", "expiresAt"):
            assert told[name] == found[name], name
        body = faces.page(page(sent))
        shown = text_of(body)
        assert f'data-state="{found["status"]}"' in body
        assert f"Next: {found['next'].replace('`', '')}" in shown
        assert re.findall(r'data-act="(\w+)"', body) == [act["act"] for act in found["acts"]]
        assert all(act["command"] in shown for act in found["acts"])
        rows = re.findall(r'<span class="gmp (\w+)">.*?<span class="state \w+">([^<]*)<', body, re.DOTALL)
        assert rows == [(one["gmp"], STAGES[Stage(one["stage"])][0]) for one in found["gmps"]]
        if sent is not faces.forged:  # the command has asked its source, which the page can't
            assert headline(found["reason"]) in shown
        stages[found["status"]] = [one["stage"] for one in found["gmps"]]
    assert stages == {"EXECUTED": ["RECEIVED", "DISPATCHED", "DISPATCHED"], "DEAD": ["DEAD"], "DIVERGED": []}


def test_guarantee_is_shown_field_by_field(faces: Faces) -> None:
    command = ("message", "show", f"0x{faces.stuck.id.hex()}")
    assert faces.command(*command)["guarantee"] == {
        "semantics": "AT_LEAST_ONCE",
        "ttlSeconds": 0,
        "idempotencyStrategy": "MESSAGE_ID",
        "requireAttestationCheck": False,
        "maxRetries": 10,
        "baseBackoffMs": 5_000,
        "maxBackoffMs": 600_000,
        "dlqEnabled": True,
        "atomicity": "GUARANTEED",
    }
    assert (
        "AT_LEAST_ONCE, ttlSeconds 0, idempotencyStrategy MESSAGE_ID, requireAttestationCheck no, maxRetries 10,"
        " baseBackoffMs 5000, maxBackoffMs 600000, dlqEnabled yes, atomicity GUARANTEED"
    ) in " ".join(faces.waybill(*command).out.split())
