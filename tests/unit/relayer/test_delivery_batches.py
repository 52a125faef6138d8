"""Deliveries that share a transaction: none is lost, doubled or blamed for another."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Dispatch
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.records.transactions import Slot
from bridge.store import Store
from tests.simulation.invariants import History, complaints, deliveries, wasted_transactions
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS
from tests.support.simulation.world import Sent
from tests.support.stores import memory_store
from tests.unit.relayer.entries import with_adapter
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338


async def burst(world: World, count: int) -> list[Sent]:
    """Messages that wait when the relayer starts."""
    sent = [world.send(ALPHA, BETA) for _ in range(count)]
    await until(lambda: all(one.created for one in sent))
    await asyncio.sleep(5)  # deep enough to be acted on
    return sent


def slots(store: Store) -> list[Slot]:
    return store.transactions.slots(BETA, RELAYER.address)


def in_order(store: Store) -> list[OutboxEntry]:
    return sorted(store.outbox.listed(), key=lambda entry: entry.event_id)


def all_executed(world: World, sent: list[Sent]) -> bool:
    return all(world.executions(one.message) == 1 for one in sent)


@in_virtual_time
async def test_waiting_messages_share_transactions_over_every_gmp() -> None:
    world, store = World(), memory_store()
    world.start()
    for quorum in (1, 2, 3):
        world.send(ALPHA, BETA, gmps=GMPS, quorum=quorum)
    await asyncio.sleep(5)
    async with running(SimulatedRelayer(world, store, max_calls_per_tx=4)):
        history = History(0, world, store)
        await until(lambda: len(world.sent[-1].created) == 1 and not complaints(history))
    assert deliveries(history) == 9
    assert wasted_transactions(history) == 0
    # Nine calls at first, three of which are Axelar's approvals; then its three deliveries.
    assert sorted(len(slot.transaction_keys) for slot in slots(store)) == [1, 3, 4, 4]
    await world.stop()


class Careless(SimulatedAdapter):
    """The first tries of the first two messages are calls that revert."""

    store: Store

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        call = await super().next_call(dispatch, attestation)
        spoilt = {one.dispatch.message_id for one in in_order(self.store)[:2] if one.failed_tries == 0}
        if call is None or dispatch.message_id not in spoilt:
            return call
        return Call(to=call.to, data=call.data[:-1] + b"!", gas=call.gas, by_anyone=True)


@in_virtual_time
async def test_reverting_deliveries_fail_and_go_alone() -> None:
    world, store = World(), memory_store()
    world.start()
    Careless.store = store
    at_once = {**DEFAULT_POLICIES, Kind.PLAIN: replace(DEFAULT_POLICIES[Kind.PLAIN], base=0.001, cap=0.001)}
    sent = await burst(world, 5)
    async with running(
        with_adapter(SimulatedRelayer(world, store, max_calls_per_tx=8, policies=at_once), world, Careless)
    ):
        await until(lambda: all_executed(world, sent))
        await until(lambda: {entry.state for entry in store.outbox.listed()} == {OutboxState.DELIVERED})
    tries = [[one.failure.code for one in store.outbox.failures(entry.event_id)] for entry in in_order(store)]
    assert tries == [["DeliveryRevertedError"], ["DeliveryRevertedError"], [], [], []]
    assert [len(slot.transaction_keys) for slot in slots(store)] == [5, 1, 1]
    await world.stop()


@pytest.mark.parametrize("depth", [1, 4, 16])
@in_virtual_time
async def test_reorg_repeats_every_delivery_of_a_batch(depth: int) -> None:
    world, store = World(), memory_store()
    world.start()
    beta = world.chains[BETA]
    beta.mine(20)
    sent = await burst(world, 5)
    history = History(0, world, store)
    async with running(SimulatedRelayer(world, store, max_calls_per_tx=8)):
        await until(lambda: all_executed(world, sent))
        await until(lambda: {entry.state for entry in store.outbox.listed()} == {OutboxState.DELIVERED})
        await asyncio.sleep(max(0, depth - 2))
        beta.reorganise(depth, keep=0)
        assert [world.executions(one.message) for one in sent] == [0] * 5
        await until(lambda: not complaints(history))
    assert len(slots(store)[0].transaction_keys) == 5
    await world.stop()
