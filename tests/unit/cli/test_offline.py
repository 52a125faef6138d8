"""`waybill doctor` offline: what keeps relayer and tripwire from starting."""

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


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A network without the devnet's own keys; a chain of it has one endpoint."""
    text = write_network(tmp_path).to_json().replace('"devnet"', '"public"')
    (tmp_path / "deployments" / "public.json").write_text(text)
    return tmp_path


def failed(waybill: Command) -> dict[str, str]:
    """What `doctor --offline` finds wrong with the public network, by check."""
    ended = waybill("--network", "public", "--json", "doctor", "--offline")
    assert ended.code == 1, ended.err
    return {row["check"]: row["found"] for row in json.loads(ended.out) if row["result"] == "failed"}


@pytest.mark.parametrize(
    ("text", "check", "complaints"),
    [
        ("retention = 700\n", "settings", ["dedup window is 700"]),
        ("retention = ", "settings", ["is not valid TOML"]),
        ("poll_interval = 0\nspeed = 1\n", "settings", ["poll_interval", "speed", "waybill.toml"]),
        (
            f'signers = "one"\n[accounts.one]\nremote = "http://127.0.0.1:9000"\naddress = "0x{"aa" * 20}"\nchains = ["alpha"]\n',
            "relayer run",
            ["no key pays for deliveries to beta", "no key to seal dead letters with"],
        ),
        (
            'signers = "one"\n[accounts.one]\nenvironment = "MISSING_KEY"\n',
            "relayer run",
            ["variable MISSING_KEY is not set"],
        ),
        (
            f'relayer_key = "{KEY}"\n[chains.alpha]\nagreement = 2\n[chains.beta]\nrpc_urls = ["rpc.example"]\n',
            "relayer run",
            [
                "agreement is 2, but only 1 endpoint(s) are configured. Add endpoints in rpcUrls of chain 'alpha'",
                '"rpc.example" is not a JSON-RPC URL',
            ],
        ),
        (
            f'relayer_key = "{KEY}"\n[tripwire]\nmax_clock_skew = 60\n',
            "tripwire run",
            ["no key for the tripwire: set `key`, or `account`"],
        ),
    ],
)
def test_doctor_offline_finds_what_keeps_a_process_from_starting(
    waybill: Command, public: Path, text: str, check: str, complaints: list[str]
) -> None:
    """The process itself refuses with the same words."""
    (public / "waybill.toml").write_text(text)
    found = failed(waybill)
    run = ("tripwire", "run") if check == "tripwire run" else ("relayer", "run")
    refused = waybill("--network", "public", "--json", *run).error["message"]
    for complaint in complaints:
        assert complaint in found[check]
        assert complaint in refused


def test_doctor_offline_passes_settings_that_can_start(waybill: Command, public: Path) -> None:
    (public / "waybill.toml").write_text(f'relayer_key = "{KEY}"\n')
    assert waybill("--network", "public", "doctor", "--offline").code == 0


def test_doctor_warns_of_variables_that_nothing_reads(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_network(tmp_path)
    for name in {name for option in _options(get_command(app)) for name in _names(option.envvar)}:
        if name not in ("WAYBILL_CONFIG", "WAYBILL_NETWORK", "WAYBILL_HOME", "WAYBILL_KEY"):
            monkeypatch.setenv(name, "")
    monkeypatch.setenv("WAYBILL_POL", "1")
    found = json.loads(waybill("doctor", "--offline", "--json").out)
    assert [row["check"] for row in found if row["check"].startswith("variable")] == ["variable WAYBILL_POL"]


def _options(command: Any) -> Iterator[Any]:
    yield from command.params
    if isinstance(command, TyperGroup):
        for name in command.list_commands(Context(command)):
            yield from _options(command.get_command(Context(command), name))


def _names(variables: str | Sequence[str] | None) -> Sequence[str]:
    return [variables] if isinstance(variables, str) else variables or ()


@pytest.mark.parametrize("wrong", [f'"{KEY}"', f'{{ url = "{KEY}" }}', "{ }"])
def test_a_signer_of_unknown_form_is_told_the_forms(waybill: Command, public: Path, wrong: str) -> None:
    """No key is quoted."""
    (public / "waybill.toml").write_text(f"[accounts]\nowner = {wrong}\n")
    found = failed(waybill)["settings"]
    for form in ("environment = ", "keystore = ", "password_file = ", "remote = ", "address = "):
        assert form in found
    assert KEY not in found
