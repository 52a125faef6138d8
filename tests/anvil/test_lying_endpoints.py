"""The real relayer behind endpoints whose answers are all wrong: they cost time, and no try."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.service.relayer_service import RelayerService, open_relayer
from tests.anvil.fault_proxy import Fault, FaultProxy
from tests.anvil.relayers import until
from tests.anvil.rpc import rpc
from tests.anvil.test_relayer import Traffic, blocks, settings
from tests.anvil.test_storm import ended
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * PATIENCE)]

FAULTS = 5  # wrong answers of each chain before its endpoint is right again


@asynccontextmanager
async def behind_proxies(
    devnet: Devnet, folder: Path, **changes: object
) -> AsyncIterator[tuple[RelayerService, list[FaultProxy]]]:
    """A relayer at work whose only endpoint of each chain is a proxy."""
    proxies = [FaultProxy(chain.rpc_urls[0], 1, 0.0) for chain in devnet.deployment.chains]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(proxy.serving()) for proxy in proxies]
        moved = tuple(
            chain.model_copy(update={"rpc_urls": (url,)})
            for chain, url in zip(devnet.deployment.chains, urls, strict=True)
        )
        deployment = devnet.deployment.model_copy(update={"chains": moved})
        bridge = await stack.enter_async_context(
            open_relayer(deployment, settings(folder, **changes), devnet_attesters)
        )
        running = asyncio.create_task(bridge.run())
        stack.push_async_callback(ended, running)
        await stack.enter_async_context(blocks(devnet))
        yield bridge, proxies


async def all_is_delivered(
    devnet: Devnet, chains: Mapping[int, EvmChain], folder: Path, fault: Fault
) -> dict[str, str | None]:
    """Delivers over each GMP while every answer is wrong at first; the last error of each entry that lost a try."""
    traffic = Traffic(devnet, chains)
    async with behind_proxies(devnet, folder) as (bridge, proxies):
        await traffic.send(Gmp.WORMHOLE)
        await traffic.all_executed()
        for proxy in proxies:
            proxy.always = fault
        for gmp in Gmp:
            await traffic.send(gmp)
        await until(lambda: all(proxy.faults.total() >= FAULTS for proxy in proxies), "each endpoint has lied")
        for proxy in proxies:
            proxy.always = None
        await traffic.all_executed()
        listed = bridge.store.outbox.listed
        await until(lambda: len(listed(state=OutboxState.DELIVERED)) == 1 + len(Gmp), "all deliveries are noted")
        return {entry.event_id: entry.last_error for entry in listed() if entry.failed_tries}


async def test_views_that_are_answered_with_nothing_cost_no_try(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    assert await all_is_delivered(devnet, chains, tmp_path, FaultProxy.calls_blank) == {}


@pytest.mark.parametrize(
    "fault",
    [
        FaultProxy.logs_left_out,
        FaultProxy.logs_doubled_and_shuffled,
        FaultProxy.logs_altered,
        FaultProxy.logs_of_another_block,
    ],
    ids=lambda fault: fault.__name__,
)
async def test_nothing_is_lost_by_answers_with_other_logs(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, fault: Fault
) -> None:
    await all_is_delivered(devnet, chains, tmp_path, fault)  # the devnet's oracles, which sign what they read, may fail


async def test_message_in_the_place_of_a_reorged_one_gets_a_letter(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    """LayerZero knows a message by its number, which a message after a reorg may have again."""
    traffic, alpha = Traffic(devnet, chains), devnet.deployment.chain("alpha")
    patient = {"policies": {"plain": {"base": 0.2, "cap": 0.5, "max_retries": 3}}}
    async with behind_proxies(devnet, tmp_path, **patient) as (bridge, _):
        before = (await chains[alpha.chain_id].head()).number
        await traffic.send(Gmp.LAYERZERO)
        await traffic.all_executed()
        depth = (await chains[alpha.chain_id].head()).number - before
        await asyncio.to_thread(rpc, alpha.rpc_urls[0], "anvil_reorg", depth, [])
        traffic.sent.clear()
        message = await traffic.send(Gmp.LAYERZERO)
        await until(
            lambda: [one.state for one in bridge.store.outbox.entries(message.id)] == [OutboxState.DEAD], "it is dead"
        )
        (entry,) = bridge.store.outbox.entries(message.id)
        assert entry.failed_tries == 4
        assert "the router has no receipt" in str(entry.last_error)
        (letter,) = bridge.dead_letter_service.dead_letters.dead_letters(message_id=message.id)
        assert letter.error_code == "TransportUsedError"
        await bridge.retry(message.id, (Gmp.WORMHOLE,))
        await traffic.all_executed()
