"""Whatever is wrong with what a user gives ends with an exit code of its kind and a text that names the value."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from sqlalchemy import update

from bridge.cli.workspace import Workspace
from bridge.store.database import VERSION, Database
from bridge.store.tables import schema_version
from indexer.store import tables
from indexer.store.store import Store
from tests.unit.cli.command import Command

ADDRESS = "0x00000000000000000000000000000000000000a1"
USAGE, FAILED, UNKNOWN_ID = 2, 1, 3


def chain(name: str, chain_id: int, port: int) -> dict[str, object]:
    return {
        "chainId": chain_id,
        "name": name,
        "rpcUrls": [f"http://127.0.0.1:{port}"],
        "startBlock": 0,
        "confirmations": 1,
        "router": ADDRESS,
        "adapters": {"wormhole": ADDRESS},
        "gmps": {"wormhole": {"chainId": 10_001, "core": ADDRESS}},
        "examples": {"inbox": ADDRESS},
    }


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    for name in ("WAYBILL_KEY", "WAYBILL_NETWORK", "WAYBILL_RELAYER_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    yield Command(monkeypatch, capsys)
    structlog.reset_defaults()  # the command sets up logging for its process, which here is that of all tests


@pytest.fixture
def deployed(home: Path) -> Path:
    """A deployments file whose chains nobody serves."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    path = home / "deployments" / "devnet.json"
    path.parent.mkdir()
    chains = [chain("alpha", 31_337, port), chain("beta", 31_338, port)]
    path.write_text(json.dumps({"version": 1, "network": "devnet", "chains": chains}))
    return path


@pytest.mark.usefixtures("deployed")
def test_a_safe_at_no_address_is_refused(waybill: Command) -> None:
    for words in (("deploy", "--network", "testnet"), ("gmp", "pause", "wormhole"), ("role", "accept")):
        ended = waybill(*words, "--safe", "0x1111")
        assert ended.code == USAGE
        assert "--safe: '0x1111' is not an EVM address" in ended.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not valid JSON (line 1"),
        ('{"version": 2, "network": "devnet", "chains": []}', "version: Input should be 1"),
        (
            '{"version": 1, "network": "devnet", "chains": [], "extra": 1}',
            "extra: unknown key: remove it, or correct its name",
        ),
    ],
)
def test_corrupt_deployments_file_is_rejected(waybill: Command, deployed: Path, text: str, says: str) -> None:
    deployed.write_text(text)
    ended = waybill("message", "list")
    assert ended.code == FAILED
    assert says in ended.err
    assert str(deployed) in ended.err.replace("\n", "")


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gmps", "pigeon"], "unknown GMP 'pigeon'; the GMPs are hyperlane"),
        (["--gmps", "axelar"], "alpha → beta does not support axelar"),
        (["--gmps", "wormhole,wormhole"], "wormhole appears more than once"),
        (["--gmps", ","], "no GMP is given"),
        (["--to", "gamma"], "has no chain 'gamma'; its chains are alpha (31337), beta (31338)"),
        (["--to", "alpha"], "source and destination are both alpha"),
        (["--gmps", "wormhole", "--quorum", "2"], "--quorum 2 can't be reached with 1 GMPs"),
        (["--gmps", "wormhole", "--kind", "poem"], "unknown kind 'poem'; the kinds are plain"),
        (["--gmps", "wormhole", "--payload", "0xzz"], "'0xzz' is not a payload of hex digits"),
        (["--gmps", "wormhole", "--key", "0x12"], "not a private key: expected 0x followed by 64 hex digits"),
        (["--gmps", "wormhole", "--recipient", "0x12"], "'0x12' is not an EVM address"),
        (["--gmps", "wormhole", "--signer", "owner"], "no account 'owner' in the settings; they have no accounts"),
        (["--gmps", "wormhole", "--safe", "0x12"], "--safe 0x12 can't be used here"),
        (["--colour", "red"], "No such option: --colour"),
    ],
)
def test_wrong_arguments_are_usage_errors_that_name_the_value(
    waybill: Command, arguments: list[str], says: str
) -> None:
    ended = waybill("send", "--payload", "x", *arguments)
    assert (ended.code, ended.out) == (USAGE, "")
    assert says in ended.err.replace("\n", " ")


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("named", ["pigeon", "axelar", ","])
def test_unavailable_gmp_is_answered_with_the_lanes_gmps(waybill: Command, named: str) -> None:
    ended = waybill("send", "--payload", "x", "--gmps", named, "--json")
    assert (ended.code, ended.out, ended.error["code"]) == (USAGE, "", "USAGE")
    assert ended.error["next"] == "the GMPs of alpha → beta are wormhole"


@pytest.mark.usefixtures("deployed")
def test_a_key_is_never_printed(waybill: Command) -> None:
    secret = "0x" + "5e" * 31
    assert secret not in waybill("send", "--payload", "x", "--gmps", "wormhole", "--key", secret).err


@pytest.mark.long
@pytest.mark.usefixtures("deployed")
def test_a_chain_that_does_not_answer_is_named_with_its_url(waybill: Command) -> None:
    ended = waybill("send", "--payload", "x", "--gmps", "wormhole")
    assert ended.code == FAILED
    assert "http://127.0.0.1:" in ended.err


@pytest.mark.usefixtures("deployed")
def test_a_message_id_that_is_none_is_a_usage_error(waybill: Command) -> None:
    for command in ("show", "retry", "execute"):
        ended = waybill("message", command, "0x12")
        assert ended.code == USAGE
        assert "'0x12' is not a message id" in ended.err


def test_no_key_outside_the_devnet_is_a_usage_error(waybill: Command, deployed: Path) -> None:
    document = json.loads(deployed.read_text()) | {"network": "testnet"}
    deployed.with_name("testnet.json").write_text(json.dumps(document))
    ended = waybill("send", "--payload", "x", "--gmps", "wormhole", "--network", "testnet")
    assert ended.code == USAGE
    assert "WAYBILL_KEY" in ended.err


@pytest.mark.usefixtures("deployed")
def test_a_relayer_s_store_from_a_newer_version_is_refused(waybill: Command, home: Path) -> None:
    store = Workspace("devnet", home).bridge_store
    store.parent.mkdir(parents=True)
    made = Database(f"sqlite:///{store}")
    with made.transaction() as connection:
        connection.execute(update(schema_version).values(version=VERSION + 1))
    made.close()
    ended = waybill("message", "show", "0x" + "ab" * 32)
    assert (ended.code, ended.out) == (FAILED, "")
    assert "written by a newer Waybill" in ended.err


@pytest.mark.usefixtures("deployed")
def test_an_index_from_a_newer_version_is_refused(waybill: Command, home: Path) -> None:
    store = Workspace("devnet", home).index_store
    store.parent.mkdir(parents=True)
    made = Store(f"sqlite:///{store}")
    with made.engine.begin() as connection:
        connection.execute(update(tables.facts).where(tables.facts.c.name == "schema_version").values(value=99))
    made.close()
    for command in (["message", "list"], ["report"], ["status"]):
        ended = waybill(*command)
        assert (ended.code, ended.out) == (FAILED, "")
        assert "version 99" in ended.err
