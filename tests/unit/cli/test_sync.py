"""`waybill sync` tells for each destination whether a state change was applied there, with the record of its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.domain.finality_records import Heartbeat
from bridge.domain.jobs import SyncJob, SyncState
from bridge.protocol.message import Kind
from bridge.store import open_store
from tests.builders import ALPHA, BETA, message, observed_range
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network


@pytest.mark.requirement("OIP-133", "OIP-135")
def test_what_was_applied_where_is_told_for_each_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    waybill = Command(monkeypatch, capsys)
    applied, lost, unknown = (message(nonce, kind=Kind.STATE_SYNC) for nonce in (1, 2, 3))
    store = open_store(f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db")
    store.observations.record(observed_range(applied, lost))
    store.finality_records.collect(frozenset({Kind.STATE_SYNC}), 0)
    done = store.jobs.newest(SyncJob, applied.id)
    assert done is not None
    store.jobs.save(done.settled(SyncState.APPLIED, "", 1_000), fence=done.fence)
    for lane, progress in store.finality_records.progress(2_000).items():
        store.finality_records.beat(Heartbeat(lane=lane, at=2_000, progress=progress))
    store.close()

    for sent, state in ((applied, "APPLIED"), (lost, "PENDING")):
        told = json.loads(waybill("sync", "prove", f"0x{sent.id.hex()}", "--json").out)
        assert (told["state"], told["record"]["messageId"]) == (state, f"0x{sent.id.hex()}")
        assert (told["record"]["sourceChain"], told["record"]["destinationChain"]) == (ALPHA, BETA)
    (waits,) = json.loads(waybill("sync", "status", "--json").out)["pending"]
    assert waits["messageId"] == f"0x{lost.id.hex()}"
    monkeypatch.setenv("COLUMNS", "80")
    shown = waybill("sync", "status").out
    assert "alpha → beta" in shown
    assert f"0x{lost.id.hex()}" in shown, "an id is copied, so it is not broken into lines"
    refused = waybill("sync", "prove", f"0x{unknown.id.hex()}", "--json")
    assert "is not followed: only state changes are" in refused.error["message"]
