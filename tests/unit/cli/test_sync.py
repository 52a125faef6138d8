"""`waybill sync` tells for each destination whether a state change was applied there, with the record of its source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.domain.finality_records import Heartbeat
from bridge.domain.jobs import SyncJob, SyncState
from bridge.protocol.message import Kind
from bridge.store import open_store
from tests.builders import message, observed_range
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network


def test_what_was_applied_where_is_told_for_each_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    waybill = Command(monkeypatch, capsys)
    applied, lost, stuck = (message(nonce, kind=Kind.STATE_SYNC) for nonce in (1, 2, 3))
    store = open_store(f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db")
    store.observations.record(observed_range(applied, lost, stuck))
    store.finality_records.collect(frozenset({Kind.STATE_SYNC}), 0)
    done = store.jobs.newest(SyncJob, applied.id)
    assert done is not None
    store.jobs.save(done.settled(SyncState.APPLIED, "", 1_000), fence=done.fence)
    held = store.jobs.newest(SyncJob, stuck.id)
    assert held is not None
    assert store.jobs.save(replace(held, state=SyncState.DIVERGED, outcome="no key", tries=5), fence=held.fence)
    for lane, progress in store.finality_records.progress(2_000).items():
        store.finality_records.beat(Heartbeat(lane=lane, at=2_000, progress=progress))
    store.close()

    status = json.loads(waybill("sync", "status", "--json").out)
    (lane,) = status["lanes"]
    assert (lane["name"], lane["primaryFinal"], lane["applied"], lane["lagSeconds"]) == ("alpha → beta", 3, 1, 1_900)
    pending = [
        (one["messageId"], one["state"], one["propagations"], one["problem"], one["next"]) for one in status["pending"]
    ]
    assert set(pending) == {
        (f"0x{lost.id.hex()}", "PENDING", 0, "", None),
        (f"0x{stuck.id.hex()}", "DIVERGED", 5, "no key", f"waybill sync reconcile 0x{stuck.id.hex()}"),
    }
    monkeypatch.setenv("COLUMNS", "80")
    shown = waybill("sync", "status").out
    assert "alpha → beta" in shown
    assert "1900 s" in shown
    assert "DIVERGED" in shown
    assert f"0x{lost.id.hex()}" in shown, "an id is copied, so it is not broken into lines"
