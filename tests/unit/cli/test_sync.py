"""`waybill sync` tells for each destination whether a state change was applied there, with the record of its source."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account import Account
from eth_typing import Hash32

from bridge.dead_letters.signing import KeySealer
from bridge.domain.dead_letters import canonical
from bridge.domain.finality_records import Heartbeat, Segment
from bridge.domain.jobs import SyncJob, SyncState
from bridge.domain.merkle import InclusionProof, root_of, verifies
from bridge.protocol.message import Kind
from bridge.store import open_store
from tests.builders import ALPHA, BETA, block, message, observed_range
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.nodes import node, nodes
from tests.unit.dead_letters.world import SEALER
from tests.unit.evm.rpc_server import Answer, error

RELAYER = "0x" + "e1" * 20
ARRIVED = f"0x{encode(['(uint64,uint64,uint64,uint32,uint64,uint256)', 'uint256', 'bool'], [(1_700_000_000, 3, 2, 9, 4, 0), 1, True]).hex()}"


def another_contract(method: str, params: list[Any]) -> Answer | Awaitable[Answer]:
    """The node of a chain with another contract where `Heartbeats` should be."""
    return error(3, "execution reverted", "0x") if method == "eth_call" else node()(method, params)


def test_heartbeats_are_shown_but_for_the_chain_that_can_not_be_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    recipients = dict.fromkeys(("alpha", "beta"), "0x" + "b0" * 20)
    monkeypatch.setenv("WAYBILL_HEARTBEATS", json.dumps({"recipients": recipients, "senders": [RELAYER]}))
    waybill = Command(monkeypatch, capsys)
    for broken, named in ((another_contract, "compare its address"), (None, "answers")):
        with nodes((ALPHA, node(said=ARRIVED)), (BETA, broken or node())) as urls:
            write_network(tmp_path, urls[0], urls[1] if broken else "http://127.0.0.1:1")
            ended = waybill("sync", "heartbeats", "--json")
        (lane,) = json.loads(ended.out)
        assert (lane["name"], lane["lagSeconds"], lane["missing"]) == ("beta → alpha", 9, 1)
        assert ended.code == 1, "a list that lacks lanes is no success"
        assert "the lanes to beta are missing" in ended.err
        assert named in ended.err
    refused = waybill("sync", "heartbeats", "--from", "nonsense", "--json")
    assert (refused.code, "'nonsense' is not an EVM address" in refused.error["message"]) == (2, True)


def test_what_was_applied_where_is_told_for_each_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    waybill = Command(monkeypatch, capsys)
    applied, lost, stuck, unknown = (message(nonce, kind=Kind.STATE_SYNC) for nonce in (1, 2, 3, 4))
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

    for sent, state in ((applied, "APPLIED"), (lost, "PENDING")):
        told = json.loads(waybill("sync", "prove", f"0x{sent.id.hex()}", "--json").out)
        assert (told["state"], told["record"]["messageId"]) == (state, f"0x{sent.id.hex()}")
        assert (told["record"]["sourceChain"], told["record"]["destinationChain"]) == (ALPHA, BETA)
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
    refused = waybill("sync", "prove", f"0x{unknown.id.hex()}", "--json")
    assert "is not followed: only state changes are" in refused.error["message"]


def test_a_record_is_proven_from_the_archive_and_a_changed_one_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    waybill, sent = Command(monkeypatch, capsys), [message(nonce, kind=Kind.STATE_SYNC) for nonce in (1, 2, 3)]
    store = open_store(f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db")
    store.observations.record(observed_range(*sent))
    store.finality_records.collect(frozenset({Kind.STATE_SYNC}), 0)
    for job in store.jobs.due(SyncJob, 1e12, 10):
        store.jobs.save(job.settled(SyncState.APPLIED, "", 1_000), fence=job.fence)
    records = store.finality_records.resolved(2_000, 10)
    root, signer = root_of([record.leaf for record in records]), KeySealer(SEALER)
    segment = Segment(
        number=1, root=root, count=3, archived_at=2_000, signer=signer.address, signature=signer.sign(root)
    )
    store.finality_records.archive(records, segment)
    store.close()

    def proven(number: int) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(waybill("sync", "prove", f"0x{sent[number].id.hex()}", "--json").out)
        assert told["state"] == "ARCHIVED"
        return told

    for number, one in enumerate(sent):
        told = proven(number)
        assert told["record"] == next(record.document for record in records if record.message_id == one.id)
        named = (told["record"]["block"], told["record"]["blockHash"], told["record"]["finalAt"])
        assert named == (10, f"0x{block(10).hash.hex()}", records[0].final_at)
        assert (told["verifies"], told["root"], told["signer"]) == (True, f"0x{root.hex()}", SEALER.address)
        proof = InclusionProof(told["position"], told["count"], tuple(bytes.fromhex(node[2:]) for node in told["path"]))
        assert verifies(canonical(told["record"]), proof, root), "by what is printed alone"
        assert Account._recover_hash(Hash32(root), signature=bytes.fromhex(told["signature"][2:])) == SEALER.address
    with closing(sqlite3.connect(tmp_path / ".waybill" / "devnet" / "bridge.db")) as tampered, tampered:
        changed = canonical({**records[0].document, "block": 11})
        tampered.execute("UPDATE archived_records SET leaf = ? WHERE position = 0", (changed,))
    assert [proven(number)["verifies"] for number in range(3)].count(False) >= 1
