"""`waybill doctor` finds what would keep a relayer from its work, and says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.devnet.accounts import DAPP_KEY, TRIPWIRE_KEY, account
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.nodes import node, nodes
from tests.unit.evm.rpc_server import Behaviour

ALPHA, BETA = 31337, 31338


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


SWAPPED = (
    "but the deployments file says beta (31338); correct rpcUrls of chain 'beta' in deployments/devnet.json, or the variable that it"
    " names"
)


def failed(out: str) -> dict[str, str]:
    return {row["check"]: row["found"] for row in json.loads(out) if row["result"] == "failed"}


def test_doctor_passes_a_healthy_network(waybill: Command, tmp_path: Path) -> None:
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("doctor", "--json")
    assert (ended.code, failed(ended.out)) == (0, {})
    checks = [row["check"] for row in json.loads(ended.out)]
    for check in ("versions", "settings", "deployments", "endpoint of alpha", "contracts on beta", "account on beta"):
        assert check in checks


@pytest.mark.parametrize(
    ("second", "check", "found"),
    [
        ((1, node()), "endpoint of beta", f"serves chain 1, {SWAPPED}"),
        ((BETA, node(ahead=60)), "endpoint of beta", "in this machine's future"),
        ((BETA, node(code="0x")), "contracts on beta", "no contract at the address of router"),
        ((BETA, node(balance=0)), "account on beta", "holds 0.0000 ether"),
        ((BETA, node(base_fee=None)), "fees on beta", "report no base fee; Waybill sends EIP-1559 transactions only"),
    ],
)
def test_doctor_fails_on_a_fault(
    waybill: Command, tmp_path: Path, second: tuple[int, Behaviour], check: str, found: str
) -> None:
    with nodes((ALPHA, node()), second) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("doctor", "--json")
    assert ended.code == 1
    assert found in failed(ended.out)[check]


@pytest.mark.parametrize(
    ("named", "balance", "result", "found"),
    [
        (account(TRIPWIRE_KEY).address, 10**18, "ok", "holds 1.0000 ether"),
        (account(TRIPWIRE_KEY).address, 10**15, "warning", "holds 0.0010 ether"),
        ("0x" + "00" * 20, 10**18, "warning", "the router has no tripwire"),
        (account(DAPP_KEY).address, 10**18, "failed", f"the settings {account(TRIPWIRE_KEY).address}"),
    ],
)
def test_doctor_checks_the_tripwires_account(
    waybill: Command, tmp_path: Path, *, named: str, balance: int, result: str, found: str
) -> None:
    beta = node(said="0x" + named[2:].lower().rjust(64, "0"), balance=balance)
    with nodes((ALPHA, node()), (BETA, beta)) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("doctor", "--json")
    (row,) = [row for row in json.loads(ended.out) if row["check"] == "tripwire on beta"]
    assert row["result"] == result
    assert found in row["found"]


def test_doctor_compares_clocks_and_warns_of_old_blocks(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBILL_RELIABILITY", json.dumps({"max_clock_skew": 30}))
    with nodes((ALPHA, node(ahead=15)), (BETA, node(ahead=-400))) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("doctor", "--json")
    verdicts = {row["check"]: row["result"] for row in json.loads(ended.out)}
    assert (ended.code, verdicts["endpoint of alpha"], verdicts["endpoint of beta"]) == (0, "ok", "warning")


def test_doctor_looks_at_the_stores_of_the_settings_file(waybill: Command, tmp_path: Path) -> None:
    write_network(tmp_path)
    broken, file = tmp_path / "broken.db", tmp_path / "elsewhere.toml"
    broken.write_text("this is no database")
    file.write_text(f'store = "sqlite:///{broken}"\nindex_store = "sqlite:///{tmp_path}/nowhere.db"\n')
    (tmp_path / ".waybill" / "devnet").mkdir(parents=True)
    (tmp_path / ".waybill" / "devnet" / "index.db").write_text("nobody may look here")
    ended = waybill("doctor", "--config", str(file), "--json")
    assert "is not a SQLite database" in failed(ended.out)["relayer's store"]
    assert "does not exist yet" in {row["check"]: row["found"] for row in json.loads(ended.out)}["index"]


def test_doctor_names_a_dead_endpoint_beside_a_live_one(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        write_network(tmp_path, *urls)
        both = {"beta": {"rpc_urls": [urls[1], "http://127.0.0.1:1"]}}
        monkeypatch.setenv("WAYBILL_CHAINS", json.dumps(both))
        ended = waybill("doctor", "--json")
    assert ended.code == 1
    assert list(failed(ended.out)) == ["endpoint of beta"]
    assert "http://127.0.0.1:1" in failed(ended.out)["endpoint of beta"]


def test_doctor_reports_invalid_settings(waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_POLL_INTERVAL", "-1")
    ended = waybill("doctor", "--json")
    assert (ended.code, "WAYBILL_POLL_INTERVAL" in failed(ended.out)["settings"]) == (1, True)


def test_doctor_reports_an_unreadable_letter_store(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_network(tmp_path)
    away = tmp_path / "letters.db"
    away.write_text("this is no database")
    monkeypatch.setenv("WAYBILL_DLQ", json.dumps({"url": f"sqlite:///{away}"}))
    ended = waybill("doctor", "--json")
    assert "is not a SQLite database" in failed(ended.out)["dead letters"]
    assert away.read_text() == "this is no database"


def test_doctor_names_the_setting_of_a_wrong_endpoint(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes((ALPHA, node()), (1, node())) as (first, second):
        write_network(tmp_path, first, second)
        monkeypatch.setenv("WAYBILL_CHAINS", json.dumps({"beta": {"rpc_urls": [second]}}))
        ended = waybill("doctor", "--json")
    assert "correct rpc_urls in [chains.beta] of the settings" in failed(ended.out)["endpoint of beta"]


def test_doctor_finds_a_seal_without_its_key(waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_DLQ", json.dumps({"key": "no key"}))
    ended = waybill("doctor", "--json")
    assert "not a private key" in failed(ended.out)["relayer run"]


def test_status_names_an_endpoint_of_another_chain(waybill: Command, tmp_path: Path) -> None:
    with nodes((ALPHA, node()), (1, node())) as urls:
        write_network(tmp_path, *urls)
        ended = waybill("status", "--json")
    errors = {chain["name"]: chain["error"] for chain in json.loads(ended.out)["chains"]}
    assert errors["alpha"] is None
    assert f"serves chain 1, {SWAPPED}" in errors["beta"]


def test_doctor_checks_the_chains_without_a_key(waybill: Command, tmp_path: Path) -> None:
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        deployment = write_network(tmp_path, *urls).model_copy(update={"network": "testnet"})
        (tmp_path / "deployments" / "testnet.json").write_text(deployment.to_json())
        ended = waybill("doctor", "--network", "testnet", "--json")
    rows = {row["check"]: row for row in json.loads(ended.out)}
    assert (ended.code, rows["relayer run"]["result"]) == (1, "failed")
    for name in ("alpha", "beta"):
        assert f"account on {name}" not in rows
        assert rows[f"endpoint of {name}"]["result"] == rows[f"contracts on {name}"]["result"] == "ok"
