"""A destination asks for more GMPs than a message names: its sender is told before it pays, and while it waits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from bridge.protocol.ports import Call
from tests.anvil.command import new_home
from tests.anvil.traffic import transact
from tests.unit.cli.command import Command

pytestmark = pytest.mark.long


async def test_message_below_the_floor_is_refused_and_explained(
    devnet: Devnet,
    chains: dict[int, EvmChain],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    alpha, beta = devnet.deployment.chains[:2]
    raised = Call(to=beta.router, data=ROUTER.encode("setFloor", alpha.chain_id, 2))
    assert (await transact(chains[beta.chain_id], account(DEPLOYER_KEY), raised)).succeeded
    monkeypatch.setenv("WAYBILL_HOME", str(new_home(devnet, tmp_path)))
    waybill = Command(monkeypatch, capsys)
    one = await asyncio.to_thread(waybill, "send", "--payload", "hello", "--gmps", "hyperlane", "--json")
    assert one.code == 1
    assert "requires 2 GMPs for messages from alpha, but only 1 of the given GMPs count" in one.err
    anyway = await asyncio.to_thread(waybill, "send", "--payload", "hello", "--gmps", "hyperlane", "--anyway", "--json")
    explained = await asyncio.to_thread(waybill, "message", "show", json.loads(anyway.out)["messageId"], "--json")
    assert json.loads(explained.out)["reason"].startswith("0 of 2 GMPs have delivered")
    two = await asyncio.to_thread(waybill, "send", "--payload", "hello", "--gmps", "hyperlane,axelar", "--json")
    assert two.code == 0, two.err
