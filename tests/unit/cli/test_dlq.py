"""`waybill dlq` is for bad times: a letter is read while the chains that it is about are down."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from bridge.dead_letters.signing import KeySealer
from bridge.domain.dead_letters import RecordKind
from bridge.rpc.policy import EndpointPolicy
from bridge.settings import Settings
from bridge.store import open_dead_letters, open_store
from tests.builders import ALPHA, BETA, message
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.dead_letters.world import SEALER, DeadLetterService, happened


def test_a_letter_is_shown_while_no_chain_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    url = f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db"
    with closing(open_store(url)) as store, closing(open_dead_letters(url)) as log:
        event_id = asyncio.run(DeadLetterService(store, log).die(message(), error="the gateway is gone"))
    hasty = {chain_id: EndpointPolicy(retry_seconds=0.2) for chain_id in (ALPHA, BETA)}
    monkeypatch.setattr(Settings, "endpoint_policies", lambda *_: hasty)
    capsys.readouterr()
    ended = Command(monkeypatch, capsys)("dlq", "show", event_id, "--json")
    assert ended.code == 0, ended.err
    (letter,) = json.loads(ended.out)
    assert letter["document"]["failureHistory"][0]["errorMessage"] == "the gateway is gone"
    assert letter["analysis"]["wouldRetrySucceed"].startswith("not known")


def test_lanes_have_names_and_nothing_is_suggested_for_a_letter_that_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_network(tmp_path)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    url = f"sqlite:///{tmp_path}/.waybill/devnet/bridge.db"
    with closing(open_store(url)) as store, closing(open_dead_letters(url)) as log:
        event_id = asyncio.run(DeadLetterService(store, log).die(message()))
        waybill = Command(monkeypatch, capsys)
        open_one = waybill("dlq", "show", event_id)
        log.append(happened(event_id, RecordKind.RECOVERED, 1, by=event_id, block=7), KeySealer(SEALER))
    closed = waybill("dlq", "show", event_id)
    (value,) = json.loads(waybill("dlq", "show", event_id, "--json").out)
    assert "alpha → beta over hyperlane" in open_one.out
    assert "nothing: it is RECOVERED" not in open_one.out
    assert "nothing: it is RECOVERED" in closed.out
    assert (value["next"], value["decisions"]) == ("nothing: it is RECOVERED", [])
