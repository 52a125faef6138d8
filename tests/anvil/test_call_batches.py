"""Deliveries that share transactions on real chains with the real GMPs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.evm.sender import Sender
from bridge.evm.settings import SendingSettings
from bridge.evm.signing import LocalSigner
from bridge.evm.supervision import run_forever
from bridge.protocol.gmps import Gmp
from bridge.service.relayer_service import SystemClock
from bridge.store import Store
from bridge.store.observations import Finality
from tests.anvil.traffic import RELAYER, World
from tests.waiting import PATIENCE

SHARE = 8
BY_ANYONE = sorted(frozenset(Gmp) - {Gmp.CCIP})  # CCIP records a failure instead of reverting
pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * PATIENCE)]


@asynccontextmanager
async def sending(chain: EvmChain, multicall: str | None, store: Store) -> AsyncIterator[Sender]:
    """The relayer's account, looked after."""
    sender = Sender(
        chain,
        LocalSigner(RELAYER),
        store.transactions,
        SystemClock(),
        finality=Finality(store.observations, chain.chain_id),
        settings=SendingSettings(poll_interval=0.1, max_calls_per_tx=SHARE),
        multicall=multicall,
    )
    monitors = asyncio.create_task(run_forever("send", sender.tick, every=0.1))
    try:
        yield sender
    finally:
        monitors.cancel()
        await asyncio.gather(monitors, return_exceptions=True)
        await sender.close()


async def test_one_transaction_delivers_several_over_each_open_gmp(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    world, beta = World(devnet.deployment, chains), devnet.deployment.chain("beta")
    for _ in range(2):
        await world.send(*Gmp, quorum=len(BY_ANYONE))
    (ccips, _) = await world.dispatches(Gmp.CCIP)
    adapter = world.adapter(Gmp.CCIP)
    call = await adapter.next_call(ccips, await adapter.attest(ccips))
    assert call is not None
    assert not call.by_anyone
    dispatches = [dispatch for gmp in BY_ANYONE for dispatch in await world.dispatches(gmp)]
    attestations = [await world.adapter(one.gmp).attest(one) for one in dispatches]
    store, sizes = Store(f"sqlite:///{tmp_path}/bridge.db"), []
    async with sending(chains[beta.chain_id], beta.multicall, store) as sender:
        while True:
            pairs = zip(dispatches, attestations, strict=True)
            calls = [await world.adapter(one.gmp).next_call(one, attestation) for one, attestation in pairs]
            wanted = [
                (one, replace(call, gas=call.gas or 1_000_000))  # what has to be estimated is ready a moment later
                for one, call in zip(dispatches, calls, strict=True)
                if call is not None
            ]
            if not wanted:
                break
            assert all(call.by_anyone for _, call in wanted)
            receipts = await asyncio.gather(
                *(sender.send(f"{one.message_id.hex()}/{one.gmp}", call, may_share=True) for one, call in wanted)
            )
            assert {receipt.succeeded for receipt in receipts} == {True}
            sizes.append((len(receipts), len({receipt.transaction_hash for receipt in receipts})))
    store.close()
    assert sizes == [(8, 1), (2, 1)]  # Axelar approves first, and is executed then
    assert [await world.executed(dispatch) for dispatch in dispatches] == [True] * 8
