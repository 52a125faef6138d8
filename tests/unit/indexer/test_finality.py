"""When executions became final: noted as the index looks on, the same however often and in what order it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from indexer.model.errors import StoreVersionError
from indexer.sources.position import HASH_PREFIX, ChainPosition
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.unit.indexer.logs import BETA
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    apply,
    executed,
    forget_ended,
    new_world,
    received,
    routed,
    sent_message,
)

DEPTH = 3
"""A block is final when so many stand on it."""

MESSAGES = [sent_message(nonce, quorum=1) for nonce in range(1, 5)]


class World:
    """Two chains, on the second of which messages are executed, and the store of an index that looks at both."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = Store(url)
        self.alpha, self.beta = new_world()
        self.alpha.mine(*[routed(sent) for sent in MESSAGES], time=START)
        for chain in (self.alpha, self.beta):
            self.look(chain)

    def look(self, chain: SimulatedChain, *, replayed: int = 0) -> None:
        """Reads up to the head what has changed, and some blocks before it again."""
        read = self.store.positions().get(chain.chain_id, ChainPosition.before(0))
        ours = [
            number
            for number in range(chain.head + 1)
            if read.hash_at(number) == chain.blocks[number].hash[:HASH_PREFIX]
        ]
        first = max(ours, default=-1) + 1
        apply(self.store, chain, max(0, first - replayed), final=max(read.final_block, chain.head - DEPTH))

    def execute(self, sent: Any, **block: Any) -> int:
        self.beta.mine(received(sent, 1), executed(sent), **block)
        return self.beta.head

    def mine_to_finality(self, blocks: int = DEPTH) -> None:
        for _ in range(blocks):
            self.beta.mine()
            self.look(self.beta)

    def noted(self) -> dict[int, int]:
        """By block of the destination, seconds since `START` until it was final."""
        with self.store.engine.connect() as connection:
            rows = connection.execute(select(tables.final_times)).mappings().all()
        assert {row["chain_id"] for row in rows} <= {BETA}
        return {row["block_number"]: row["final_time"] - START for row in rows}


@pytest.fixture(params=["sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(
        f"sqlite:///{tmp_path / 'index.db'}"
        if request.param == "sqlite"
        else request.getfixturevalue("postgresql").new_url()
    )
    yield made
    made.store.close()


def test_execution_is_final_when_its_finalizing_block_is_head(world: World) -> None:
    block = world.execute(MESSAGES[0])
    world.look(world.beta)
    world.mine_to_finality(DEPTH - 1)
    assert world.noted() == {}
    world.beta.mine(time=START + 500)  # however long it took: it is the next block
    world.look(world.beta)
    assert world.noted() == {block: 500}
    world.mine_to_finality()
    assert world.noted() == {block: 500}


def test_finality_during_an_absence_has_no_figure(world: World) -> None:
    world.execute(MESSAGES[0])
    world.look(world.beta)
    for _ in range(DEPTH):
        world.beta.mine(time=world.beta.blocks[-1].time + 20)
    world.look(world.beta)
    assert world.noted() == {}
    later = world.execute(MESSAGES[1], time=world.beta.blocks[-1].time + 1)
    world.look(world.beta)
    world.mine_to_finality()
    assert set(world.noted()) == {later}


def test_repair_removes_final_times_of_lost_blocks(world: World) -> None:
    kept, gone = world.execute(MESSAGES[0]), world.execute(MESSAGES[1])
    world.look(world.beta)
    world.mine_to_finality()
    assert set(world.noted()) == {kept, gone}
    world.beta.reorganise(world.beta.head - kept)
    apply(world.store, world.beta, kept + 1, final=kept)
    assert set(world.noted()) == {kept}


def test_what_is_noted_goes_with_the_last_execution_in_its_block(world: World) -> None:
    alone = world.execute(MESSAGES[0])
    world.beta.mine(*[event for sent in MESSAGES[1:3] for event in (received(sent, 1), executed(sent))])
    shared = world.beta.head
    world.look(world.beta)
    world.beta.mine(received(MESSAGES[2], 2), time=START + 100)  # which keeps the third for longer
    world.look(world.beta)
    world.mine_to_finality()
    assert set(world.noted()) == {alone, shared}
    world.store.note_lake({chain.chain_id: chain.head for chain in (world.alpha, world.beta)})
    assert forget_ended(world.store, START + 50) == 2
    assert set(world.noted()) == {shared}
    assert forget_ended(world.store, START + 1_000) == 1
    assert world.noted() == {}


looks = st.fixed_dictionaries(
    {
        "taken_back": st.sampled_from([0, 0, 1, DEPTH]),
        "mined": st.lists(st.tuples(st.booleans(), st.sampled_from([1, 1, 12, 31, 400])), max_size=4),
        "replayed": st.integers(0, 4),
        "again": st.booleans(),
    }
)


@settings(max_examples=15, deadline=None)
@given(story=st.lists(looks, max_size=12), alpha_first=st.booleans())
def test_any_history_notes_the_first_finalizing_head(story: list[dict[str, Any]], alpha_first: bool) -> None:
    world = World("sqlite://")
    expected: dict[int, int] = {}
    try:
        for step in story:
            beta, before = world.beta, world.beta.blocks[-1].time
            seen, final = beta.head, max(-1, beta.head - DEPTH)
            final = max(final, world.store.positions()[BETA].final_block)
            beta.reorganise(min(step["taken_back"], beta.head - max(final, 0)))
            for has_execution, seconds in step["mined"]:
                sent = MESSAGES[beta.head % len(MESSAGES)]
                happened = (received(sent, 1), executed(sent)) if has_execution else ()
                beta.mine(*happened, time=beta.blocks[-1].time + seconds)
            if alpha_first:
                world.alpha.mine()
                world.look(world.alpha)
            world.look(beta, replayed=step["replayed"])
            if step["again"]:
                world.look(beta, replayed=step["replayed"] + 1)
            head = beta.blocks[-1].time
            if beta.head - seen <= 1 or head - before <= 30:
                newly = range(final + 1, max(final, beta.head - DEPTH) + 1)
                expected |= {number: head - START for number in newly if beta.blocks[number].events}
            assert world.noted() == expected
    finally:
        world.store.close()


def _make_older(world: World, version: int) -> None:
    with world.store.engine.begin() as connection:
        tables.final_times.drop(connection)
        connection.execute(update(tables.facts).where(tables.facts.c.name == "schema_version").values(value=version))


def test_a_store_of_an_older_version_is_refused(world: World) -> None:
    _make_older(world, tables.SCHEMA_VERSION - 1)
    for opening in (Store, IndexReader):
        with pytest.raises(StoreVersionError, match="delete it"):
            opening(world.url)
