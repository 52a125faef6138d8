"""A store that knows as many messages as it has room for takes nothing new, forgets nothing for it, and loses nothing."""

from __future__ import annotations

import asyncio

from bridge.protocol.invariants import Reliability
from bridge.relayer.settings import RelaySettings
from tests.support.simulation import SimulatedRelayer, World
from tests.support.stores import memory_store
from tests.unit.relayer.test_observer import ALPHA, BETA, CONFIRMATIONS, Observed
from tests.virtual_time import in_virtual_time, running, until

SENDERS = ["0x" + f"{number:02x}" * 20 for number in (0xA1, 0xA2, 0xA3)]


@in_virtual_time
async def test_full_store_stops_the_cursor_until_there_is_room() -> None:
    world, store = World(), memory_store()
    world.start()
    relaying = RelaySettings(reliability=Reliability(dedup_capacity=2))
    first = [world.send(ALPHA, BETA, sender=sender) for sender in SENDERS[:2]]
    async with running(SimulatedRelayer(world, store, relaying=relaying)):
        await until(lambda: all(one.created and world.executions(one.message) == 1 for one in first))
        await until(lambda: all(one.confirmed_at for sent in first for one in store.outbox.entries(sent.message.id)))
        late = world.send(ALPHA, BETA, sender=SENDERS[2])
        await until(lambda: world.chains[ALPHA].height - store.observations.final_height(ALPHA) > 20)
        stopped = store.observations.final_height(ALPHA)
        await asyncio.sleep(30)
        assert store.observations.final_height(ALPHA) == stopped
        assert world.chains[BETA].height - store.observations.final_height(BETA) < 10, "nothing new is there"
        assert store.observations.message(late.message.id) is None
        assert store.outbox.seen() == 2, "nothing is forgotten to make room"
        assert store.outbox.forget(world.clock.now() + 1, 1) == 1
        await until(lambda: world.executions(late.message) == 1)
    assert store.outbox.seen() == 2
    await world.stop()


@in_virtual_time
async def test_a_sender_that_has_its_share_holds_up_nobody_else() -> None:
    """One sender may take three of four places. Its next message waits on its chain, also over a restart, and is not lost."""
    world, store = World(), memory_store()
    world.start()
    relaying = RelaySettings(reliability=Reliability(dedup_capacity=4))
    greedy, modest = SENDERS[:2]
    async with running(SimulatedRelayer(world, store, relaying=relaying)):
        first = [world.send(ALPHA, BETA, sender=greedy) for _ in range(3)]
        await until(lambda: all(one.created and world.executions(one.message) == 1 for one in first))
        await until(lambda: all(one.confirmed_at for sent in first for one in store.outbox.entries(sent.message.id)))
        await asyncio.sleep(10)
        late = world.send(ALPHA, BETA, sender=greedy)
        other = world.send(ALPHA, BETA, sender=modest)
        await until(lambda: other.created != [] and world.executions(other.message) == 1)
        assert store.observations.message(late.message.id) is None
    async with running(SimulatedRelayer(world, store, name="restarted", relaying=relaying)):
        await asyncio.sleep(100)
        assert store.observations.message(late.message.id) is None
        assert world.chains[ALPHA].height - store.observations.final_height(ALPHA) < 10, "reading goes on"
        assert store.outbox.forget(world.clock.now() + 1, 2) == 2
        await until(lambda: world.executions(late.message) == 1)
    assert store.outbox.seen() == 3
    await world.stop()


@in_virtual_time
async def test_a_reorg_is_taken_back_although_the_store_is_full() -> None:
    case = Observed(capacity=1)
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    await case.catch_up()
    assert len(case.pending) == 1
    read = case.position
    await asyncio.sleep(5)
    case.chain.reorganise(1 + CONFIRMATIONS, keep=0)
    case.world.send(ALPHA, BETA)
    case.chain.mine(2 + CONFIRMATIONS)
    await case.observer.step()
    assert case.position < read
    await case.catch_up()
    await asyncio.sleep(5)
    await case.catch_up()
    assert len(case.pending) == 1
