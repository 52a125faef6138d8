"""`waybill dlq` is for bad times: a letter is read while the chains that it is about are down."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pytest

from bridge.rpc.policy import EndpointPolicy
from bridge.settings import Settings
from bridge.store import open_dead_letters, open_store
from tests.builders import ALPHA, BETA, message
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.dead_letters.world import DeadLetterService


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
