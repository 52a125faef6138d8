"""Reorgs of every depth that finality allows, on real chains, whatever the index is doing: it has the chains' own logs after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexer.sources import tail
from tests import seeds
from tests.anvil.index_follower import Follower
from tests.spark.chain import AnvilChain, anvil_chain
from tests.spark.story import FACTS, World
from tests.unit.indexer.world import contents

DEEPEST = 64  # blocks: anvil calls final what has 64 above it


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(tail, "_LOOK_AGAIN_AFTER", 0.05)
    with anvil_chain(31337) as alpha, anvil_chain(31338) as beta:
        yield World(alpha, beta, tmp_path / "index")


def lay(world: World, depth: int) -> None:
    """At least `depth` blocks on both chains, with messages in some of them, of which the last is never delivered."""
    places = min(depth, 4)
    for place in range(places):
        sent, silent = world.new_message(), world.new_message()
        world.send(sent, silent)
        world.deliver(sent)
        empty = depth // places - 1
        if place == 0:
            empty += depth % places
        if empty:
            for chain in (world.alpha, world.beta):
                chain.mine(empty)


def replace(*chains: AnvilChain, depth: int) -> None:
    """Other blocks in the place of the newest, up to the same height."""
    for chain in chains:
        chain.rpc("evm_increaseTime", 1)  # or they would be the same blocks again
        chain.rpc("anvil_reorg", depth, [])


def let_pass(world: World, seconds: int) -> None:
    """A block on each chain that much later than any before: reorgs have moved their clocks apart."""
    chains = (world.alpha, world.beta)
    later = max(chain.time() for chain in chains) + seconds
    for chain in chains:
        chain.rpc("evm_setNextBlockTimestamp", later)
        chain.rpc("evm_mine")


def at_the_same_height(world: World, index: Follower, depth: int) -> None:
    lay(world, depth)
    index.follow()
    replace(world.alpha, depth=depth)


def to_a_lower_head(world: World, index: Follower, depth: int) -> None:
    lay(world, depth)
    index.follow()
    world.beta.rpc("anvil_rollback", depth)
    index.follow()
    world.beta.rpc("evm_increaseTime", 1)


def during_a_read(world: World, index: Follower, depth: int) -> None:
    lay(world, depth)
    index.follow()
    world.send(world.new_message())
    for request in range(1, 5):
        index.interrupt(world.alpha, request, lambda: replace(world.alpha, depth=depth))
        for _ in range(3):
            index.step()
        world.send(world.new_message())


def across_a_restart(world: World, index: Follower, depth: int) -> None:
    lay(world, depth)
    index.follow()
    index.close()
    replace(world.beta, depth=depth)
    index.open()


def on_both_chains_at_once(world: World, index: Follower, depth: int) -> None:
    lay(world, depth)
    index.follow()
    replace(world.alpha, world.beta, depth=depth)


def with_requests_pending(world: World, index: Follower, depth: int) -> None:
    lay(world, max(1, depth - 1))
    let_pass(world, 120)
    index.follow()
    assert index.wrong_requests() == []
    with world.reader() as reader:
        assert len(reader.retry_requests()) >= min(depth, 4)  # or the check before this one had nothing to check
    replace(world.alpha, depth=depth)


WAYS: dict[str, Callable[[World, Follower, int], None]] = {
    way.__name__: way
    for way in (
        at_the_same_height,
        to_a_lower_head,
        during_a_read,
        across_a_restart,
        on_both_chains_at_once,
        with_requests_pending,
    )
}


def reorganise(world: World, index: Follower, way: str, depth: int) -> None:
    WAYS[way](world, index, depth)
    index.follow()
    world.send(world.new_message())
    index.follow()
    let_pass(world, 120)
    index.follow()
    assert index.wrong_requests() == []


def check_against_a_new_index(world: World, index: Follower) -> None:
    """Every table that follows from the chains is as if it had been read once, from the chains of now."""
    fresh = World(world.alpha, world.beta, world.folder.parent / "fresh")
    with Follower(fresh) as second:
        second.follow()
        assert contents(index.store, *FACTS) == contents(second.store, *FACTS)


def drawn_reorgs(count: int) -> list[tuple[str, int]]:
    """Return ways and depths that the seed draws; each way is there once before one is there twice."""
    dice = seeds.dice(f"{count} reorgs")
    ways = dice.sample(sorted(WAYS), len(WAYS))
    return [(ways[number % len(ways)], dice.randint(1, DEEPEST)) for number in range(count)]


@pytest.mark.parametrize("count", [3, pytest.param(18, marks=pytest.mark.long)])
def test_reorgs_leave_the_chains_own_logs(world: World, count: int) -> None:
    with Follower(world) as index:
        for way, depth in drawn_reorgs(count):
            reorganise(world, index, way, depth)
        check_against_a_new_index(world, index)
