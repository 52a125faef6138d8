"""`waybill config` shows what is set and by whom, never a secret, and says what can't be used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer._click.core import Context  # typer keeps its click to itself
from typer.core import TyperGroup
from typer.main import get_command

from bridge.cli.app import app
from bridge.settings import Settings
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
    assert shown["chains.alpha.rpc_urls"]["value"] == ["https://rpc.example/…"]
    assert "hidden" not in ended.out
    assert KEY not in ended.out
    assert KEY not in waybill("config", "show").out


def test_it_shows_the_values_in_tables_that_nobody_set_and_who_set_the_others(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, default = tmp_path / "waybill.toml", Settings()
    monkeypatch.setenv("WAYBILL_RELIABILITY", '{"max_clock_skew": 2}')
    file.write_text(
        'profile = "production"\n[kafka]\ncompression = "zstd"\n[policies.QUERY]\ncap = 20\n[chains.alpha]\nbatch = 7\n'
        '[asset_classes.stocks]\nmin_ttl = 60\nmembers.alpha = ["0x00000000000000000000000000000000000000AA"]\n'
        '[atomicity]\nquery = "GUARANTEED"\n[reliability.ttls]\nquery = 90\n[[spend_limits]]\nsource = "alpha"\n'
        'destination = "beta"\nwei_per_day = "1 ether"\n'
    )
    ended = waybill("config", "show", "--json")
    shown = {row["setting"]: (row["value"], row["origin"]) for row in json.loads(ended.out)}
    assert shown["kafka.compression"] == ("zstd", str(file))
    assert shown["kafka.poll_interval"] == (default.kafka.poll_interval, "default; WAYBILL_KAFKA")
    assert shown["sync.threshold"] == (default.sync.threshold, "default; WAYBILL_SYNC")
    assert shown["dlq.tries"] == (3, "profile production")
    assert shown["reliability.max_clock_skew"] == (2, "WAYBILL_RELIABILITY")
    assert shown["reliability.lock_ttl"] == (default.reliability.lock_ttl, "default; WAYBILL_RELIABILITY")
    assert shown["chains.alpha.batch"] == (7, str(file))
    assert shown["asset_classes.stocks.min_ttl"] == (60, str(file))
    assert shown["spend_limits"][0][0] | {"wei_per_day": 10**18} == shown["spend_limits"][0][0]
    # Of what is set by kind, what holds for each is shown, not what differs.
    assert (shown["policies.query.cap"], shown["policies.query.max_retries"]) == (
        (20, str(file)),
        (3, "default; WAYBILL_POLICIES"),
    )
    assert shown["policies.plain.cap"] == (30, "profile production")
    assert (shown["atomicity.query"][0], shown["atomicity.ack"][0]) == ("GUARANTEED", "BEST_EFFORT")
    assert (shown["reliability.ttls.query"], shown["reliability.ttls.ack"][0]) == ((90, str(file)), 60)
    for name, field in Settings.model_fields.items():
        held = [setting for setting in shown if setting.partition(".")[0] == name]
        assert len(held) > 1 or not isinstance(field.default, BaseModel), f"{name} is a table"
    text = "".join(waybill("config", "show").out.split())
    assert "kafka.poll_interval" in text


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


def test_check_warns_of_variables_that_nothing_reads(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_POL", "1")
    ended = waybill("config", "check", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["unread"] == ["WAYBILL_POL"]
    assert "WAYBILL_POL" in ended.err


def test_check_knows_every_variable_that_an_option_reads(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_network(tmp_path)
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


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A network without the devnet's own keys; a chain of it has one endpoint."""
    text = write_network(tmp_path).to_json().replace('"devnet"', '"public"')
    (tmp_path / "deployments" / "public.json").write_text(text)
    return tmp_path


def refused_alike(waybill: Command, *commands: tuple[str, ...]) -> str:
    """What the commands say on the public network, each the same; no next step is the command that was typed."""
    said = []
    for command in commands:
        ended = waybill(*command, "--network", "public", "--json")
        assert ended.code == 2
        if command[0] == "config":
            assert "config check" not in (ended.error["next"] or "")
        said.append(ended.error["message"])
    check, run = map(str, said)
    for line in run.splitlines():
        assert line.strip() in check
    return run


