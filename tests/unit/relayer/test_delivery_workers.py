"""Workers die, sleep and are stopped; lanes and chains fail: others take over, and nobody waits for what does not concern him."""

from __future__ import annotations

import asyncio

import pytest

from bridge.evm.settings import SendingSettings
from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Dispatch
from bridge.records.outbox import OutboxState
from bridge.relayer.settings import PhaseSettings, RelaySettings
from tests.support.settings import tuned
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.stores import memory_store
from tests.unit.relayer.entries import only_entry, with_adapter
from tests.virtual_time import crash, in_virtual_time, running, until

ALPHA, BETA = 31337, 31338


@in_virtual_time
async def test_dead_workers_lease_is_taken_over() -> None:
    world, store = World(), memory_store()
    world.start()
    world.chains[BETA].base_fee = 10**6  # nothing is included: the first worker dies with its entry claimed
    first = SimulatedRelayer(world, store, name="first")
    task = asyncio.create_task(first.run())
    sent = world.send(ALPHA, BETA)
    await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
    await crash(first, task)
    world.chains[BETA].base_fee = 10
    died = world.clock.now()
    async with running(SimulatedRelayer(world, store, name="second")):
        await until(lambda: world.executions(sent.message) == 1 and only_entry(store, sent).delivered_at is not None)
    entry = only_entry(store, sent)
    assert entry.delivered_at is not None
    lease = RelaySettings().lease
    assert entry.fence == 2
    assert entry.delivered_at - died < lease + 30
    assert [one.worker for one in store.outbox.failures(entry.event_id)] == ["first"]
    await world.stop()


@in_virtual_time
async def test_takeover_waits_for_the_open_transaction() -> None:
    world, store = World(block_time=40), memory_store()
    world.start()
    first = SimulatedRelayer(world, store, name="first")
    async with running(first):
        sent = world.send(ALPHA, BETA)
        await until(lambda: world.chains[BETA].broadcasts == 1, seconds=600)
        first.power.cut()

    class Overtaken(SimulatedAdapter):
        """What it says is true when it asks, and out of date when it answers."""

        async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
            call = await super().next_call(dispatch, attestation)
            while store.transactions.open_slots(BETA, RELAYER.address):
                await asyncio.sleep(1)
            return call

    async with running(with_adapter(SimulatedRelayer(world, store, name="second"), world, Overtaken)):
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED, seconds=900)
    assert world.chains[BETA].state.nonces[RELAYER.address] == 1
    assert world.executions(sent.message) == 1
    await world.stop()


