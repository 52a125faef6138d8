"""`waybill send`, as a user types it, on chains whose routers take every message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridge.protocol.message import Kind
from tests.builders import ALPHA, BETA
from tests.unit.cli.command import Command
from tests.unit.client.test_asset_classes import RECIPIENT, TTLS
from tests.unit.dead_letters.test_review import RoutingChain, deployed


@pytest.fixture
def waybill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    @asynccontextmanager
    async def connected(*_: object, **__: object) -> AsyncIterator[dict[int, RoutingChain]]:
        yield {chain_id: RoutingChain(chain_id) for chain_id in (ALPHA, BETA)}

    monkeypatch.setattr("bridge.cli.send.connected", connected)
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    for name in ("WAYBILL_KEY", "WAYBILL_NETWORK"):
        monkeypatch.delenv(name, raising=False)
    network = {"version": 1, "network": "devnet", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments" / "devnet.json").write_text(json.dumps(network))
    return Command(monkeypatch, capsys)


def ttl_of(waybill: Command, *options: str) -> int:
    """How long the message that is sent lives, in seconds."""
    ended = waybill("send", "--payload", "x", "--recipient", RECIPIENT, "--anyway", "--json", *options)
    assert ended.code == 0, ended.err
    return int(json.loads(ended.out)["ttl"])


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind < Kind.CANCELLATION], ids=lambda kind: kind.name)
def test_send_ttl_defaults_to_that_of_the_kind(waybill: Command, kind: Kind) -> None:
    assert ttl_of(waybill, "--kind", kind.name.lower()) == TTLS[kind.name]
    assert ttl_of(waybill, "--kind", kind.name.lower(), "--ttl", "900") == 900


def test_send_ttl_respects_the_asset_class(waybill: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat = ("--kind", "heartbeat", "--ttl", "3")  # the only kind that may be sent though it can't arrive in time
    for chain, ttl in (("beta", 5), ("alpha", 3)):
        classes = {"high-frequency": {"members": {chain: [RECIPIENT]}}}
        monkeypatch.setenv("WAYBILL_ASSET_CLASSES", json.dumps(classes))
        assert ttl_of(waybill, *heartbeat) == ttl


def test_people_are_told_which_gmps_refused_only_if_some_did(waybill: Command) -> None:
    ended = waybill("send", "--payload", "x", "--recipient", RECIPIENT, "--anyway")
    assert ended.code == 0, ended.err
    assert "transaction" in ended.out
    assert "refused by" not in ended.out
