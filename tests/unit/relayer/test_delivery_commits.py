"""Each commit strategy does exactly what it promises: what a crash repeats, and what it loses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.records.figures import Counted
from bridge.records.outbox import Claim, OutboxState, Outcome
from bridge.relayer.delivery_commits import GUARANTEES, CommitStrategy
from bridge.relayer.settings import Ordering
from bridge.service.settings import Settings
from bridge.settings import SettingsError
from tests.cases import for_each_case
from tests.support.settings import tuned
from tests.support.simulation import SimulatedRelayer, World
from tests.unit.relayer.commits import (
    ALPHA,
    BETA,
    CountingStore,
    Gate,
    all_executed,
    bridge_with,
    crash,
    entry_of,
    gated,
    is_,
    is_confirmed,
    is_first,
    repeated,
    second,
    world_with_blocks,
)
from tests.virtual_time import in_virtual_time, running, until


async def one_held_and_delivered(world: World, count: int) -> None:
    """Sends a message that its gate holds, and as many more, and waits until these are on the destination."""
    held = world.send(ALPHA, BETA)
    await until(lambda: held.created != [], every=0.1)
    for _ in range(count):
        world.send(ALPHA, BETA)
    await all_executed(world, held)


def moments_of_ends(bridge: SimulatedRelayer) -> list[float]:
    """When each delivery ended, to be noted from now on."""
    acknowledgements, moments = bridge.relayer.deliveries[BETA]._commits, list[float]()
    add = acknowledgements.add

    def noted(outcome: Outcome) -> None:
        moments.append(second())
        add(outcome)

    acknowledgements.add = noted  # type: ignore[method-assign]  # notes the calls
    return moments


async def started(bridge: SimulatedRelayer) -> asyncio.Task[None]:
    task = asyncio.create_task(bridge.run())
    await asyncio.sleep(0)
    return task


@for_each_case(
    "strategy, interval, expected",
    [
        (CommitStrategy.BATCH, 4, [(0, 4), (5, 3)]),  # at four at once, and what is left after five seconds
        (CommitStrategy.BATCH, 100, [(5, 7)]),
        (CommitStrategy.MESSAGE, 100, [(0, 1)] * 7),
        (CommitStrategy.TIME, 4, [(30, 7)]),
    ],
)
@in_virtual_time
async def test_deliveries_are_committed_together_as_the_strategy_says(
    strategy: CommitStrategy, interval: int, expected: list[tuple[int, int]]
) -> None:
    store, gate = CountingStore(), Gate(held=is_first)
    async with (
        world_with_blocks() as world,
        running(gated(bridge_with(world, store, strategy, commit_interval=interval), gate)) as bridge,
    ):
        ended = moments_of_ends(bridge)
        await one_held_and_delivered(world, 4)
        await asyncio.sleep(0.6)
        for _ in range(3):
            world.send(ALPHA, BETA)
        await until(lambda: sum(size for _, size in store.commits) == 7, what="all committed")
        assert [size for _, size in store.commits] == [size for _, size in expected]
        for (moment, size), (wait, _) in zip(store.commits, expected, strict=True):
            first, last = ended[0], ended[size - 1]
            del ended[:size]
            assert moment - (first if wait else last) == pytest.approx(wait, abs=0.1)


@in_virtual_time
async def test_failure_is_written_at_once_with_its_batch() -> None:
    store, gate = CountingStore(), Gate(held=is_first)
    async with (
        world_with_blocks() as world,
        running(gated(bridge_with(world, store, CommitStrategy.BATCH, commit_seconds=300.0), gate)),
    ):
        await one_held_and_delivered(world, 3)
        assert store.commits == []
        gate.refuse_calls = 1
        failing = world.send(ALPHA, BETA)
        await until(lambda: store.commits != [], seconds=10)
        assert entry_of(store, failing).failed_tries == 1
        assert [size for _, size in store.commits] == [3 + 1]
        await until(lambda: world.executions(failing.message) == 1, seconds=30)


@in_virtual_time
async def test_batch_repeats_only_what_was_not_committed() -> None:
    store, gate = CountingStore(), Gate(held=is_first)
    async with world_with_blocks() as world:
        bridge = gated(bridge_with(world, store, CommitStrategy.BATCH), gate)
        task = await started(bridge)
        await one_held_and_delivered(world, 7)
        await until(lambda: len(bridge.relayer.deliveries[BETA]._commits.claims) == 7)
        assert store.commits == []
        await crash(bridge, task)
        sent = world.chains[BETA].broadcasts
        async with running(bridge_with(world, store)):
            await all_executed(world)
            await until(lambda: all(e.state is OutboxState.DELIVERED for e in store.outbox.listed(limit=99)))
        assert repeated(store) == 7 + 1  # the seven, and the one that the gate held
        assert world.chains[BETA].broadcasts == sent + 1, "only the held one needed a transaction"


@in_virtual_time
async def test_message_strategy_repeats_nothing_delivered() -> None:
    store, gate = CountingStore(), Gate(held=is_first)
    async with world_with_blocks() as world:
        bridge = gated(
            bridge_with(world, store, CommitStrategy.MESSAGE, commit_seconds=5.0), gate
        )  # which a profile may set
        task = await started(bridge)
        await one_held_and_delivered(world, 7)
        await until(lambda: len(store.commits) == 7, seconds=1)  # at once: a crash later than that repeats none of them
        await crash(bridge, task)
        async with running(bridge_with(world, store)):
            await all_executed(world)
            await until(lambda: all(e.state is OutboxState.DELIVERED for e in store.outbox.listed(limit=99)))
        assert repeated(store) == 1  # the one that the gate held


@in_virtual_time
async def test_time_strategy_repeats_since_its_timer() -> None:
    store, gate = CountingStore(), Gate(held=is_first)
    async with world_with_blocks() as world:
        bridge = gated(bridge_with(world, store, CommitStrategy.TIME), gate)
        task = await started(bridge)
        await one_held_and_delivered(world, 3)
        await asyncio.sleep(20)
        for _ in range(3):
            world.send(ALPHA, BETA)
        await until(lambda: len(bridge.relayer.deliveries[BETA]._commits.claims) == 6)
        assert store.commits == []
        await crash(bridge, task)
        sent = world.chains[BETA].broadcasts
        async with running(bridge_with(world, store)):
            await all_executed(world)
            await until(lambda: all(e.state is OutboxState.DELIVERED for e in store.outbox.listed(limit=99)))
        assert repeated(store) == 6 + 1
        assert world.chains[BETA].broadcasts == sent + 1, "only the held one needed a transaction"


@in_virtual_time
async def test_at_most_once_never_delivers_again_whatever_crashes() -> None:
    store = CountingStore()
    async with world_with_blocks() as world:
        bridge = bridge_with(world, store, CommitStrategy.AT_MOST_ONCE)
        task = await started(bridge)
        for _ in range(5):
            world.send(ALPHA, BETA)
        await until(lambda: len(store.commits) == 5)
        await crash(bridge, task)
        async with running(bridge_with(world, store, CommitStrategy.AT_MOST_ONCE)):
            await asyncio.sleep(120)
        assert repeated(store) == 0
        assert max(world.executions(one.message) for one in world.sent) <= 1


@pytest.mark.parametrize(("strategy", "executed"), [(CommitStrategy.AUTO, 0), (CommitStrategy.BATCH, 1)])
@in_virtual_time
async def test_auto_strategy_loses_what_its_timer_committed(strategy: CommitStrategy, executed: int) -> None:
    store = CountingStore()
    async with world_with_blocks() as world:
        bridge = gated(bridge_with(world, store, strategy), Gate(seconds=6))
        task = await started(bridge)
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.listed(state=OutboxState.CLAIMED) != [])
        # The timeline of the document: commit after at most 5 s, processing takes 6 s, crash in between.
        await asyncio.sleep(5.5)
        await crash(bridge, task)
        async with running(bridge_with(world, store, strategy)):
            await asyncio.sleep(120)
        assert world.executions(sent.message) == executed
        assert entry_of(store, sent).state is OutboxState.DELIVERED


def test_at_least_once_is_default_and_auto_is_unsafe() -> None:
    assert Settings.load().commit is CommitStrategy.BATCH
    assert Settings.load().ordering is Ordering.SKIP
    with pytest.raises(SettingsError, match="unsafe = true"):
        Settings.load(commit="auto")
    assert Settings.load(commit="auto", unsafe=True).commit is CommitStrategy.AUTO
    assert Settings.load(commit="at-most-once").commit is CommitStrategy.AT_MOST_ONCE
    assert Settings.load(commit="time").commit_wait == 30
    assert Settings.load(commit="time", commit_seconds=7).commit_wait == 7
    assert Settings.load(commit="batch").commit_wait == 5


@for_each_case("profile", ["default", "production", "low-latency", "high-throughput"])
@for_each_case("strategy", [None, *CommitStrategy])
def test_an_ordering_changes_nothing_but_the_order(profile: str, strategy: CommitStrategy | None) -> None:
    chosen = {} if strategy is None else {"commit": strategy}
    skip, block = (Settings.load(profile=profile, ordering=ordering, unsafe=True, **chosen) for ordering in Ordering)
    assert (skip.ordering, block.ordering) == (Ordering.SKIP, Ordering.BLOCK)
    assert tuned(block, ordering=Ordering.SKIP).model_dump() == skip.model_dump()
    default = Settings.load(profile=profile, unsafe=True, **chosen)
    assert default.model_dump() == skip.model_dump(), "by default nothing waits for another"


@for_each_case(
    "strategy, promise, price",
    [
        (CommitStrategy.BATCH, "at least once", "repeats uncommitted deliveries"),
        (CommitStrategy.MESSAGE, "at least once", "repeats the deliveries in progress"),
        (CommitStrategy.TIME, "at least once", "repeats up to 30 s of deliveries"),
        (CommitStrategy.AT_MOST_ONCE, "at most once", "fail or crash after that are lost"),
        (CommitStrategy.AUTO, "none", "may lose or repeat deliveries. Needs unsafe = true"),
    ],
)
def test_every_strategy_says_what_it_promises_and_at_what_price(
    strategy: CommitStrategy, promise: str, price: str
) -> None:
    assert set(GUARANTEES) == set(CommitStrategy)
    assert GUARANTEES[strategy].startswith(f"{promise}: ")
    assert GUARANTEES[strategy].endswith(price)
    assert "exactly" not in GUARANTEES[strategy]


@for_each_case("strategy", list(CommitStrategy))
@in_virtual_time
async def test_strategies_count_accepted_and_refused_commits(
    strategy: CommitStrategy,
) -> None:
    store = CountingStore()
    store.refuse_commits = 2
    async with world_with_blocks() as world:
        async with running(bridge_with(world, store, strategy)):
            for _ in range(3):
                world.send(ALPHA, BETA)
            await until(lambda: store.outbox.listed() != [] and all(is_confirmed(store, one) for one in world.sent))
            await asyncio.sleep(6)  # a process that is killed loses no more of its counts than that
            counted = store.counters.counted(Counted.COMMIT)
        assert counted == {(BETA, "failure"): 2, (BETA, "success"): len(store.commits)}
        assert store.counters.counted(Counted.COMMIT) == {(BETA, "failure"): 2, (BETA, "success"): len(store.commits)}
        async with running(bridge_with(world, store, strategy)):
            sent = world.send(ALPHA, BETA)
            await until(lambda: bool(sent.created) and is_confirmed(store, sent))
        counted = store.counters.counted(Counted.COMMIT)
    assert counted == {(BETA, "failure"): 2, (BETA, "success"): len(store.commits)}, "a restart resets nothing"


@in_virtual_time
async def test_outcome_that_can_not_be_written_holds_up_no_other() -> None:
    store = CountingStore()
    finish, poisoned = store.outbox.finish, list[str]()

    def picky(outcomes: Sequence[Outcome], now: float) -> set[Claim]:
        if any(outcome.claim.event_id in poisoned for outcome in outcomes):
            raise ValueError("a column does not hold that text")
        return finish(outcomes, now)

    store.outbox.finish = picky  # type: ignore[method-assign]  # as a database that refuses one row
    async with world_with_blocks() as world, running(bridge_with(world, store, CommitStrategy.BATCH)):
        sent = [world.send(ALPHA, BETA) for _ in range(3)]
        await until(lambda: is_(OutboxState.CLAIMED, store, sent[0]), every=0.1)
        poisoned.append(entry_of(store, sent[0]).event_id)
        await until(lambda: is_(OutboxState.DELIVERED, store, *sent[1:]))
        poisoned.clear()
        await until(lambda: is_(OutboxState.DELIVERED, store, sent[0]), seconds=600)
    assert entry_of(store, sent[0]).fence == 2, "after its lease it was claimed again, and found delivered"