@in_virtual_time
async def test_sleeping_worker_is_fenced() -> None:
    world, store = World(), memory_store()
    world.start()
    asleep = asyncio.Event()

    class Sleepy(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            await asleep.wait()
            return await super().attest(dispatch)

    first = with_adapter(SimulatedRelayer(world, store, name="first"), world, Sleepy)
    claim = first.relayer.deliveries[BETA].step

    async def claim_once() -> bool:
        return False if first.relayer.deliveries[BETA]._active else await claim()

    # What SIGSTOP stops: renewing, and claiming again.
    first.relayer.deliveries[BETA].renew = _never  # type: ignore[method-assign]  # stops it there
    first.relayer.deliveries[BETA].step = claim_once  # type: ignore[method-assign]  # stops it there
    async with running(first):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
        async with running(SimulatedRelayer(world, store, name="second")):
            await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
            broadcasts = world.chains[BETA].broadcasts
            asleep.set()
            await asyncio.sleep(30)
    entry = only_entry(store, sent)
    assert world.chains[BETA].broadcasts == broadcasts
    assert (entry.state, entry.fence) == (OutboxState.DELIVERED, 2)
    assert [one.worker for one in store.outbox.failures(entry.event_id)] == ["first"]
    await world.stop()


async def _never() -> bool:
    return False


@in_virtual_time
async def test_a_worker_whose_delivery_takes_long_keeps_its_lease() -> None:
    world, store = World(), memory_store()
    world.start()

    class Slow(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            await asyncio.sleep(5 * RelaySettings().lease)
            return await super().attest(dispatch)

    async with running(with_adapter(SimulatedRelayer(world, store, name="slow"), world, Slow)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
        async with running(SimulatedRelayer(world, store, name="other")):
            await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
    assert only_entry(store, sent).fence == 1
    await world.stop()


@in_virtual_time
async def test_a_worker_that_is_stopped_gives_its_entries_back_at_once() -> None:
    world, store = World(), memory_store()
    world.start()
    world.chains[BETA].base_fee = 10**6
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
    entry = only_entry(store, sent)
    assert (entry.state, entry.last_error) == (OutboxState.PENDING, "the worker stopped")
    assert entry.available_at <= world.clock.now()
    assert (entry.failed_tries, entry.setbacks) == (0, 0), "a deployment of the relayer costs no try"
    await world.stop()


@in_virtual_time
async def test_after_an_outage_of_every_chain_the_same_life_goes_on() -> None:
    world, store = World(), memory_store()
    world.start()
    async with running(SimulatedRelayer(world, store)):
        before = world.send(ALPHA, BETA)
        await until(lambda: before.created != [] and world.executions(before.message) == 1)
        for chain in world.chains.values():
            chain.faults.unavailable = 1
        sent = world.send(ALPHA, BETA)
        await asyncio.sleep(120)
        assert store.observations.message(sent.message.id) is None, "nobody could see it"
        for chain in world.chains.values():
            chain.faults.unavailable = 0
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


@in_virtual_time
async def test_skewed_clocks_deliver_each_message_once() -> None:
    """To the one whose clock is ahead every lease of the other has run out: it takes over what the other works on."""
    world, store = World(), memory_store()
    world.start()
    ahead = SimulatedRelayer(world, store, name="ahead", ahead=30)
    behind = SimulatedRelayer(world, store, name="behind", ahead=-30)
    async with running(behind):
        world.chains[BETA].base_fee = 10**6  # nothing is included until the other one has come
        sent = [world.send(ALPHA, BETA) for _ in range(10)]
        await until(lambda: all(one.created and store.outbox.entries(one.message.id) for one in sent))
        await until(lambda: all(only_entry(store, one).state is OutboxState.CLAIMED for one in sent))
        async with running(ahead):
            await until(lambda: any(only_entry(store, one).fence > 1 for one in sent))
            world.chains[BETA].base_fee = 10
            await until(lambda: all(only_entry(store, one).state is OutboxState.DELIVERED for one in sent))
    assert [world.executions(one.message) for one in sent] == [1] * len(sent)
    transaction_keys = [only_entry(store, one).event_id for one in sent]
    assert [len(store.transactions.slots_for(transaction_key)) for transaction_key in transaction_keys] == [1] * len(
        sent
    ), "none was wasted"
    await world.stop()


@pytest.mark.parametrize("ahead", [-3_600.0, 3_600.0])
@in_virtual_time
async def test_message_expires_by_the_chains_time(ahead: float) -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedRelayer(world, store, ahead=ahead)):
        sent, late = world.send(ALPHA, BETA, ttl=600), world.send(ALPHA, BETA, ttl=60)
        await until(lambda: late.created != [] and store.outbox.entries(late.message.id) != [])
        await until(lambda: only_entry(store, late).state is OutboxState.DEAD, seconds=200)
        waiting = only_entry(store, sent)
        assert waiting.state is not OutboxState.DEAD
        assert waiting.failed_tries > 1
        assert world.chains[BETA].state.timestamp < sent.message.sent_at + 600
        world.down.clear()
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


@in_virtual_time
async def test_hopeless_delivery_is_given_up_without_a_letter() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA, ttl=60)
        await until(lambda: sent.created != [] and store.outbox.entries(sent.message.id) != [])
        await until(lambda: only_entry(store, sent).state is OutboxState.DEAD, seconds=200)
        given_up = only_entry(store, sent)
        most = DEFAULT_POLICIES[sent.message.kind].max_tries
        assert most is not None
        assert given_up.failed_tries < most
        assert store.outbox.dead_letters() == {given_up.event_id: False}
    await world.stop()


@in_virtual_time
async def test_phase_timeout_behind_a_stuck_nonce_costs_no_try() -> None:
    """The first in line is charged; what waits behind its nonce has done nothing wrong."""
    world, store = World(block_time=5), memory_store()
    world.start()
    relaying = RelaySettings(phase_timeouts=PhaseSettings(deliver=7.0))
    sending = tuned(SendingSettings(poll_interval=0.5, fee_bump_after=10_000), INCLUSION_TIMEOUT=600)
    async with running(SimulatedRelayer(world, store, relaying=relaying, sending=sending)):
        first = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: world.chains[BETA].pool != {})
        world.chains[BETA].base_fee = 500  # more than the first one offers
        behind = [world.send(ALPHA, BETA, kind=Kind.STATE_SYNC) for _ in range(3)]
        await until(lambda: only_entry(store, first).failed_tries == 2)
        await until(lambda: all(only_entry(store, one).setbacks >= 2 for one in behind))
        assert [only_entry(store, one).failed_tries for one in behind] == [0, 0, 0]
        world.chains[BETA].base_fee = 10
        await until(lambda: all(world.executions(one.message) == 1 for one in (first, *behind)))
    codes = {one.failure.code for one in store.outbox.failures(only_entry(store, first).event_id)}
    assert codes == {"DELIVERY_TIMEOUT"}
    await world.stop()
