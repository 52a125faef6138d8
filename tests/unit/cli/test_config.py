"""`waybill config` shows what is set and by whom, never a secret, and says what can't be used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer._click.core import Context  # typer keeps its click to itself
from typer.core import TyperGroup
from typer.main import get_command

from bridge.cli.app import app
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

KEY = "0x" + "11" * 32


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


def test_it_shows_each_setting_with_its_origin_and_no_secret(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WAYBILL_RELAYER_KEY", KEY)
    monkeypatch.setenv("WAYBILL_STORE", "postgresql://waybill:hidden@db/waybill")
    (tmp_path / "waybill.toml").write_text(
        'poll_interval = 2\n[chains.alpha]\nrpc_urls = ["https://rpc.example/v1/hidden"]\n'
    )
    ended = waybill("config", "show", "--json")
    assert ended.code == 0
    shown = {row["setting"]: row for row in json.loads(ended.out)}
    assert (shown["poll_interval"]["value"], shown["poll_interval"]["origin"]) == (2, str(tmp_path / "waybill.toml"))
    assert shown["relayer_key"]["value"] == "set, not shown"
    assert shown["chains"]["value"] == {"alpha": {"rpc_urls": ["https://rpc.example/…"]}}
    assert "hidden" not in ended.out
    assert KEY not in ended.out
    assert KEY not in waybill("config", "show").out


@pytest.mark.requirement("SF-51", "SF-79", "SF-80")
@pytest.mark.parametrize("command", [("config", "check"), ("relayer", "run")])
@pytest.mark.parametrize(
    ("text", "complaint"), [("retention = 700\n", "dedup window is 700"), ("retention = ", "is not TOML")]
)
def test_a_relayer_does_not_start_with_settings_that_check_refuses(
    waybill: Command, tmp_path: Path, command: tuple[str, ...], text: str, complaint: str
) -> None:
    write_network(tmp_path)
    (tmp_path / "waybill.toml").write_text(text)
    ended = waybill(*command, "--json")
    assert ended.code == 2
    assert complaint in ended.error["message"]


def test_check_ends_with_a_usage_error_that_lists_everything(waybill: Command, tmp_path: Path) -> None:
    (tmp_path / "waybill.toml").write_text("poll_interval = 0\nspeed = 1\n")
    ended = waybill("config", "check", "--json")
    assert ended.code == 2
    assert all(word in ended.error["message"] for word in ("poll_interval", "speed", "waybill.toml"))


def test_check_warns_of_variables_that_nothing_reads(waybill: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYBILL_POL", "1")
    ended = waybill("config", "check", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["unread"] == ["WAYBILL_POL"]
    assert "WAYBILL_POL" in ended.err


def test_check_knows_every_variable_that_an_option_reads(waybill: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    read = {name for option in _options(get_command(app)) for name in _names(option.envvar)}
    assert "WAYBILL_OPERATOR_KEY" in read
    for name in read - {"WAYBILL_CONFIG", "WAYBILL_NETWORK", "WAYBILL_HOME"}:
        monkeypatch.setenv(name, "")
    assert json.loads(waybill("config", "check", "--json").out)["unread"] == []


def _options(command: Any) -> Iterator[Any]:
    yield from command.params
    if isinstance(command, TyperGroup):
        for name in command.list_commands(Context(command)):
            yield from _options(command.get_command(Context(command), name))


def _names(variables: str | Sequence[str] | None) -> Sequence[str]:
    return [variables] if isinstance(variables, str) else variables or ()


def test_check_says_which_keys_a_relayer_would_miss(waybill: Command, tmp_path: Path) -> None:
    deployment = write_network(tmp_path)
    public = tmp_path / "deployments" / "public.json"
    public.write_text(deployment.to_json().replace('"devnet"', '"public"'))
    (tmp_path / "waybill.toml").write_text(
        f'[[signers]]\nremote = "http://127.0.0.1:9000"\naddress = "0x{"aa" * 20}"\nchains = ["alpha"]\n'
    )
    ended = waybill("config", "check", "--network", "public", "--json")
    assert ended.code == 2
    assert "no key pays for deliveries to beta" in ended.error["message"]
    assert "no key to seal dead letters with" in ended.error["message"]
