"""Whatever output names as the next command is a command, and is about the network that was asked about."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.cli.next_commands import next_with_network, remember_network, with_network
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.test_help import ALL

BRIDGE = Path(__file__).resolve().parents[3] / "bridge"
GROUPS = {path[0] for path in ALL if len(path) == 2}
NO_COMMANDS = {"devnet axelar", "devnet ccip"}
"""Texts that go into hashes."""


def named() -> Iterator[tuple[str, str]]:
    """The commands in the package's texts, with the file. A group without a word after it is not one that can be typed."""
    for file in sorted(BRIDGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for found in re.finditer(r"waybill ([a-z][a-z-]*+)(?: ([a-z][a-z-]*+)(?![\w:]))?(?![\w:])", node.value):
                    first, second = found.groups()
                    if first not in GROUPS or second:
                        yield str(file), f"{first} {second}" if first in GROUPS else first


def test_every_command_that_a_text_names_is_there() -> None:
    found = list(named())
    assert len(found) > 200
    assert [one for one in found if tuple(one[1].split()) not in ALL and one[1] not in NO_COMMANDS] == []


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_each_command_that_takes_a_network_carries_it(path: tuple[str, ...]) -> None:
    remember_network(["waybill", "status", "--network", "testnet"])
    takes = any("--network" in parameter.opts for parameter in ALL[path].params)
    text = f"waybill {' '.join(path)}"
    said = f"{text} --network testnet" if takes else text
    assert with_network(text) == said
    assert with_network(f"first `{text} 0xab`, then {text}, or not") == f"first `{said} 0xab`, then {said}, or not"
    assert with_network(f"{text} --network other") == f"{text} --network other"
    document = {"payload": text, "next": [{"command": text}]}
    assert next_with_network(document) == {"payload": text, "next": [{"command": said}]}
    remember_network(["waybill", "status"])
    assert with_network(text) == text


def test_errors_progress_and_findings_carry_the_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    deployment = write_network(tmp_path).model_copy(update={"network": "testnet"})
    (tmp_path / "deployments" / "testnet.json").write_text(deployment.to_json())
    waybill = Command(monkeypatch, capsys)
    refused = waybill("lane", "resume", "alpha", "beta", "--network=testnet", "--json")
    assert refused.error["next"] == "waybill relayer run --network testnet"
    assert (
        "waybill relayer run --network testnet"
        in waybill("lane", "resume", "alpha", "beta", "--network", "testnet").err
    )
    rows = {row["check"]: row for row in json.loads(waybill("doctor", "--network", "testnet", "--json").out)}
    assert rows["relayer's store"]["advice"] == "waybill relayer run --network testnet"
    assert waybill("lane", "resume", "alpha", "beta", "--json").error["next"] == "waybill relayer run"