def test_check_says_which_keys_a_relayer_would_miss(waybill: Command, public: Path) -> None:
    (public / "waybill.toml").write_text(
        f'[[signers]]\nremote = "http://127.0.0.1:9000"\naddress = "0x{"aa" * 20}"\nchains = ["alpha"]\n'
    )
    said = refused_alike(waybill, ("config", "check"), ("relayer", "run"))
    assert "no key pays for deliveries to beta" in said
    assert "no key to seal dead letters with" in said


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            '[[signers]]\nenvironment = "MISSING_KEY"\n',
            ("variable MISSING_KEY is not set",),
        ),
        (
            '[chains.alpha]\nagreement = 2\n[chains.beta]\nrpc_urls = ["rpc.example"]\n',
            (
                "has 1 endpoints, and 2 have to agree: name more of them in rpcUrls of chain 'alpha' in deployments/public.json",
                '"rpc.example" is no JSON-RPC URL: it has to begin with http:// or https://; correct rpc_urls in [chains.beta]',
            ),
        ),
    ],
)
def test_check_finds_all_that_keeps_a_relayer_from_starting(
    waybill: Command, public: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaints: tuple[str, ...]
) -> None:
    if "MISSING_KEY" not in text:
        monkeypatch.setenv("WAYBILL_RELAYER_KEY", KEY)
    (public / "waybill.toml").write_text(text)
    said = refused_alike(waybill, ("config", "check"), ("relayer", "run"))
    for complaint in complaints:
        assert complaint in said


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            "[tripwire]\npause = 60\n",
            ("no key for the tripwire: set `key` or `signer`",),
        ),
    ],
)
def test_check_finds_all_that_keeps_a_tripwire_from_starting(
    waybill: Command, public: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaints: tuple[str, ...]
) -> None:
    monkeypatch.setenv("WAYBILL_RELAYER_KEY", KEY)
    (public / "waybill.toml").write_text(text)
    for check in (("config", "check"), ("config", "check", "tripwire")):
        said = refused_alike(waybill, check, ("tripwire", "run"))
        for complaint in complaints:
            assert complaint in said
    assert waybill("config", "check", "relayer", "--network", "public").code == 0


def test_where_a_tripwire_runs_alone_no_relayers_key_is_asked_for(waybill: Command, public: Path) -> None:
    (public / "waybill.toml").write_text(f'[tripwire]\nkey = "{KEY}"\n')
    ended = waybill("config", "check", "tripwire", "--network", "public", "--json")
    assert (ended.code, json.loads(ended.out)["checked"]) == (0, ["tripwire"])
    both = waybill("config", "check", "--network", "public", "--json").error["message"]
    assert "relayer run would not start" in both
    assert "tripwire run" not in both


def test_an_endpoint_whose_variable_is_not_set_is_found(waybill: Command, public: Path) -> None:
    file = public / "deployments" / "public.json"
    file.write_text(file.read_text().replace("http://127.0.0.1:1", "${ALPHA_RPC}", 1))
    ended = waybill("config", "check", "--network", "public", "--json")
    assert ended.code == 2
    assert "chains.alpha.rpcUrls.0: ${ALPHA_RPC}" in ended.error["message"]


@pytest.mark.parametrize("wrong", [f'"{KEY}"', f'{{ url = "{KEY}" }}', "{ }"])
def test_a_signer_in_no_known_form_is_told_the_forms_and_no_key_is_quoted(
    waybill: Command, public: Path, wrong: str
) -> None:
    (public / "waybill.toml").write_text(f"[tripwire]\nsigner = {wrong}\n")
    ended = waybill("config", "check", "--network", "public", "--json")
    assert ended.code == 2
    for form in ("environment = ", "keystore = ", "password_file = ", "remote = ", "address = "):
        assert form in ended.error["message"]
    assert KEY not in ended.err
