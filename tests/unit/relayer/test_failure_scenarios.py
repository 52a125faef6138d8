"""The failure scenarios of the delivery document, one test each, and what each leaves on the chain and in the outbox.

The sixth, dead letters that cannot be written, is in `tests/unit/dead_letters/test_queue.py`.

A duplicate is a repeated delivery that the chain refuses, or that the relayer finds done before it sends.
"""

from __future__ import annotations

import asyncio
import itertools

import pytest
import structlog

from bridge.protocol.errors import StoreBusyError
from bridge.protocol.failures import FailureKind
from bridge.records.outbox import OutboxState
from bridge.relayer import delivery_commits
from bridge.relayer.delivery_commits import CommitsHaltedError, CommitStrategy
from bridge.relayer.settings import Ordering
from bridge.service.settings import Settings
from tests.cases import for_each_case
from tests.support.simulation import RELAYER
from tests.unit.relayer.commits import (
    ALPHA,
    BETA,
    CountingStore,
    Gate,
    bridge_with,
    crash,
    entry_of,
    gated,
    is_,
    is_confirmed,
    is_first,
    repeated,
    world_with_blocks,
)
from tests.virtual_time import in_virtual_time, running, until

THREE_RETRIES = Settings.load(profile="production").delivery_policies()


@in_virtual_time
async def test_scenario_1_transient_failure_is_retried_once() -> None:
    store = CountingStore()
    async with (
        world_with_blocks() as world,
        running(gated(bridge_with(world, store, policies=THREE_RETRIES), Gate(refuse_calls=2))),
    ):
        with structlog.testing.capture_logs() as logs:
            sent = world.send(ALPHA, BETA)
            await until(lambda: bool(sent.created) and world.executions(sent.message) == 1)
        await until(lambda: is_(OutboxState.DELIVERED, store, sent))
        entry = entry_of(store, sent)
        first, second = store.outbox.failures(entry.event_id)
        assert 0.09 <= second.failure.at - first.failure.at <= 0.12
        assert entry.delivered_at is not None
        assert entry.delivered_at - second.failure.at >= 0.18
        warned = [one["retry_in"] for one in logs if (one["event"], one["log_level"]) == ("delivery failed", "warning")]
        assert warned == pytest.approx([0.1, 0.2], rel=0.1)
        assert entry.failed_tries + 1 == 3
        assert world.chains[BETA].broadcasts == 1


@in_virtual_time
async def test_scenario_2_spent_retries_are_dead_and_others_go_on() -> None:
    store = CountingStore()
    async with (
        world_with_blocks() as world,
        running(gated(bridge_with(world, store, policies=THREE_RETRIES), Gate(refuse_calls=4))) as bridge,
    ):
        dead = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.listed(state=OutboxState.DEAD) != [])
        alive = world.send(ALPHA, BETA)
        await until(lambda: is_(OutboxState.DELIVERED, store, alive))
        assert entry_of(store, dead).state is OutboxState.DEAD
        (record,) = bridge.dead_letters.records()
        assert record.document is not None
        assert (record.event_id, record.document["reason"]) == (entry_of(store, dead).event_id, "MAX_RETRIES_EXCEEDED")
        assert len(store.outbox.failures(entry_of(store, dead).event_id)) == 4
        assert (world.executions(dead.message), world.executions(alive.message)) == (0, 1)


@pytest.mark.parametrize("strategy", [CommitStrategy.BATCH, CommitStrategy.MESSAGE])
@in_virtual_time
async def test_scenario_3_transient_commit_failure_is_repeated(
    strategy: CommitStrategy,
) -> None:
    store = CountingStore()
    async with world_with_blocks() as world, running(bridge_with(world, store, strategy)):
        store.refuse_commits = 3
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.commits != [])
        assert store.refuse_commits == 0
        tries = [*store.refusals, store.commits[0][0]]
        waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
        assert waits == pytest.approx([0.1, 0.2, 0.4], abs=0.05)
        assert entry_of(store, sent).state is OutboxState.DELIVERED
        assert repeated(store) == 0
        assert world.chains[BETA].broadcasts == 1


@in_virtual_time
async def test_scenario_4_permanent_commit_failure_halts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery_commits, "COMMIT_TRIES", 4)
    store = CountingStore()
    async with world_with_blocks() as world:
        store.refuse_commits = 10**9
        begun = asyncio.get_running_loop().time()
        task = asyncio.create_task(bridge_with(world, store).run())
        sent = [world.send(ALPHA, BETA) for _ in range(5)]
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(task, 60)
        halted = caught.value.split(CommitsHaltedError)[0]
        assert halted is not None
        assert "could not be committed in 4 tries" in str(_only(halted))
        assert asyncio.get_running_loop().time() - begun < 30
        assert [world.executions(one.message) for one in sent] == [1] * 5
        assert {entry_of(store, one).state for one in sent} == {OutboxState.CLAIMED}
        broadcasts = world.chains[BETA].broadcasts
        store.refuse_commits = 0
        async with running(bridge_with(world, store, name="restarted")):
            await until(lambda: is_(OutboxState.DELIVERED, store, *sent))
        assert repeated(store) == 5
        assert world.chains[BETA].broadcasts == broadcasts
        assert [world.executions(one.message) for one in sent] == [1] * 5


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error


