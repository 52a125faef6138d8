"""What the command says of atomic actions while the chain of one of several coordinators is down."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from eth_abi.abi import encode

from bridge.atomic.steps import COORDINATOR
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.nodes import node, nodes
from tests.unit.evm.rpc_server import Answer

ALPHA, BETA, ACTION_ID = 31337, 31338, b"\x0a" * 32
HERE, AWAY = "0x" + "c0" * 20, "0x" + "c1" * 20
RECORD = ("0x" + "01" * 20, 0, 3, 1, 1, 0, 0, 1, 1_700_000_000, 1_700_000_009, b"\x05" * 32, (60, 60, 1, 3, 200))
RECORD_TYPE = f"(address,{'uint8,' * 6}{'uint64,' * 3}bytes32,(uint32,uint32,uint32,uint32,uint32))"
ANSWERS = {
    "actionCount": encode(["uint64"], [1]),
    "actionIdOf": encode(["bytes32"], [ACTION_ID]),
    "actionOf": encode([RECORD_TYPE], [RECORD]),
    "phaseEndsAt": encode(["uint64"], [0]),
    "isTimedOut": encode(["bool"], [False]),
}
ARGUMENTS = {"actionCount": (), "actionIdOf": (1,), "actionOf": (ACTION_ID,)}


def coordinator(method: str, params: list[Any]) -> Answer | Awaitable[Answer]:
    """The node of a chain with a coordinator that has one action, which is committed and has no participants."""
    if method != "eth_call":
        return node()(method, params)
    (call, *_) = params
    data = call.get("data") or call["input"]
    named = {COORDINATOR.encode(name, *ARGUMENTS.get(name, (ACTION_ID,)))[:4].hex(): name for name in ANSWERS}
    return {"result": f"0x{ANSWERS[named[data[2:10]]].hex()}"}


def away(_method: str, _params: list[Any]) -> Answer:
    """A node that gives no answer for a minute, which is longer than any command waits."""
    return web.Response(status=429, headers={"Retry-After": "60"})


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setenv("WAYBILL_ACTIONS", json.dumps({"coordinators": {"alpha": [HERE], "beta": [AWAY]}}))
    return Command(monkeypatch, capsys)


def test_actions_of_answering_chains_are_listed(waybill: Command, tmp_path: Path) -> None:
    with nodes((ALPHA, coordinator), (BETA, away)) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("action", "list", "--json")
    (listed,) = json.loads(ended.out)
    assert (listed["actionId"], listed["chain"], listed["state"]) == (f"0x{ACTION_ID.hex()}", "alpha", "COMMITTED")
    assert (listed["begunAt"], listed["decidedAt"]) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:29Z")
    assert ended.code == 1, "a list that lacks some is no success"
    assert f"the actions of coordinator {AWAY} on beta are missing" in ended.err.lower()


def test_actions_are_not_listed_if_no_chain_answers(waybill: Command, tmp_path: Path) -> None:
    with nodes((ALPHA, away), (BETA, away)) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("action", "list", "--json")
        assert (ended.code, ended.out) == (1, "")
        assert "31337" in ended.error["message"]
