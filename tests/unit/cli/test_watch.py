"""What `waybill message watch` prints, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.cli import message
from bridge.protocol.status import Status
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

ID = "0x" + "11" * 32


def explained(status: Status, reason: str) -> Any:
    explanation = SimpleNamespace(status=status, reason=reason, gmps=(), unknown=(), next_action="look at the evidence")
    return SimpleNamespace(explanation=explanation, message=SimpleNamespace(destination_chain=2), answering={2})


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What looking at the message finds, one answer after the other."""
    found: list[Any] = []
    looks: Iterator[Any] = iter(found)

    async def look(*_: object) -> Any:
        return next(looks)

    monkeypatch.setattr(message, "look_up", look)
    monkeypatch.setattr(message, "_LOOK_SECONDS", 0)
    return found


def printed(out: str) -> Sequence[dict[str, Any]]:
    decoder, values = json.JSONDecoder(), []
    while out := out.lstrip():
        value, end = decoder.raw_decode(out)
        values.append(value)
        out = out[end:]
    return values


def test_watch_prints_each_state_once(waybill: Command, answers: list[Any]) -> None:
    answers += [explained(Status.ROUTED, f"next try in {seconds} s") for seconds in (3, 2, 1)]
    answers.append(explained(Status.EXECUTED, "the recipient accepted it"))
    ended = waybill("message", "watch", ID, "--json")
    values = printed(ended.out)
    assert (ended.code, [one["status"] for one in values]) == (0, ["ROUTED", "EXECUTED"])
    assert all(one["at"].endswith("Z") for one in values)


def test_watch_fails_once_a_message_has_diverged(waybill: Command, answers: list[Any]) -> None:
    answers.append(explained(Status.DIVERGED, "facts about it contradict each other"))
    ended = waybill("message", "watch", ID, "--json")
    assert (ended.code, ended.error["next"]) == (1, "look at the evidence")
