"""A store that knows as many messages as it has room for takes nothing new, forgets nothing for it, and loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from bridge.protocol.invariants import Reliability
from bridge.relayer.seen_capacity import SeenCapacity
from bridge.relayer.settings import RelaySettings
from tests.builders import message
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.contracts import GMPS
from tests.support.stores import memory_store
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.relayer.test_observer import ALPHA, BETA, CONFIRMATIONS, Observed
from tests.virtual_time import in_virtual_time, running, until


@in_virtual_time
async def test_a_full_store_stops_the_cursor_and_goes_on_from_there_when_there_is_room() -> None:
    world, store = World(), memory_store()
    world.start()
    relaying = RelaySettings(reliability=Reliability(dedup_capacity=2))
    first = [world.send(ALPHA, BETA) for _ in range(2)]
    async with running(SimulatedRelayer(world, store, relaying=relaying)):
        await until(lambda: all(one.created and world.executions(one.message) == 1 for one in first))
        await until(lambda: all(one.confirmed_at for sent in first for one in store.outbox.entries(sent.message.id)))
        late = world.send(ALPHA, BETA)
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


def test_the_store_is_counted_every_few_seconds_and_without_a_capacity_never_full() -> None:
    review = DeadLetterService()
    review.observe(message(1), gmps=GMPS[:2])
    capacity, unlimited = (SeenCapacity(review.store.outbox, size, review.clock) for size in (2, None))
    assert not capacity.is_full(), "one message over two GMPs is one"
    review.observe(message(2))
    assert not capacity.is_full()
    review.clock.time += 5
    assert capacity.is_full()
    assert not unlimited.is_full()


def test_a_store_with_much_room_is_not_counted_before_it_can_be_full(monkeypatch: pytest.MonkeyPatch) -> None:
    review, counts = DeadLetterService(), [999_000, 990_000, 1_000_000]
    monkeypatch.setattr(review.store.outbox, "seen", counts.pop)
    capacity = SeenCapacity(review.store.outbox, 2_000_000, review.clock)
    for seconds, left in ((0, 2), (999, 2), (1, 1), (1_009, 1), (1, 0)):  # a thousand a second would fill it
        review.clock.time += seconds
        assert not capacity.is_full()
        assert len(counts) == left
