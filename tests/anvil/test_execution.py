"""Receipts that a pause kept from counting, on real chains: when it ends, the relayer executes what they complete."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.records.jobs import ExecutionJob, ExecutionState
from bridge.records.outbox import OutboxState
from bridge.service.relayer_service import RelayerService
from tests.anvil.relayers import until
from tests.anvil.test_adapter_failures import end_pause, pause
from tests.anvil.test_relayer import blocks, relaying
from tests.anvil.traffic import RELAYER, World
from tests.builders import BETA

pytestmark = pytest.mark.long


def awaited(bridge: RelayerService, message_id: bytes) -> ExecutionJob:
    found = bridge.store.jobs.newest(ExecutionJob, message_id)
    assert found is not None
    return found


async def test_what_was_delivered_while_a_gmp_was_paused_is_executed_by_the_relayer_when_the_pause_ends(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    world = World(devnet.deployment, chains)
    sent = await world.send(Gmp.HYPERLANE, Gmp.WORMHOLE, quorum=2)
    (dispatch,) = await world.dispatches(Gmp.HYPERLANE)

    def are_delivered(bridge: RelayerService, number: int) -> bool:
        return len(bridge.store.outbox.listed(state=OutboxState.DELIVERED)) == number

    async with blocks(devnet):
        async with relaying(devnet, tmp_path, paused_gmps="wormhole") as bridge:
            await until(lambda: are_delivered(bridge, 1), "hyperlane has delivered")
        await pause(world, Gmp.HYPERLANE)
        async with relaying(devnet, tmp_path) as bridge:
            await until(lambda: are_delivered(bridge, 2), "wormhole has delivered")
            await until(lambda: "QuorumNotReached" in awaited(bridge, sent.message.id).outcome, "it was looked at")
            assert not await world.executed(dispatch)
            await end_pause(world, Gmp.HYPERLANE)
            await until(lambda: awaited(bridge, sent.message.id).state is ExecutionState.EXECUTED, "it was executed")
            assert await world.executed(dispatch)
            await asyncio.sleep(3)
            one = awaited(bridge, sent.message.id)
            (slot,) = bridge.store.transactions.slots_for(one.transaction_key)
            assert slot.included is not None
            assert slot.included.succeeded
            used = bridge.store.transactions.slots(BETA, RELAYER.address)
            assert len(used) == 3, "two deliveries and one execution"
