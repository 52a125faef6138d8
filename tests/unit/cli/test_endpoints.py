"""Commands reach a chain at the endpoints of the settings, not at those of the deployments file, as the relayer does."""

from __future__ import annotations

import json
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from bridge.cli.web_server import review_without_key
from bridge.protocol.ports import Call
from bridge.records.transactions import SlotRequest
from bridge.service.settings import Settings
from bridge.store import back_up, open_dead_letters, open_store
from bridge.web import Sources, create_app
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.nodes import node, nodes
from tests.unit.web.explorer import Client

ALPHA, BETA = 31337, 31338
ACCOUNT = "0x" + "aa" * 20


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    write_network(tmp_path)  # nobody is at the deployments file's endpoints
    return Command(monkeypatch, capsys)


def settings_file(home: Path, urls: list[str]) -> Path:
    file = home / "elsewhere.toml"
    tables = (f'[chains.{name}]\nrpc_urls = ["{url}"]\n' for name, url in zip(("alpha", "beta"), urls, strict=True))
    file.write_text("".join(tables))
    return file


def test_a_message_is_looked_up_at_the_endpoints_of_the_settings(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        monkeypatch.setenv("WAYBILL_CONFIG", str(settings_file(tmp_path, urls)))
        ended = waybill("message", "show", "0x" + "ab" * 32, "--json")
    assert ended.code == 3, ended.err


def test_status_asks_the_endpoints_of_the_settings(
    waybill: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        monkeypatch.setenv("WAYBILL_CONFIG", str(settings_file(tmp_path, urls)))
        ended = waybill("status", "--json")
    assert ended.code == 0, ended.err
    assert [(chain["head"], chain["error"]) for chain in json.loads(ended.out)["chains"]] == [(100, None)] * 2


def test_restore_requires_chains_to_compare_nonces(waybill: Command, tmp_path: Path) -> None:
    copy, url = tmp_path / "copy.db", f"sqlite:///{tmp_path}/store.db"
    store = open_store(f"sqlite:///{tmp_path}/old.db")
    request = SlotRequest("first", Call(to=ACCOUNT, data=b"", gas=21_000))
    store.transactions.reserve(ALPHA, ACCOUNT, [request], first_nonce=0, now=time.time())
    store.close()
    back_up(f"sqlite:///{tmp_path}/old.db", copy)
    ended = waybill("store", "restore", str(copy), "--store", url, "--json")
    assert ended.code == 1
    assert "no RPC endpoint of alpha (31337) answers" in ended.error["message"]
    assert not (tmp_path / "store.db").exists()
    with nodes((ALPHA, node(nonce=3)), (BETA, node())) as urls:
        config = str(settings_file(tmp_path, urls))
        ended = waybill("store", "restore", str(copy), "--store", url, "--config", config, "--json")
    assert (ended.code, json.loads(ended.out)["noncesTaken"]) == (0, 2)


def test_decision_over_a_wrong_endpoint_is_retryable(tmp_path: Path) -> None:
    dead_letters, home = open_dead_letters("sqlite://"), tmp_path / "home"
    store = open_store("sqlite://")
    form = {"eventId": "one", "decision": "REQUEUE", "maker": ACCOUNT, "rationale": "the gateway is back"}
    with closing(dead_letters), closing(store), nodes((ALPHA, node()), (ALPHA, node())) as urls:
        deployment = write_network(home, *urls)
        sources = Sources(
            deployment=deployment, index=lambda: None, store=lambda: store, dead_letters=lambda: dead_letters
        )
        answer = Client(create_app(sources, None, partial(review_without_key, sources, Settings()))).post(
            "/dead-letters/decisions", json=form
        )
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        503,
        "a chain is not responding: try again in a moment",
    )
