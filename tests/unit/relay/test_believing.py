"""What an endpoint's answer may cost: time. What makes a delivery done: the router's receipt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.ports import Call, Dispatch, UnansweredError
from bridge.protocol.contracts import ROUTER
from bridge.protocol.message import Kind
from bridge.records.failures import FailureKind
from bridge.records.outbox import STUCK_AFTER, STUCK_PAUSE, OutboxState
from bridge.simulation import SimulatedBridge, World
from bridge.simulation.adapter import SimulatedAdapter
from bridge.simulation.chain import SimulatedChain
from bridge.store import MemoryStore
from tests.unit.relay.entries import only_entry, with_adapter
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338


def blank(monkeypatch: pytest.MonkeyPatch, during: list[object]) -> None:
    """Every call on the destination is answered with nothing, as by an account without code, while `during` is not empty."""
    truth = SimulatedChain.call

    async def call(chain: SimulatedChain, asked: Call, **how: Any) -> bytes:
        return b"" if during and chain.chain_id == BETA else await truth(chain, asked, **how)

    monkeypatch.setattr(SimulatedChain, "call", call)


@pytest.mark.finding("R1")
@pytest.mark.parametrize("kind", [Kind.PLAIN, Kind.QUERY, Kind.HEARTBEAT, Kind.REGULATORY_ACTION_CRITICAL])
@in_virtual_time
async def test_no_kind_loses_a_try_by_answers_that_can_not_be_decoded(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, store, lies = World(), MemoryStore(), list[object]([True])
    blank(monkeypatch, lies)
    world.start()
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA, kind=kind)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).setbacks >= 5, seconds=600)
        lies.clear()
        await until(lambda: world.executions(sent.message) == 1, seconds=600)
        await until(lambda: only_entry(store, sent).confirmed_at is not None)
    entry = only_entry(store, sent)
    assert entry.attempts == 0
    history = store.outbox.failures(entry.event_id)
    assert {(one.failure.kind, one.failure.code) for one in history} == {(FailureKind.UNANSWERED, "UnansweredError")}
    await world.stop()


@pytest.mark.finding("R4")
@in_virtual_time
async def test_what_is_set_back_again_and_again_is_counted_as_stuck_and_seldom_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, store, lies = World(), MemoryStore(), list[object]([True])
    blank(monkeypatch, lies)
    world.start()
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.QUERY)  # its row has pauses of 10 s at most
        await until(lambda: sum(count.stuck for count in store.outbox.counts()) == 1, seconds=600)
        entry = only_entry(store, sent)
        assert entry.setbacks == STUCK_AFTER
        assert entry.available_at - world.clock.now() > STUCK_PAUSE - 5
        lies.clear()
        await until(lambda: only_entry(store, sent).confirmed_at is not None, seconds=2 * STUCK_PAUSE)
        assert sum(count.stuck for count in store.outbox.counts()) == 0
    await world.stop()


@pytest.mark.finding("R4")
@in_virtual_time
async def test_a_lie_that_returns_whenever_it_was_refuted_ends_in_a_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world, store, truth = World(), MemoryStore(), SimulatedChain.call
    lies = list[object]([True])

    async def call(chain: SimulatedChain, asked: Call, **how: Any) -> bytes:
        if lies and asked.data[:4] == ROUTER.selector("hasReceived"):
            entry = only_entry(store, sent)  # the relayer asks when it delivers, and when that should be final
            return (entry.state is OutboxState.CLAIMED).to_bytes(32, "big")
        return await truth(chain, asked, **how)

    monkeypatch.setattr(SimulatedChain, "call", call)
    world.start()
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: sum(count.stuck for count in store.outbox.counts()) == 1, seconds=3_000)
        entry = only_entry(store, sent)
        assert (entry.setbacks, entry.attempts) == (STUCK_AFTER, STUCK_AFTER)
        assert {one.failure.code for one in store.outbox.failures(entry.event_id)} == {"DeliveryNotThere"}
        await asyncio.sleep(STUCK_PAUSE - 30)
        assert only_entry(store, sent).setbacks == STUCK_AFTER
        lies.clear()
        await until(lambda: only_entry(store, sent).confirmed_at is not None, seconds=2 * STUCK_PAUSE)
    assert world.executions(sent.message) == 1
    await world.stop()


@pytest.mark.finding("R1")
@in_virtual_time
async def test_a_proof_that_can_not_be_read_costs_no_try_and_speaks_against_the_gmp() -> None:
    world, store = World(), MemoryStore()
    silent = [True]

    class Silent(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            if silent:
                raise UnansweredError("the service answers with a page of its own")
            return await super().attest(dispatch)

    world.start()
    async with running(with_adapter(SimulatedBridge(world, store), world, Silent)):
        sent = world.send(ALPHA, BETA, kind=Kind.QUERY)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).setbacks >= 5, seconds=600)
        silent.clear()
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED, seconds=600)
    history = store.outbox.failures(only_entry(store, sent).event_id)
    assert {one.failure.code for one in history} == {"AttestationUnansweredError"}
    assert only_entry(store, sent).attempts == 0
    await world.stop()