@in_virtual_time
async def test_scenario_5_crash_before_commit_repeats_the_delivery() -> None:
    store = CountingStore()
    async with world_with_blocks() as world:
        store.refuse_commits = 10**9
        bridge = bridge_with(world, store)
        task = asyncio.create_task(bridge.run())
        sent = world.send(ALPHA, BETA)
        await until(lambda: bool(sent.created) and world.executions(sent.message) == 1)
        await crash(bridge, task)
        assert entry_of(store, sent).state is OutboxState.CLAIMED
        store.refuse_commits = 0
        async with running(bridge_with(world, store, name="restarted")):
            await until(lambda: is_(OutboxState.DELIVERED, store, sent))
        assert repeated(store) == 1
        assert world.executions(sent.message) == 1
        assert world.chains[BETA].broadcasts == 1
        assert [one.failure.kind for one in store.outbox.failures(entry_of(store, sent).event_id)] == [
            FailureKind.INTERRUPTED
        ]


@in_virtual_time
async def test_a_store_that_is_busy_in_mid_delivery_costs_no_try() -> None:
    store = CountingStore()
    async with world_with_blocks() as world:
        gate = Gate(refuse_calls=50, error=StoreBusyError("the database is restarting"))
        async with running(gated(bridge_with(world, store), gate)):
            sent = world.send(ALPHA, BETA)
            await until(lambda: is_(OutboxState.DELIVERED, store, sent))
        assert gate.refuse_calls == 0
        entry = entry_of(store, sent)
        assert (entry.failed_tries, entry.setbacks) == (0, 50)


@in_virtual_time
async def test_scenario_7_lost_lease_refuses_the_commit() -> None:
    store = CountingStore()
    async with world_with_blocks() as world:
        gate = Gate(held=lambda _: True)
        former = gated(bridge_with(world, store, name="former"), gate)
        async with running(former):
            sent = world.send(ALPHA, BETA)
            await until(lambda: store.outbox.listed(state=OutboxState.CLAIMED) != [])
            store.refuse_renewals = True  # as for a process that was stopped: its lease runs out, and it claims nothing
            former.relayer.deliveries[BETA]._gmps = frozenset()
            async with running(bridge_with(world, store, name="new owner")):
                await until(lambda: bool(sent.created) and world.executions(sent.message) == 1)
                await until(lambda: is_confirmed(store, sent))
                before = entry_of(store, sent)
                gate.opened.set()  # the former owner wakes up, and goes on where it was
                await asyncio.sleep(10)
                assert entry_of(store, sent) == before
        assert repeated(store) == 1
        assert world.chains[BETA].state.nonces[RELAYER.address] == 1


@for_each_case("strategy", [CommitStrategy.BATCH, CommitStrategy.MESSAGE])
@for_each_case("ordering", Ordering)
@in_virtual_time
async def test_ordering_blocks_or_overtakes_a_failing_delivery(ordering: Ordering, strategy: CommitStrategy) -> None:
    store = CountingStore()
    async with (
        world_with_blocks() as world,
        running(gated(bridge_with(world, store, strategy, ordering=ordering), Gate(refuse_calls=2, refused=is_first))),
    ):
        first = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and entry_of(store, first).failed_tries > 0)
        behind = [world.send(ALPHA, BETA) for _ in range(3)]
        await until(lambda: all(bool(one.created) and world.executions(one.message) for one in (first, *behind)))
        await until(lambda: is_(OutboxState.DELIVERED, store, first, *behind))
        delivered = [entry_of(store, one).delivery for one in (first, *behind)]
        blocks = [delivery.block.number for delivery in delivered if delivery]
        assert len(blocks) == 4
        if ordering is Ordering.BLOCK:
            assert blocks == sorted(set(blocks)), "one after another, in the order of the source"
        else:
            assert max(blocks[1:]) < blocks[0], "the failing one was overtaken"


@pytest.mark.long
@in_virtual_time
async def test_only_final_old_deliveries_are_forgotten() -> None:
    store = CountingStore()
    async with (
        world_with_blocks() as world,
        running(gated(bridge_with(world, store, policies=THREE_RETRIES, retention=1_000), Gate(refuse_calls=4))),
    ):
        dead = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.listed(state=OutboxState.DEAD) != [])
        sent = world.send(ALPHA, BETA)
        await until(lambda: is_confirmed(store, sent))
        await asyncio.sleep(900)
        assert entry_of(store, sent).state is OutboxState.DELIVERED
        await until(lambda: store.outbox.entries(sent.message.id) == [], seconds=1_000)
        assert entry_of(store, dead).state is OutboxState.DEAD
        assert store.observations.created_on(ALPHA, BETA) == 2
        assert world.executions(sent.message) == 1
