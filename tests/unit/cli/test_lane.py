"""`waybill lane` holds a lane in the store, where every relayer sees it, and lets it go on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.store import open_store
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network

ALPHA, BETA = 31337, 31338


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db"
    open_store(url).close()
    return url


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


def test_a_pause_is_durable_and_ends_by_a_resume(waybill: Command, store_url: str) -> None:
    assert waybill("lane", "pause", "alpha", "31338", "--reason", "upgrade", "--by", "ann").code == 0
    store = open_store(store_url)
    assert store.lanes.state(Lane(ALPHA, BETA)) is LaneState.PAUSED
    (held,) = json.loads(waybill("lane", "list", "--json").out)
    assert (held["lane"], held["state"], held["reason"], held["by"]) == ("alpha → beta", "PAUSED", "upgrade", "ann")
    assert json.loads(waybill("lane", "pause", "alpha", "beta", "--reason", "again", "--json").out)["changed"] is False
    assert waybill("lane", "resume", "alpha", "beta").code == 0
    assert store.lanes.state(Lane(ALPHA, BETA)) is LaneState.RUNNING
    assert len(json.loads(waybill("lane", "list", "--history", "--json").out)) == 2
    store.close()


def test_a_halt_can_not_be_turned_into_a_pause(waybill: Command, store_url: str) -> None:
    store = open_store(store_url)
    halt = LaneChange(lane=Lane(ALPHA, BETA), state=LaneState.HALTED, reason="no room", by="worker", at=1.0)
    store.lanes.change(halt)
    store.close()
    ended = waybill("lane", "pause", "alpha", "beta", "--reason", "x", "--json")
    assert (ended.code, "HALTED" in ended.error["message"]) == (1, True)
    assert waybill("lane", "resume", "alpha", "beta", "--reason", "made room").code == 0


def test_an_unknown_chain_is_a_usage_error(waybill: Command) -> None:
    ended = waybill("lane", "pause", "alpha", "gamma", "--reason", "x", "--json")
    assert (ended.code, "alpha (31337), beta (31338)" in ended.error["message"]) == (2, True)


def test_without_a_store_it_says_what_to_run(waybill: Command) -> None:
    ended = waybill("lane", "pause", "alpha", "beta", "--reason", "x", "--json")
    assert (ended.code, ended.error["next"]) == (1, "waybill relayer run")
