"""A destination asks for more GMPs than a message names: its sender is told as it is sent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.domain.ports import Call
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import ROUTER
from tests.anvil.command import new_home
from tests.anvil.traffic import transact
from tests.unit.cli.command import Command


async def test_a_message_over_fewer_gmps_than_the_floor_is_sent_with_a_word_about_it(
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
    assert one.code == 0, one.err
    assert "beta asks for 2 GMPs" in one.err
    assert "until the message is retried over others, nothing executes it" in one.err
    two = await asyncio.to_thread(waybill, "send", "--payload", "hello", "--gmps", "hyperlane,axelar", "--json")
    assert "asks for" not in two.err
