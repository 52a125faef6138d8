"""A delivery is final when its block is; when its block falls, it is looked at again, at any depth."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from eth_abi.abi import encode

from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Block, Call
from bridge.records.observations import BlockRef
from bridge.records.outbox import Delivered as Ended
from bridge.records.outbox import ObservedDelivery, OutboxEntry, OutboxState
from bridge.relayer.confirmation import Confirmation
from bridge.relayer.settings import RelaySettings
from bridge.store.observations import Finality
from tests.builders import message, observed_range
from tests.cases import for_each_case
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import GMPS, ROUTER_ADDRESS
from tests.support.simulation.time import VirtualClock
from tests.support.simulation.world import Sent
from tests.support.stores import memory_store
from tests.unit.relayer.test_delivery import deliver_as_a_stranger
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338


class Delivered:
    """A world in which one message was delivered."""

    def __init__(self) -> None:
        self.world, self.store = World(), memory_store()
        self.sent: Sent = self.world.send(ALPHA, BETA)
        self.beta = self.world.chains[BETA]
        self.world.start()

    @property
    def entry(self) -> OutboxEntry:
        (entry,) = self.store.outbox.entries(self.sent.message.id)
        return entry

    def is_delivered(self) -> bool:
        return self.store.outbox.counts() != [] and self.entry.state is OutboxState.DELIVERED

    def is_confirmed(self) -> bool:
        return self.is_delivered() and self.entry.confirmed_at is not None


@for_each_case("depth", [1, 2, 4, 16, 64])
@in_virtual_time
async def test_delivery_undone_by_a_reorg_is_repeated(depth: int) -> None:
    case = Delivered()
    case.beta.mine(80)
    async with running(SimulatedRelayer(case.world, case.store)):
        await until(case.is_delivered)
        await asyncio.sleep(max(0, depth - 2))
        case.beta.reorganise(depth, keep=0)
        assert case.world.executions(case.sent.message) == 0
        await until(lambda: case.world.executions(case.sent.message) == 1)
        await until(case.is_confirmed)
        await asyncio.sleep(10)
    assert case.entry.delivery is not None
    block = await case.beta.block(case.entry.delivery.block.number)
    assert block is not None
    assert case.entry.delivery.block.hash == block.hash
    await case.world.stop()


@in_virtual_time
async def test_a_strangers_delivery_that_a_reorg_undid_is_made_by_us() -> None:
    case = Delivered()
    await until(lambda: case.sent.created != [])
    deliver_as_a_stranger(case.world, case.sent.message, Gmp.HYPERLANE)
    await until(lambda: case.world.executions(case.sent.message) == 1)
    async with running(SimulatedRelayer(case.world, case.store)):
        await until(case.is_delivered)
        assert case.beta.broadcasts == 0
        case.beta.reorganise(8, keep=0)
        await until(lambda: case.world.executions(case.sent.message) == 1)
        await until(case.is_confirmed)
    assert case.beta.broadcasts > 0
    await case.world.stop()


@in_virtual_time
async def test_a_delivery_above_a_lagging_head_is_not_recorded_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorded block would be final before the delivery is, and a reorg would then lose the delivery."""
    case, lagging, truth = Delivered(), [BETA], SimulatedChain.head
    await until(lambda: case.sent.created != [])
    behind = await case.beta.head()
    case.beta.mine(3)
    deliver_as_a_stranger(case.world, case.sent.message, Gmp.HYPERLANE)
    await until(lambda: case.world.executions(case.sent.message) == 1)

    async def head(chain: SimulatedChain) -> Block:
        return behind if chain.chain_id in lagging else await truth(chain)

    monkeypatch.setattr(SimulatedChain, "head", head)
    async with running(SimulatedRelayer(case.world, case.store)):
        await until(lambda: case.store.outbox.counts() != [])
        await asyncio.sleep(10)
        assert case.entry.state is not OutboxState.DELIVERED
        lagging.clear()
        await until(case.is_confirmed)
    assert case.entry.delivery is not None
    assert case.entry.delivery.block.number > behind.number + 3
    assert case.beta.broadcasts == 0
    await case.world.stop()


@in_virtual_time
async def test_false_claim_of_delivery_is_delivered_after_finality(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, lies, truth = Delivered(), [b"hasReceived"], SimulatedChain.call

    async def call(chain: SimulatedChain, asked: Call, **how: Any) -> bytes:
        if lies and asked.data[:4] == ROUTER.selector("hasReceived"):
            return encode(["bool"], [True])
        return await truth(chain, asked, **how)

    monkeypatch.setattr(SimulatedChain, "call", call)
    async with running(SimulatedRelayer(case.world, case.store)):
        await until(case.is_delivered)
        assert (case.beta.broadcasts, case.world.executions(case.sent.message)) == (0, 0)
        lies.clear()
        await until(lambda: case.world.executions(case.sent.message) == 1)
        await until(case.is_confirmed)
    assert case.entry.delivery is not None
    assert case.entry.delivery.transaction_hash is not None
    await case.world.stop()


@in_virtual_time
async def test_source_reorg_after_delivery_only_marks_the_entry() -> None:
    case = Delivered()
    async with running(SimulatedRelayer(case.world, case.store, relaying=RelaySettings(gmps=frozenset(GMPS)))):
        await until(case.is_confirmed)
        orphan = case.sent.message
        case.world.chains[ALPHA].reorganise(20, keep=0)
        await until(lambda: case.store.outbox.entries(orphan.id)[0].orphaned_at is not None)
        assert case.entry.state is OutboxState.DELIVERED
        assert case.store.observations.attempts(orphan.id) == []
    await case.world.stop()


@in_virtual_time
async def test_node_that_is_behind_opens_no_delivery_again() -> None:
    """It lacks the block and the receipt; a chain that has another block there is what a reorg looks like."""
    store, beta = memory_store(), SimulatedChain(BETA, random.Random(1))
    beta.mine(9)
    store.observations.record(observed_range(message(), now=1))
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=2, lease=60)
    head = await beta.head()
    store.outbox.finish([Ended(entry.current_claim, ObservedDelivery(BlockRef.of(head), bytes(32)))], 3)
    step = Confirmation(
        beta, ROUTER_ADDRESS, store.outbox, store.jobs, VirtualClock(), finality=Finality(store.observations, BETA)
    ).step
    beta.rollback(2)
    await step()
    await step()
    assert store.outbox.entries(message().id)[0].state is OutboxState.DELIVERED
    await asyncio.sleep(6)
    await step()
    assert store.outbox.entries(message().id)[0].state is OutboxState.PENDING, "by now it is a chain that got shorter"
