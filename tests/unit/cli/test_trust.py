"""What `waybill trust` makes of lanes and plan files that can't be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.queries.trust_plan import differences
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

ADDRESS = "0x" + "ab" * 20


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("alpha",), "'alpha' is not a lane"),
        (("alpha:alpha",), "both its ends are alpha"),
        (("alpha:nowhere",), "'nowhere'"),
        (("--json", "alpha:beta", "--recipient", "0x12"), "'0x12'"),
        (("check", "alpha"), "'alpha' is not a lane"),
    ],
)
def test_what_is_no_lane_or_recipient_is_named(
    waybill: Command, tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks" / "devnet.json").write_text("{}")
    ended = waybill("trust", *arguments)
    assert ended.code == 2
    assert named in ended.err


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, "--write-plan "),
        ("{", "is not JSON"),
        ("[]", "no JSON object"),
        ('{"trust": {"lane": {}}}', "trust can't be used: lane"),
        ('{"trust": {"operators": {"0x12": "Cluster"}}}', "'0x12' is not an EVM address"),
        (
            '{"network": "testnet", "trust": {"lanes": {"alpha:beta": {}}}}',
            "is the file of network 'testnet', and this is network 'devnet': give --network testnet",
        ),
        ('{"version": 1}', "does not say how any lane is to be"),
        ('{"trust": {"lanes": {"beta:alpha": {}}}}', "does not say how alpha:beta is to be"),
    ],
)
def test_a_plan_that_expects_nothing_of_the_lane_is_no_success(
    waybill: Command, tmp_path: Path, text: str | None, named: str
) -> None:
    plan = tmp_path / "plan.json"
    if text is not None:
        plan.write_text(text)
    lane = ["alpha:beta"] if text and "beta:alpha" in text else []
    ended = waybill("trust", "check", *lane, "--plan", str(plan), "--json")
    assert ended.code == 1
    assert named in ended.error["message"]


def test_a_plan_that_is_named_is_not_left_out(waybill: Command, tmp_path: Path) -> None:
    ended = waybill("trust", "alpha:beta", "--plan", str(tmp_path / "mistyped.json"), "--json")
    assert ended.code == 1
    assert "mistyped.json" in ended.error["message"]


def test_differences_name_what_is_changed_missing_and_new() -> None:
    expected = {"a": {"b": 1, "gone": [1]}, "same": {"x": None}}
    found = {"a": {"b": 2, "new": ADDRESS}, "same": {"x": None}}
    assert [str(one) for one in differences(json.loads(json.dumps(expected)), found)] == [
        "a / b: expected 1, found 2",
        "a / gone: expected [1], found nothing",
        f'a / new: expected nothing, found "{ADDRESS}"',
    ]
