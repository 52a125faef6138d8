"""The options of `waybill` itself, and the network in the commands that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.cli.root import hoisted
from bridge.queries.commands import for_network, value_for_network
from tests.unit.cli.command import Command


def test_root_options_may_stand_anywhere() -> None:
    words = ["message", "show", "ID", "--network", "sepolia", "--json", "--key=0x1", "--gmps", "axelar"]
    front = ["--network", "sepolia", "--json", "--key=0x1"]
    assert hoisted(words) == [*front, "message", "show", "ID", "--gmps", "axelar"]
    assert hoisted(["send", "--", "--json"]) == ["send", "--", "--json"]
    assert hoisted(["status", "--network"]) == ["--network", "status"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("run `waybill index run`", "run `waybill --network main index run`"),
        ("waybill doctor, then waybill deploy", "waybill --network main doctor, then waybill --network main deploy"),
        ("waybill devnet up", "waybill devnet up"),
        ("waybill network create", "waybill network create"),
        ("waybill decode-error 0x", "waybill decode-error 0x"),
        ("waybill --version", "waybill --version"),
    ],
)
def test_commands_name_the_network(text: str, named: str) -> None:
    """Those of the devnet, which is the default, stay as they are."""
    assert for_network(text, "main") == named
    assert for_network(text, "devnet") == text
    value = [{"next": text, "reason": text}]
    assert value_for_network(value, "main") == [{"next": named, "reason": text}]


def test_no_command_prints_the_help_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    waybill = Command(monkeypatch, capsys)
    for words in ((), ("message",)):
        ended = waybill(*words)
        assert (ended.code, ended.err) == (2, "")
        assert "Commands" in ended.out
