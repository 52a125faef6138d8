"""`waybill dlq` is for bad times: a letter is read while the chains that it is about are down."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge.cli.dlq import _named
from bridge.cli.output import CliError
from bridge.dead_letters.signing import KeySealer
from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.records.dead_letters import RecordKind
from bridge.service.settings import Settings
from bridge.store import open_dead_letters, open_store
from tests.builders import ALPHA, BETA, message
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.nodes import node, nodes
from tests.unit.dead_letters.world import SEALER, DeadLetterService, entered, happened

HEADERS = (
    "error", "error-type", "reason", "source-topic", "source-partition", "source-offset", "timestamp", "pipeline",
    "destination", "filter", "transform",
)  # fmt: skip


def test_letter_is_shown_while_no_chain_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    url = f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db"
    with closing(open_store(url)) as store, closing(open_dead_letters(url)) as log:
        event_id = asyncio.run(DeadLetterService(store, log).die(message(), error="the gateway is gone"))
    hasty = {chain_id: EndpointPolicy(try_seconds=0.2) for chain_id in (ALPHA, BETA)}
    monkeypatch.setattr(Settings, "endpoint_policies", lambda *_: hasty)
    capsys.readouterr()
    ended = Command(monkeypatch, capsys)("dlq", "show", event_id, "--json")
    assert ended.code == 0, ended.err
    (letter,) = json.loads(ended.out)
    document = letter["document"]
    assert document["failureHistory"][0]["errorMessage"] == "the gateway is gone"
    assert document["originalMessage"] == f"0x{message().encode().hex()}"
    assert document["headers"].keys() == {f"waybill-{name}" for name in HEADERS}
    assert document["headers"]["waybill-error"] == "the gateway is gone"
    assert letter["analysis"]["wouldRetrySucceed"].startswith("not known")


def test_export_keeps_every_letter_and_decision(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing is deleted: a decided letter older than its retention is exported whole, with its decision."""
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    decided = {"decisionType": "ABANDON", "decisionMaker": SEALER.address, "rationale": "the recipient is retired"}
    with closing(open_dead_letters(f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db")) as log:
        for name in ("old", "open"):
            log.append(entered(name, at=100.0), KeySealer(SEALER))
        log.append(happened("old", RecordKind.DECIDED, 1, **decided), KeySealer(SEALER))
    waybill = Command(monkeypatch, capsys)
    exported = [json.loads(line) for line in waybill("dlq", "export").out.splitlines()]
    assert [one["key"] for one in exported] == ["entered/old", "entered/open", "DECIDED/old/1"]
    assert exported[2]["document"] == decided
    kept = tmp_path / "dead-letters.jsonl"
    assert waybill("dlq", "export", "--to", str(kept)).code == 0
    assert [json.loads(line) for line in kept.read_text().splitlines()] == exported


def test_verify_names_a_changed_record_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setenv("WAYBILL_DLQ", json.dumps({"trusted_signers": [SEALER.address]}))
    database = tmp_path / ".waybill" / "devnet" / "bridge.db"
    with nodes((ALPHA, node()), (BETA, node())) as urls:
        write_network(tmp_path, *urls)
        with closing(open_dead_letters(f"sqlite:///{database}")) as log:
            record = log.append(entered("a"), KeySealer(SEALER))
        assert record is not None
        waybill = Command(monkeypatch, capsys)
        whole = waybill("dlq", "verify", "--head", f"0x{record.hash.hex()}")
        assert (whole.code, whole.out.strip()) == (0, f"1 records verified; head 0x{record.hash.hex()}")
        cut = waybill("dlq", "verify", "--head", "0x" + "01" * 32)
        assert (cut.code, "the log was cut off or written again" in cut.out) == (1, True)
        with closing(sqlite3.connect(database)) as tampered, tampered:
            tampered.execute("UPDATE dead_letter_log SET document = replace(document, 'no proof', 'all fine')")
        changed = waybill("dlq", "verify", "--json")
    assert changed.code == 1
    assert "record 1 (a): its document is not the one that was hashed" in json.loads(changed.out)["violations"]


def test_the_letters_of_an_atomic_action_are_found_by_its_id(tmp_path: Path) -> None:
    action = "0x" + "ac" * 32
    with closing(open_dead_letters(f"sqlite:///{tmp_path}/letters.db")) as log:
        log.append(entered(f"{action}/action/1"), KeySealer(SEALER))
        assert _named(log, action) == _named(log, f"{action}/action/1") == [f"{action}/action/1"]
        with pytest.raises(CliError, match="no dead letter 0x"):
            _named(log, "0x" + "ad" * 32)
