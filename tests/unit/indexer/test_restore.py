"""What somebody took from the lake after the store had pruned it comes from the chains again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from sqlalchemy import delete, select

from indexer.jobs.rebuild import from_lake
from indexer.jobs.restore import restore
from indexer.jobs.watch import compare_with_lake
from indexer.lake.history import History
from indexer.lake.lake import Lake
from indexer.lake.promotion import lost, promote
from indexer.model.errors import LakeDamagedError
from indexer.model.settings import SourceLimits
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.unit.indexer.endpoint import Endpoint, reader_of
from tests.unit.indexer.logs import ALPHA, BETA
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

STARTS = {ALPHA: 0, BETA: 0}


@dataclass
class World:
    store: Store
    folder: Path
    chains: tuple[SimulatedChain, SimulatedChain] = field(default_factory=new_world)

    @property
    def lake(self) -> Lake:
        return Lake(self.folder)

    def whole(self) -> list[bool]:
        return [self.lake.events(chain.chain_id, 0, 99) == chain.events(0, chain.head) for chain in self.chains]

    def restored(self) -> dict[int, int]:
        readers = [reader_of(Endpoint(chain), SourceLimits()) for chain in self.chains]
        try:
            return restore(readers, self.store, self.lake)
        finally:
            for reader in readers:
                reader.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Five messages that have ended, in the lake by two commits; the store has pruned all of them."""
    made = World(Store(f"sqlite:///{tmp_path / 'index.db'}"), tmp_path / "lake")
    alpha, beta = made.chains
    for nonce in range(1, 6):
        sent = sent_message(nonce, quorum=1)
        alpha.mine(routed(sent))
        beta.mine(received(sent, 1), executed(sent))
    for first, last in ((0, 3), (4, 5)):
        for chain in made.chains:
            apply(made.store, chain, first=first, last=last, final=last)
        promote(made.store, made.lake, STARTS)
    assert forget_ended(made.store, START + 10_000) == 5
    assert all(made.whole())
    yield made
    made.store.close()


def take_the_last_commit_back(world: World) -> None:
    max((world.folder / "events" / "_delta_log").glob("*.json")).unlink()


def delete_the_lake(world: World) -> None:
    world.folder.rename(world.folder.with_name("gone"))


@pytest.mark.parametrize(("loss", "first"), [(take_the_last_commit_back, 4), (delete_the_lake, 0)])
def test_what_the_lake_lost_is_not_filled_with_gaps_from_the_store_but_read_from_the_chains(
    world: World, loss: object, first: int
) -> None:
    assert callable(loss)
    loss(world)
    assert lost(world.store, world.lake, STARTS) == {ALPHA: (first, 5), BETA: (first, 5)}
    assert promote(world.store, world.lake, STARTS) == {}
    assert world.restored() == {ALPHA: 6 - first, BETA: 6 - first}
    assert all(world.whole())
    assert (world.restored(), list(History(world.store.engine, world.lake).disagreements())) == ({}, [])


