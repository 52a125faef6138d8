"""The index rebuilt from the lake or from the chains is what is served; and the index as it was at any block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from indexer.jobs.rebuild import from_chains, from_lake
from indexer.jobs.time_travel import messages_as_of
from indexer.lake.history import History
from indexer.lake.lake import Lake
from indexer.lake.promotion import promote
from indexer.model.settings import SourceLimits
from indexer.store import tables
from indexer.store.store import Store
from tests.unit.indexer.endpoint import Endpoint, reader_of
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    apply,
    contents,
    executed,
    failed,
    forget_ended,
    new_world,
    received,
    retried,
    routed,
    sent_message,
)

SENT = [sent_message(nonce, quorum=1) for nonce in range(1, 7)]
STARTS = {ALPHA: 0, BETA: 0}


@dataclass
class World:
    store: Store
    lake: Lake
    alpha: SimulatedChain
    beta: SimulatedChain

    @property
    def history(self) -> History:
        return History(self.store.engine, self.lake)

    @property
    def chains(self) -> tuple[SimulatedChain, SimulatedChain]:
        return self.alpha, self.beta

    def rebuilt_from_chains(self) -> tuple[bool, int, int]:
        readers = [reader_of(Endpoint(chain, max_range=3), SourceLimits()) for chain in self.chains]
        try:
            found = from_chains(readers, self.history, self.store.engine)
        finally:
            for reader in readers:
                reader.close()
        return found.is_equal, len(found.different), found.different_events


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Six messages of several fates; half of the blocks are in the lake, the rest in the store alone."""
    made = World(Store(f"sqlite:///{tmp_path / 'index.db'}"), Lake(tmp_path / "lake"), *new_world())
    for number, sent in enumerate(SENT):
        made.alpha.mine(routed(sent), *([retried(SENT[number - 1], 1)] if number else []))
        made.beta.mine(received(sent, 1), executed(sent) if number % 3 else failed(sent))
    for chain in made.chains:
        apply(made.store, chain, final=4)
    promote(made.store, made.lake, STARTS)
    yield made
    made.store.close()


def test_the_messages_of_the_lake_alone_are_those_that_are_served(world: World) -> None:
    found = from_lake(world.store.engine, world.lake)
    assert found.is_equal
    assert (found.messages, found.receipts, found.too_new, found.pruned) == (3, 9, 3, 0)
    assert found.events == 4 + 3 + 8


def test_a_store_that_is_wrong_about_a_message_differs_from_the_lake_and_from_the_chains(world: World) -> None:
    with world.store.engine.begin() as connection:
        connection.execute(update(tables.messages).where(tables.messages.c.message_id == SENT[0].id).values(attempts=7))
    assert from_lake(world.store.engine, world.lake).different == (SENT[0].id,)
    assert world.rebuilt_from_chains() == (False, 1, 0)


@pytest.mark.parametrize("wrong", ["changed", "lost"])
def test_a_store_that_is_wrong_about_a_receipt_differs_from_the_lake_and_from_the_chains(
    world: World, wrong: str
) -> None:
    its = tables.receipts.c.message_id == SENT[0].id
    with world.store.engine.begin() as connection:
        change = update(tables.receipts).where(its).values(duplicates=7) if wrong == "changed" else None
        connection.execute(delete(tables.receipts).where(its) if change is None else change)
    assert from_lake(world.store.engine, world.lake).different == (SENT[0].id,)
    assert world.rebuilt_from_chains() == (False, 1, 0)


def test_a_message_that_the_store_lost_differs_and_one_that_it_let_go_of_does_not(world: World) -> None:
    assert forget_ended(world.store, START + 4) == 1
    found = from_lake(world.store.engine, world.lake)
    assert (found.is_equal, found.pruned) == (True, 1)
    with world.store.engine.begin() as connection:
        connection.execute(delete(tables.messages).where(tables.messages.c.message_id == SENT[0].id))
    assert from_lake(world.store.engine, world.lake).different == (SENT[0].id,)


def test_the_messages_of_the_chains_alone_are_those_that_are_served(world: World) -> None:
    assert world.rebuilt_from_chains() == (True, 0, 0)


def test_an_event_that_the_index_lacks_differs_from_the_chains(world: World) -> None:
    with world.store.engine.begin() as connection:
        place = tables.events.c
        connection.execute(delete(tables.events).where(place.chain_id == BETA, place.block_number == 6))
    assert world.rebuilt_from_chains() == (False, 0, 2)


@pytest.mark.parametrize(("alpha_block", "beta_block"), [(6, 2), (3, 5)])
def test_the_state_as_of_a_block_is_what_an_index_that_ended_there_has(
    world: World, alpha_block: int, beta_block: int
) -> None:
    then = Store("sqlite://")
    apply(then, world.alpha, last=alpha_block)
    apply(then, world.beta, last=beta_block)
    expected = contents(then, tables.messages)["messages"]
    then.close()
    found = messages_as_of(world.history, blocks={ALPHA: alpha_block, BETA: beta_block})
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected


def test_the_state_as_of_a_moment_leaves_out_every_later_block(world: World) -> None:
    found = messages_as_of(world.history, time=START + 2)
    assert {row["message_id"] for row in found.to_pylist()} == {sent.id for sent in SENT[:2]}
    with world.store.engine.connect() as connection:
        everything = connection.execute(select(tables.messages.c.message_id)).all()
    assert len(messages_as_of(world.history, time=START + 99)) == len(everything) == 6
