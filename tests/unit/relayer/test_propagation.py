"""What is final on its source is applied on its destination, once, however long that takes; and the primary record wins."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from eth_abi.abi import encode
from eth_account import Account
from eth_typing import Hash32

from bridge.dead_letters.signing import KeySealer
from bridge.evm.locks import LOCKED_RECIPIENT, MessageLock, retake_lock_call
from bridge.evm.sender import Sending
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import Block, Call, Chain, Receipt
from bridge.records.dead_letters import Decision, RecordKind
from bridge.records.jobs import UNRESOLVED, SyncJob, SyncState
from bridge.records.outbox import OutboxState
from bridge.relayer.propagation import (
    AbandonedError,
    Propagation,
    PropagationError,
    PropagationSettings,
    Propagator,
    RoutePropagator,
)
from bridge.relayer.retries import RecoverySettings
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word
from tests.cases import for_each_case
from tests.support.settings import tuned
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.contracts import GMPS
from tests.support.stores import memory_store
from tests.unit.dead_letters.world import SEALER, entered, happened
from tests.virtual_time import in_virtual_time, running, until

SOON = tuned(PropagationSettings(threshold=20, pause=10), longest_pause=60)
"""With it, all that takes hours by default is over in minutes."""


@dataclass
class Counting:
    """Brings nothing forward, and counts how often it was asked to."""

    at: list[float] = field(default_factory=list)
    by_force: list[bool] = field(default_factory=list)
    error: Exception | None = None
    through: Propagator | None = None

    async def propagate(self, message: Message, *, by_force: bool = False) -> str:
        self.at.append(asyncio.get_running_loop().time())
        self.by_force.append(by_force)
        if self.error is not None:
            raise self.error
        return "nothing" if self.through is None else await self.through.propagate(message, by_force=by_force)

    def asked(self, times: int) -> bool:
        return len(self.at) == times


def propagation(
    world: World,
    store: Store,
    propagator: Propagator,
    settings: PropagationSettings | None = None,
    lock_ttl: float = 1_020.0,
) -> Propagation:
    return Propagation(
        deployment=world.deployment,
        chains=world.chains,
        store=store,
        propagator=propagator,
        signer=KeySealer(SEALER),
        clock=world.clock,
        lock_ttl=lock_ttl,
        settings=settings,
    )


@asynccontextmanager
async def at_work(one: Propagation) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def step(one: Propagation) -> None:
    """Takes up what became final, and looks once at all that is due."""
    await one.collect()
    await one._worker.step()
    await asyncio.gather(*one._worker._active.values())


def followed(store: Store, message: Message) -> SyncJob:
    found = store.jobs.newest(SyncJob, message.id)
    assert found is not None
    return found


def router_propagator(world: World, bridge: SimulatedRelayer) -> RoutePropagator:
    return RoutePropagator(
        world.deployment,
        world.chains,
        dead_letters=bridge.dead_letters,
        recovery=bridge.recovery,
        execution=bridge.execution,
        senders=bridge.relay_senders,
    )


@in_virtual_time
async def test_lag_above_300_seconds_brings_the_message_forward() -> None:
    world, store, counting = World(block_time=5), memory_store(), Counting()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedRelayer(world, store, poll=5)), at_work(propagation(world, store, counting)):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: sent.created != [] and store.jobs.newest(SyncJob, sent.message.id) is not None)
        final_at = followed(store, sent.message).record.final_at
        await asyncio.sleep(final_at + 299 - world.clock.now())
        assert counting.at == []
        await asyncio.sleep(3)
        assert len(counting.at) == 1
        (heartbeat,) = store.finality_records.heartbeats()
        assert heartbeat.progress.lag_seconds > 295
    await world.stop()


@in_virtual_time
async def test_message_brought_forward_is_applied_once() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge), at_work(propagation(world, store, router_propagator(world, bridge), SOON)):
        sent = world.send(ALPHA, BETA, kind=Kind.LOCK_MANAGEMENT)
        await until(lambda: sent.created != [] and world.executions(sent.message) == 1, seconds=900)
        world.down.clear()
        for entry in store.outbox.entries(sent.message.id):
            if entry.state is OutboxState.DEAD:
                store.outbox.replay(entry.event_id, "the late GMP is back", world.clock.now())
        await until(lambda: followed(store, sent.message).state is SyncState.APPLIED)
        await asyncio.sleep(120)
    assert world.executions(sent.message) == 1
    assert followed(store, sent.message).tries == 1
    assert store.jobs.listed(SyncJob, UNRESOLVED, 100) == []
    assert {attempt.attempt for attempt in store.observations.attempts(sent.message.id)} == {0, 1}
    await world.stop()


def test_a_worker_whose_lock_was_taken_over_writes_nothing() -> None:
    store = memory_store()
    store.observations.record(observed_range(message(kind=Kind.STATE_SYNC)))
    store.finality_records.collect(frozenset({Kind.STATE_SYNC}), 0)
    (one,) = store.jobs.due(SyncJob, 1000, 10)
    assert store.jobs.save(one.locked(1000, 10, 1010), fence=one.fence)
    assert not store.jobs.save(one.locked(1000, 10, 1010), fence=one.fence)


@in_virtual_time
async def test_repeated_failure_is_diverged_and_forced() -> None:
    world, store, counting = World(), memory_store(), Counting(error=PropagationError("no key"))
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge), at_work(propagation(world, store, counting, SOON)):
        sent = world.send(ALPHA, BETA, kind=Kind.REGULATORY_ACTION_CRITICAL)
        await until(
            lambda: (
                sent.created != []
                and store.jobs.newest(SyncJob, sent.message.id) is not None
                and followed(store, sent.message).state is SyncState.DIVERGED
            ),
            seconds=1500,
        )
        assert counting.by_force == [False, False, False, False, True]
        record = followed(store, sent.message).record
        forced = f"forced reconciliation with the record of block {record.block.number}; no key"
        assert followed(store, sent.message).outcome == forced
        assert [one.record.message_id for one in store.jobs.listed(SyncJob, {SyncState.DIVERGED}, 100)] == [
            sent.message.id
        ]
        world.down.clear()
        await until(lambda: followed(store, sent.message).state is SyncState.APPLIED, seconds=900)
    assert world.executions(sent.message) == 1
    await world.stop()


@dataclass
class Showing:
    """A source that shows the same at every height."""

    shown: Block | None

    async def block(self, _: int) -> Block | None:
        return self.shown


@pytest.mark.parametrize(
    "shown", [None, Block(10, word("other"), word("before"), 0)], ids=["no block", "another block"]
)
@in_virtual_time
async def test_change_absent_from_its_source_is_not_forced(shown: Block | None) -> None:
    world, store, counting = World(), memory_store(), Counting(error=PropagationError("no key"))
    world.start()
    world.down.add(Gmp.HYPERLANE)
    one = propagation(world, store, counting, SOON)
    async with running(SimulatedRelayer(world, store)), at_work(one):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: sent.created != [] and store.jobs.newest(SyncJob, sent.message.id) is not None)
        one._chains = {**world.chains, ALPHA: cast(Chain, Showing(shown))}
        await until(lambda: followed(store, sent.message).state is SyncState.DIVERGED, seconds=1500)
        assert "no longer has the block in the message's final record" in followed(store, sent.message).outcome
    assert True not in counting.by_force
    await world.stop()


@pytest.mark.long
@in_virtual_time
async def test_abandoned_message_is_neither_executed_nor_sent() -> None:
    world, store = World(), memory_store()
    world.start()
    bridge = SimulatedRelayer(world, store)
    sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
    await until(lambda: sent.created != [])
    event_id = f"0x{sent.message.id.hex()}/hyperlane/0"
    seal = KeySealer(SEALER)
    bridge.dead_letters.append(entered(event_id, messageId=f"0x{sent.message.id.hex()}"), seal)
    abandoned = happened(event_id, RecordKind.DECIDED, 1, decisionType=Decision.ABANDON)
    bridge.dead_letters.append(abandoned, seal)
    with pytest.raises(AbandonedError):
        await router_propagator(world, bridge).propagate(sent.message)
    assert all(chain.broadcasts == 0 for chain in world.chains.values())
    await world.stop()


class Locking:
    """A chain whose recipients say how each message stands to its lock, which one is asked to take again."""

    def __init__(self, chain: Chain, lock: MessageLock) -> None:
        self._chain = chain
        self.lock = lock
        self.retaken: list[Call] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    async def call(self, call: Call, **named: Any) -> bytes:
        if call.data[:4] == LOCKED_RECIPIENT.selector("lockFor"):
            return encode(["uint8", "uint64"], [self.lock, 0])
        return await self._chain.call(call, **named)

    async def send(self, _key: str, call: Call, **_: object) -> Receipt:
        """As the sender that pays for it."""
        self.retaken.append(call)
        found: dict[str, Any] = {"transaction_hash": word("retaken"), "block_hash": word("block"), "block_number": 1}
        return Receipt(**found, succeeded=True, gas_used=1, logs=())


@for_each_case("lock", MessageLock)
@in_virtual_time
async def test_message_goes_forward_under_its_retaken_lock(lock: MessageLock) -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    beta = Locking(world.chains[BETA], lock)
    propagator = RoutePropagator(
        world.deployment,
        {**world.chains, BETA: cast(Chain, beta)},
        dead_letters=bridge.dead_letters,
        recovery=bridge.recovery,
        execution=bridge.execution,
        senders={BETA: cast(Sending, beta)},
    )
    async with running(bridge):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: sent.created != [] and store.observations.message(sent.message.id) is not None)
        if lock is MessageLock.LOST:
            with pytest.raises(PropagationError, match="was released or replaced by another"):
                await propagator.propagate(sent.message)
        else:
            assert "attempt 1 over" in await propagator.propagate(sent.message)
    recipient = from_bytes32(sent.message.recipient)
    again = [retake_lock_call(recipient, sent.message.payload)] if lock is MessageLock.EXPIRED else []
    assert beta.retaken == again
    await world.stop()


@pytest.mark.long
@in_virtual_time
async def test_inapplicable_message_costs_a_bounded_amount() -> None:
    world, store = World(block_time=5), memory_store()
    world.start()
    world.down.update(GMPS)
    bridge = SimulatedRelayer(world, store, recovering=RecoverySettings(max_message_retries=7))
    counting = Counting(through=router_propagator(world, bridge))
    settings = tuned(PropagationSettings(threshold=30, pause=60), longest_pause=300)
    async with running(bridge), at_work(propagation(world, store, counting, settings)):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await asyncio.sleep(1_500)
        paid = world.chains[ALPHA].state.sent[sent.message.id][1]
        waits = [later - earlier for earlier, later in itertools.pairwise(counting.at)]
        assert (paid, followed(store, sent.message).state) == (7, SyncState.DIVERGED)
        assert "max_message_retries is 7" in followed(store, sent.message).outcome
    assert [round(wait / 60) for wait in waits] == [1, 1, 1, 1, 2, 4, 5, 5]
    await world.stop()


@in_virtual_time
async def test_where_the_destination_disagrees_the_primary_record_wins() -> None:
    world, store, counting = World(), memory_store(), Counting()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    one = propagation(world, store, counting)
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: store.outbox.counts() != [])
        await step(one)
        held = followed(store, sent.message)
        store.jobs.save(held.settled(SyncState.APPLIED, "", world.clock.now()), fence=held.fence)
        assert (await one.reconcile(sent.message.id)).state is SyncState.PENDING, "it was applied nowhere"
        world.down.clear()
        await until(lambda: world.executions(sent.message) == 1)
        await asyncio.sleep(30)
        assert (await one.reconcile(sent.message.id)).state is SyncState.PENDING, "seen, and not final yet"
        await asyncio.sleep(30)
        assert (await one.reconcile(sent.message.id)).state is SyncState.APPLIED
    with pytest.raises(KeyError):
        await one.reconcile(bytes(32))
    await world.stop()


@in_virtual_time
async def test_record_names_the_standing_block_after_a_reorg() -> None:
    world, store, sent = World(), memory_store(), message(kind=Kind.STATE_SYNC)
    one = propagation(world, store, Counting())
    store.observations.record(observed_range(sent))
    await step(one)
    fallen = followed(store, sent).record
    assert Account._recover_hash(Hash32(fallen.digest), signature=fallen.signature) == SEALER.address
    store.observations.rewind(ALPHA, None, world.clock.now())
    await step(one)
    store.observations.record(observed_range(sent, position=block(11, "other")))
    await step(one)
    record = followed(store, sent).record
    assert record.block == store.observations.attempts(sent.id)[0].block != fallen.block
    assert Account._recover_hash(Hash32(record.digest), signature=record.signature) == SEALER.address
    assert record.final_at > 100, "it became final once more"


@pytest.mark.long
@in_virtual_time
async def test_message_is_applied_only_at_a_final_block() -> None:
    world, store = World(), memory_store()
    world.start()
    one = propagation(world, store, Counting())
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: store.outbox.counts() != [] and world.executions(sent.message) == 1)
        await step(one)
        await step(one)
        seen = followed(store, sent.message).seen
        assert seen is not None
        world.chains[BETA].reorganise(
            2
        )  # above what is final; it is executed again, in another block of another branch
        await until(lambda: store.observations.final_height(BETA) > seen.number)
        await asyncio.sleep(60)
        await step(one)
        again = followed(store, sent.message)
        assert (again.state, again.seen) == (SyncState.PENDING, None)
    await world.stop()


@in_virtual_time
async def test_one_state_change_to_several_chains_is_traced_to_each() -> None:
    world, store = World(chains=3), memory_store()
    world.start()
    one = propagation(world, store, Counting())
    async with running(SimulatedRelayer(world, store)), at_work(one):
        sent = [world.send(ALPHA, destination, kind=Kind.STATE_SYNC) for destination in (BETA, BETA + 1)]
        await until(lambda: all(each.created and world.executions(each.message) for each in sent))
        await until(lambda: all(store.jobs.newest(SyncJob, each.message.id) for each in sent))
        await until(lambda: all(followed(store, each.message).state is SyncState.APPLIED for each in sent))
    records = [followed(store, each.message).record for each in sent]
    assert [record.destination_chain for record in records] == [BETA, BETA + 1]
    await world.stop()


@in_virtual_time
async def test_latest_signed_heartbeat_is_kept() -> None:
    world, store = World(), memory_store()
    world.start()
    async with running(SimulatedRelayer(world, store)), at_work(propagation(world, store, Counting())):
        world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: store.finality_records.heartbeats() != [])
        first = store.finality_records.heartbeats()
        await asyncio.sleep(5.5)
        second = store.finality_records.heartbeats()
    assert len(first) == len(second) == 1
    assert second[0].at - first[0].at == pytest.approx(5, abs=0.6)
    assert not store.finality_records.beat(first[0]), "an older one changes nothing"
    signer = Account._recover_hash(Hash32(second[0].digest), signature=second[0].signature)
    assert signer == second[0].signer == SEALER.address
    forged = replace(second[0], progress=replace(second[0].progress, lag_seconds=0.5))
    assert Account._recover_hash(Hash32(forged.digest), signature=forged.signature) != SEALER.address
    assert store.outbox.counts()[0].count == 1, "no heartbeat is ever queued"
    await world.stop()


@pytest.mark.long
@in_virtual_time
async def test_expired_message_is_not_brought_forward() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.update(GMPS)
    bridge = SimulatedRelayer(world, store)
    counting = Counting(through=router_propagator(world, bridge))
    following = propagation(
        world, store, counting, tuned(PropagationSettings(threshold=10, pause=10), LOOK=1, LONGEST_LOOK=4)
    )
    async with running(bridge), at_work(following):
        sent = world.send(ALPHA, BETA, kind=Kind.REGULATORY_ACTION, ttl=60)
        await until(lambda: len(counting.at) >= 1, seconds=60)
        await until(lambda: followed(store, sent.message).state is SyncState.ENDED, seconds=120)
        asked = len(counting.at)
        await asyncio.sleep(600)
        assert len(counting.at) == asked
    assert world.executions(sent.message) == 0
    await world.stop()