@pytest.mark.parametrize("read", [(Store, "lake_block"), (Lake, "last_block")])
def test_what_is_promoted_while_lake_and_store_are_compared_is_not_taken_for_lost(
    world: World, read: tuple[type, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for chain in world.chains:
        chain.mine()
        apply(world.store, chain, first=6, final=6)
    where, name = read
    reading = getattr(where, name)

    def read_and_be_overtaken(of: object, chain: int) -> object:
        found = reading(of, chain)
        monkeypatch.setattr(where, name, reading)
        promote(world.store, world.lake, STARTS)
        return found

    monkeypatch.setattr(where, name, read_and_be_overtaken)
    assert lost(world.store, world.lake, STARTS) == {}
    assert world.lake.last_block(ALPHA) == 6


def test_after_a_restoration_the_store_fills_the_lake_as_ever(world: World) -> None:
    take_the_last_commit_back(world)
    world.restored()
    for chain in world.chains:
        chain.mine()
        chain.mine(*([routed(sent_message(9))] if chain.chain_id == ALPHA else []))
        apply(world.store, chain, first=6, final=7)
    assert promote(world.store, world.lake, STARTS) == {ALPHA: 7, BETA: 7}
    assert all(world.whole())


def test_a_lake_that_lost_blocks_differs_from_the_store_until_it_has_them_again(world: World) -> None:
    delete_the_lake(world)
    found = list(History(world.store.engine, world.lake).disagreements())
    assert [(one.kind, one.source_chain) for one in found] == [
        ("STORE_DIFFERS_FROM_LAKE", ALPHA),
        ("STORE_DIFFERS_FROM_LAKE", BETA),
    ]
    assert all("the lake had blocks up to 5, and now ends before block 0" in one.evidence for one in found)


def noted(world: World, *, hides_logs: bool = False) -> list[tuple[str, int | None]]:
    """What a look of the running index leaves as divergences; with endpoints that have the blocks, and perhaps not their logs."""
    answers = [replace(chain, blocks=[replace(block, events=()) for block in chain.blocks]) for chain in world.chains]
    readers = [reader_of(Endpoint(chain), SourceLimits()) for chain in (answers if hides_logs else world.chains)]
    compare_with_lake(world.store, world.lake, readers, START)
    for reader in readers:
        reader.close()
    with IndexReader(f"sqlite:///{world.folder.parent / 'index.db'}") as index:
        return [(one.kind, one.source_chain) for one in index.divergences()]


def test_the_running_index_notes_where_store_and_lake_differ_from_where_they_were_equal_on(world: World) -> None:
    assert noted(world) == []
    alpha, _ = world.chains
    for nonce in (6, 7):
        alpha.mine(routed(sent_message(nonce)))
    apply(world.store, alpha, first=6, final=7)
    promote(world.store, world.lake, STARTS)
    place = tables.events.c
    with world.store.engine.begin() as connection:
        taken = [
            dict(row) for row in connection.execute(select(tables.events).where(place.block_number == 6)).mappings()
        ]
        connection.execute(delete(tables.events).where(place.block_number == 6))
    for _ in range(2):  # an endpoint that hides logs agrees with the store, and is not believed
        assert noted(world, hides_logs=True) == [("STORE_DIFFERS_FROM_LAKE", ALPHA)]
    assert world.lake.events(ALPHA, 6, 6).num_rows == 1
    assert noted(world) == []
    assert [dict(row) for row in world.store.events_between(ALPHA, 6, 6).to_pylist()] == taken
    world.lake.replace(ALPHA, 6, 6, world.lake.events(ALPHA, 6, 6).slice(0, 0), "lost")
    with world.store.engine.begin() as connection:
        connection.execute(delete(tables.lake_checks))
    assert noted(world) == []
    assert world.lake.events(ALPHA, 6, 6).num_rows == 1
    delete_the_lake(world)
    assert noted(world) == [("STORE_DIFFERS_FROM_LAKE", ALPHA), ("STORE_DIFFERS_FROM_LAKE", BETA)]
    world.restored()
    assert noted(world) == []


def test_a_committed_file_that_is_gone_is_named_by_everything_that_reads_it_and_noted(world: World) -> None:
    gone = Path(min(world.lake.files()).removeprefix("file://"))
    gone.unlink()
    readers: list[Callable[[], object]] = [
        lambda: world.lake.events(ALPHA, 0, 99),
        lambda: world.lake.events_of([sent_message(nonce, quorum=1).id for nonce in range(1, 6)]),
        lambda: list(History(world.store.engine, world.lake).disagreements()),
        world.lake.compact,
        lambda: from_lake(world.store.engine, world.lake),
    ]
    for read in readers:
        with pytest.raises(LakeDamagedError, match=f"{gone.name}.*Put the file back.*`waybill index run`"):
            read()
    assert ("STORE_DIFFERS_FROM_LAKE", ALPHA) in noted(world)
    delete_the_lake(world)
    world.restored()
    assert (all(world.whole()), noted(world)) == (True, [])
