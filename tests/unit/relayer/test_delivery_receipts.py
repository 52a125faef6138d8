"""What an endpoint's answer may cost: time. What makes a delivery done: the router's receipt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.protocol.contracts import ROUTER
from bridge.protocol.failures import FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Dispatch, UnansweredError
from bridge.records.outbox import STUCK_AFTER, STUCK_PAUSE, OutboxState
from bridge.store import Store
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.world import Sent
from tests.support.stores import memory_store
from tests.unit.relayer.entries import only_entry, with_adapter
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338


def blank(monkeypatch: pytest.MonkeyPatch, during: list[object]) -> None:
    """Every call on the destination is answered with nothing, as by an account without code, while `during` is not empty."""
    truth = SimulatedChain.call

    async def call(chain: SimulatedChain, asked: Call, **how: Any) -> bytes:
        return b"" if during and chain.chain_id == BETA else await truth(chain, asked, **how)

    monkeypatch.setattr(SimulatedChain, "call", call)


@pytest.mark.parametrize("kind", [Kind.PLAIN, Kind.QUERY, Kind.HEARTBEAT, Kind.REGULATORY_ACTION_CRITICAL])
@in_virtual_time
async def test_no_kind_loses_a_try_by_answers_that_can_not_be_decoded(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, store, lies = World(), memory_store(), list[object]([True])
    blank(monkeypatch, lies)
    world.start()
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA, kind=kind)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).setbacks >= 5, seconds=600)
        lies.clear()
        await until(lambda: world.executions(sent.message) == 1, seconds=600)
        await until(lambda: only_entry(store, sent).confirmed_at is not None)
    entry = only_entry(store, sent)
    assert entry.failed_tries == 0
    history = store.outbox.failures(entry.event_id)
    assert {(one.failure.kind, one.failure.code) for one in history} == {(FailureKind.UNANSWERED, "UnansweredError")}
    await world.stop()


@pytest.mark.long
@in_virtual_time
async def test_recurring_lie_ends_in_a_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world, store, truth = World(), memory_store(), SimulatedChain.call
    lies = list[object]([True])

    async def call(chain: SimulatedChain, asked: Call, **how: Any) -> bytes:
        if lies and asked.data[:4] == ROUTER.selector("hasReceived"):
            entry = only_entry(store, sent)  # the relayer asks when it delivers, and when that should be final
            return (entry.state is OutboxState.CLAIMED).to_bytes(32, "big")
        return await truth(chain, asked, **how)

    monkeypatch.setattr(SimulatedChain, "call", call)
    world.start()
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: sum(count.stuck for count in store.outbox.counts()) == 1, seconds=3_000)
        entry = only_entry(store, sent)
        assert (entry.setbacks, entry.failed_tries) == (STUCK_AFTER, STUCK_AFTER)
        assert {one.failure.code for one in store.outbox.failures(entry.event_id)} == {"DeliveryNotThere"}
        await asyncio.sleep(STUCK_PAUSE - 30)
        assert only_entry(store, sent).setbacks == STUCK_AFTER
        lies.clear()
        await until(lambda: only_entry(store, sent).confirmed_at is not None, seconds=2 * STUCK_PAUSE)
    assert world.executions(sent.message) == 1
    await world.stop()


@in_virtual_time
async def test_unreadable_proof_costs_no_try_but_counts_for_the_gmp() -> None:
    world, store = World(), memory_store()
    silent = [True]

    class Silent(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            if silent:
                raise UnansweredError("the service answers with a page of its own")
            return await super().attest(dispatch)

    world.start()
    async with running(with_adapter(SimulatedRelayer(world, store), world, Silent)):
        sent = world.send(ALPHA, BETA, kind=Kind.QUERY)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).setbacks >= 5, seconds=600)
        silent.clear()
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED, seconds=600)
    history = store.outbox.failures(only_entry(store, sent).event_id)
    assert {one.failure.code for one in history} == {"AttestationUnansweredError"}
    assert only_entry(store, sent).failed_tries == 0
    await world.stop()


async def collided(world: World, store: Store) -> Sent:
    """A message with the number of one that was delivered, and whose source a reorg deeper than its confirmations took."""
    alpha, beta = world.chains[ALPHA], world.chains[BETA]
    beta.state.counting = frozenset({Gmp.HYPERLANE})
    first = world.send(ALPHA, BETA)
    await until(lambda: bool(first.created) and world.executions(first.message) == 1)
    await until(lambda: only_entry(store, first).confirmed_at is not None)
    alpha.reorganise(alpha.height, keep=0)
    second = world.send(ALPHA, BETA)
    await until(lambda: second.created != [] and store.outbox.entries(second.message.id) != [])
    assert second.message.nonce == first.created[0].nonce
    assert second.message.id != first.created[0].id
    return second


@pytest.mark.long
@in_virtual_time
async def test_message_with_a_reused_number_gets_a_letter() -> None:
    world, store = World(), memory_store()
    world.start()
    bridge = SimulatedRelayer(world, store)
    async with running(bridge):
        sent = await collided(world, store)
        await until(lambda: only_entry(store, sent).state is OutboxState.DEAD, seconds=6_000)
        entry = only_entry(store, sent)
        assert (entry.failed_tries, entry.setbacks) == (11, 0)
        (letter,) = bridge.dead_letters.dead_letters(message_id=sent.message.id)
        assert letter.error_code == "TransportUsedError"
        await bridge.recovery.retry(sent.message.id, (Gmp.WORMHOLE,))
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


@in_virtual_time
async def test_recreated_chain_with_the_same_id_changes_nothing() -> None:
    world, store = World(), memory_store()
    world.start()
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).confirmed_at is not None)
        before = store.outbox.listed()
        for chain in world.chains.values():  # both at once, as when a devnet is put up again
            chain._blocks[:] = SimulatedChain(chain.chain_id + 9, world.random)._blocks  # another genesis
        await asyncio.sleep(120)
        assert store.outbox.listed() == before
        assert store.observations.final_height(ALPHA) > 0
    await world.stop()


@pytest.mark.long
@in_virtual_time
async def test_clock_set_back_loses_no_message() -> None:
    world, store = World(), memory_store()
    world.start()
    bridge = SimulatedRelayer(world, store, ahead=600)
    async with running(bridge):
        world.down.add(Gmp.HYPERLANE)
        waiting = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, waiting).failed_tries >= 2)
    world.down.clear()
    async with running(SimulatedRelayer(world, store)):  # the same store ten minutes earlier
        new = world.send(ALPHA, BETA)
        await until(lambda: bool(new.created) and world.executions(new.message) == 1, seconds=30)
        await until(lambda: world.executions(waiting.message) == 1, seconds=700)
    await world.stop()
