"""Paths that are mistyped, files that are damaged: one line that names them, and nothing made or lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge.protocol.errors import StoreError
from bridge.store import back_up, open_store, restore
from indexer.store.store import Store as IndexStore
from tests.postgresql import Server
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

READERS = [("relayer", "run"), ("dlq", "list"), ("status",)]


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("command", READERS)
def test_a_store_that_is_named_and_not_there_is_not_made(
    waybill: Command, deployed: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    mistyped = deployed / "sotre" / "bridge.db"
    monkeypatch.setenv("WAYBILL_STORE", f"sqlite:///{mistyped}")
    ended = waybill(*command, "--json")
    assert ended.code == 1
    assert str(mistyped) in ended.error["message"]
    assert f"waybill relayer run --new-store --store sqlite:///{mistyped}" in ended.error["next"]
    assert not mistyped.parent.exists()


def not_a_store(path: Path, kind: str) -> None:
    """Puts at the path what a wrong name may lead to."""
    if kind == "empty file":
        path.touch()
    elif kind == "the index":
        IndexStore(f"sqlite:///{path}").close()
    else:
        with closing(sqlite3.connect(path)) as file:
            file.execute("CREATE TABLE schema_version (version INTEGER)")
            file.execute("CREATE TABLE photos (name TEXT)")


@pytest.mark.parametrize("command", [("relayer", "run"), ("store", "backup", "copy.db")])
@pytest.mark.parametrize("kind", ["empty file", "the index", "other program"])
def test_a_database_that_is_no_store_is_not_made_one(
    waybill: Command, deployed: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], kind: str
) -> None:
    path = deployed / "named.db"
    not_a_store(path, kind)
    before = path.read_bytes()
    monkeypatch.setenv("WAYBILL_STORE", f"sqlite:///{path}")
    ended = waybill(*command, "--json")
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert str(path) in ended.error["message"]
    says = {"empty file": "is empty", "the index": "another program", "other program": "photos"}
    assert says[kind] in ended.error["message"]
    assert "waybill relayer run --new-store" in ended.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["the index", "other program"])
def test_foreign_database_is_never_used_as_a_store(waybill: Command, deployed: Path, kind: str) -> None:
    path, store, copy = deployed / "named.db", f"sqlite:///{deployed}/bridge.db", deployed / "copy.db"
    open_store(store).close()
    back_up(store, copy)
    not_a_store(path, kind)
    before = path.read_bytes()
    ended = waybill("relayer", "run", "--new-store", "--store", f"sqlite:///{path}", "--json")
    assert (ended.code, "another program" in ended.error["message"]) == (1, True)
    with pytest.raises(StoreError, match="another program"):
        restore(copy, f"sqlite:///{path}", replace=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [("relayer", "run", "--new-store"), ("status",)])
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("bridge.db", "a URL looks like"),
        ("sqlite:///file:bridge.db?uri=true", "use a path"),
    ],
)
@pytest.mark.usefixtures("deployed")
def test_a_url_that_names_no_file_is_refused(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], url: str, says: str
) -> None:
    monkeypatch.setenv("WAYBILL_STORE", url)
    ended = waybill(*command, "--json")
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert says in ended.error["message"]


@pytest.mark.usefixtures("deployed")
def test_a_postgresql_schema_without_a_store_is_not_made_one(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, postgresql: Server
) -> None:
    monkeypatch.setenv("WAYBILL_STORE", postgresql.new_url())
    for command in READERS:
        ended = waybill(*command, "--json")
        assert ended.code == 1
        assert "is empty" in ended.error["message"]
        assert "waybill relayer run --new-store" in ended.error["next"]


@pytest.mark.parametrize("command", [("relayer", "run"), ("status",)])
@pytest.mark.parametrize("damage", ["head", "page"])
def test_a_damaged_store_ends_with_one_line(
    waybill: Command, deployed: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], damage: str
) -> None:
    path = deployed / "bridge.db"
    monkeypatch.setenv("WAYBILL_STORE", f"sqlite:///{path}")
    open_store(f"sqlite:///{path}").close()
    content = bytearray(path.read_bytes())
    start = 0 if damage == "head" else 4096
    content[start:] = b"\xff" * (len(content) - start)
    path.write_bytes(content)
    ended = waybill(*command, "--json")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert str(path) in ended.error["message"]


@pytest.mark.parametrize(
    ("table", "setting"),
    [
        ('[chains.alhpa]\nrpc_urls = ["http://127.0.0.1:1"]\n', "chains"),
        (f'[attestations.hyperlane]\nalhpa = "0x{"aa" * 20}"\n', "attestations.hyperlane"),
        (f'[asset_classes.gold]\nmin_ttl = 9\nmembers = {{ alhpa = ["0x{"aa" * 20}"] }}\n', "asset_classes"),
        (f'[dlq.governance]\nchain = "alhpa"\naddress = "0x{"aa" * 20}"\n', "dlq"),
    ],
)
@pytest.mark.parametrize("command", [("relayer", "run")])
def test_a_chain_that_the_network_does_not_have_is_found(
    waybill: Command, deployed: Path, command: tuple[str, ...], table: str, setting: str
) -> None:
    (deployed / "waybill.toml").write_text(table)
    ended = waybill(*command, "--json")
    assert ended.code == 2
    assert "has no chain 'alhpa'" in ended.error["message"]
    assert setting in ended.error["message"]


@pytest.mark.parametrize("command", [("doctor",), ("relayer", "run"), ("tripwire", "run")])
def test_without_the_networks_file_nothing_is_checked_or_started(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    ended = waybill(*command, "--network", "testnet", "--json")
    assert ended.code == 1
    assert "network 'testnet' is not deployed: " in ended.error["message"]
    assert ended.error["next"] == "waybill --network testnet deploy"
