"""A run of the tables computes what is new, and gives the rows of a run that computes all: with reorgs, repairs, compaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Barrier, Event, Lock
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from indexer.jobs import tables as job
from indexer.jobs.tables import noted_in, write_tables
from indexer.lake.derived import DerivedTable
from indexer.lake.increment import INCREMENTAL, OF_EVENTS, events_to_read, without
from indexer.lake.lake import Lake, events_in
from indexer.lake.lake_tables import DUCKDB
from indexer.lake.promotion import promote
from indexer.model.errors import IndexerError
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import MADE_OF, SCHEMAS, Bronze, Noted, Tables
from indexer.store.store import Store
from tests.spark.history import SeededHistory, rows_of, seeded_history
from tests.unit.indexer.logs import ADAPTERS, ALPHA, BETA
from tests.unit.indexer.world import (
    SimulatedChain,
    adapter_added,
    apply,
    executed,
    new_world,
    policy_set,
    received,
    routed,
    sent_message,
)

pytestmark = pytest.mark.long


class Runs:
    """Runs the tables every now and then when events have come to the lake."""

    def __init__(self) -> None:
        self.spared = 0  # rows that were there and were not computed again
        self.increments = 0

    def __call__(self, made: SeededHistory, random: Random) -> None:
        if random.random() < 0.3:
            made.lake.compact(2)
        if random.random() < 0.1 and made.lake.chains():
            _repair(made.lake, random)
        if random.random() < 0.5:
            self.run(made)

    def run(self, made: SeededHistory) -> None:
        said: list[str] = []
        for table in write_tables(made.store.engine, made.lake, progress=said.append):
            if table.name in OF_EVENTS:
                self.spared += table.rows - table.computed
        self.increments += "new events" in said[0]


def _repair(lake: Lake, random: Random) -> None:
    chain = random.choice(lake.chains())
    last = lake.last_block(chain) or 0
    first = random.randrange(last + 1)
    events = lake.events(chain, first, last)
    lake.replace(chain, first, last, events.slice(random.randrange(3)), "for this test")


def expect_all(made: SeededHistory) -> None:
    lake = made.lake
    with DUCKDB.tables(Bronze(files=lake.files(), folder=lake.folder), noted_in(made.store.engine)) as tables:
        for name in SCHEMAS:
            there = DeltaTable(f"{lake.place.root}/{name}").to_pyarrow_table()
            assert rows_of(there) == rows_of(tables.rows(name)), name


# In history 11 repairs have everything computed again, so that nothing is spared.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (*range(1, 11), 12))])
def test_a_run_of_what_is_new_gives_the_rows_of_a_run_of_all(seed: int, tmp_path: Path) -> None:
    runs = Runs()
    made = seeded_history(seed, tmp_path, runs)
    runs.run(made)
    expect_all(made)
    assert runs.increments
    assert runs.spared
    assert all(DerivedTable(made.lake.place, name, SCHEMAS[name]).rows() for name in INCREMENTAL)
    made.store.close()


@dataclass
class World:
    """Two chains, of which all that was mined is in the lake at each run of the tables."""

    made: SeededHistory
    alpha: SimulatedChain
    beta: SimulatedChain

    def collect(self) -> None:
        for chain in (self.alpha, self.beta):
            apply(self.made.store, chain, final=chain.head)
        promote(self.made.store, self.made.lake, {ALPHA: 0, BETA: 0})

    def run(self) -> None:
        self.collect()
        write_tables(self.made.store.engine, self.made.lake)

    def kinds(self) -> set[str]:
        found = DeltaTable(f"{self.made.lake.place.root}/divergences").to_pyarrow_table()["kind"]
        return set(found.to_pylist())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
    yield World(SeededHistory(store, Lake(tmp_path / "lake")), *new_world())
    store.close()


SENT = sent_message(quorum=1)


def test_a_receipt_is_judged_by_registrations_that_come_to_be_known_later(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1))
    world.run()
    world.beta.mine(adapter_added(1, ADAPTERS[BETA]))
    world.run()
    assert "RECEIPT_FROM_UNREGISTERED_ADAPTER" in world.kinds()
    expect_all(world.made)


def test_an_execution_elsewhere_is_judged_by_what_its_destination_says_later(world: World) -> None:
    """Its block is one of another chain, so that the destination's rules up to that block come when the message is there."""
    for _ in range(20):
        world.alpha.mine()
    world.alpha.mine(routed(SENT), executed(SENT))
    world.beta.mine(received(SENT, 1))
    world.run()
    assert "EXECUTED_WITHOUT_QUORUM" not in world.kinds()
    world.beta.mine(policy_set(SENT.recipient, ALPHA, 0b11, quorum=2))
    world.run()
    assert "EXECUTED_WITHOUT_QUORUM" in world.kinds()
    expect_all(world.made)


def test_old_events_are_looked_for_only_where_they_may_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.lake.compaction._ROWS_IN_A_GROUP", 2)
    many = [sent_message(nonce, quorum=1) for nonce in range(1, 201)]
    world.alpha.mine(*(routed(one) for one in many))
    world.beta.mine(*(received(one, 1) for one in many))
    world.collect()
    world.made.lake.compact(1)
    world.run()
    world.beta.mine(executed(many[7]))
    world.collect()
    read, files = list[Any](), set(Path(world.made.lake.folder.root).glob("*.parquet"))
    read_row_group = pq.ParquetFile.read_row_group

    def noted(file: Any, *arguments: Any) -> pa.Table:
        read.append(arguments)
        return read_row_group(file, *arguments)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    world.run()
    assert 2 <= len(read) <= 8  # of some 12 in its bucket: their ids, and those that have it
    expect_all(world.made)
    assert set(Path(world.made.lake.folder.root).glob("*.parquet")) == files


def test_a_run_that_another_one_has_overtaken_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.alpha.mine(routed(SENT))
    world.run()
    world.beta.mine(received(SENT, 1))

    def overtaken(*arguments: Any) -> object:
        monkeypatch.undo()
        world.run()
        return without(*arguments)

    monkeypatch.setattr(job, "without", overtaken)
    with pytest.raises(IndexerError, match="another process writes"):
        world.run()
    expect_all(world.made)


def test_a_run_can_be_told_to_compute_all(tmp_path: Path) -> None:
    made = seeded_history(2, tmp_path)
    write_tables(made.store.engine, made.lake)
    assert {one.computed for one in write_tables(made.store.engine, made.lake) if one.name in OF_EVENTS} == {0}
    assert all(one.computed == one.rows for one in write_tables(made.store.engine, made.lake, full=True))
    made.store.close()


@dataclass
class TwoAtOnce:
    """DuckDB as an engine that is asked for two tables at a time; its first two wait for each other.

    Attributes:
        begun: the tables that it was asked for, in that order.
        fails: the table that it can't make.
    """

    fails: str = ""
    at_once: Final = 2
    begun: list[str] = field(default_factory=list[str])
    _lock: Lock = field(default_factory=Lock)
    _both: Barrier = field(default_factory=lambda: Barrier(2, timeout=60))

    @contextmanager
    def tables(self, bronze: Bronze, noted: Noted) -> Iterator[Tables]:
        with DUCKDB.tables(bronze, noted) as made:
            yield _Checked(self, made)

    def begin(self, name: str) -> None:
        with self._lock:
            self.begun.append(name)
            is_early = len(self.begun) <= self.at_once
        if is_early:
            self._both.wait()
        if name == self.fails:
            raise IndexerError(f"no {name} today")


class _Checked:
    """Tables of which none is asked for before those that it is made of are there."""

    def __init__(self, engine: TwoAtOnce, made: Tables) -> None:
        self._engine = engine
        self._made = made
        self._lock = Lock()
        self._there: set[str] = set()
        self._others = Event()

    def rows(self, name: str) -> Any:
        return self._made.rows(name)

    def write(self, name: str, target: StorageLocation, before: Sequence[str] = ()) -> list[dict[str, Any]]:
        assert self._there >= set(MADE_OF.get(name, ())), name
        self._engine.begin(name)
        if name == "messages" and not self._engine.fails:
            assert self._others.wait(60)  # so long that what is made of messages could begin too early
        with self._lock:
            manifests = self._made.write(name, target, before)
            self._there.add(name)
        if name == "duplicates":
            self._others.set()
        return manifests

    def use(self, name: str, files: Sequence[str], folder: StorageLocation, removed: Sequence[str] = ()) -> None:
        with self._lock:
            self._made.use(name, files, folder, removed)
            self._there.add(name)


@pytest.mark.parametrize("full", [True, False])
def test_an_engine_makes_several_tables_at_a_time_each_after_those_that_it_is_made_of(
    world: World, *, full: bool
) -> None:
    world.alpha.mine(routed(SENT))
    world.run()
    world.beta.mine(received(SENT, 1), executed(SENT))
    world.collect()
    engine = TwoAtOnce()
    write_tables(world.made.store.engine, world.made.lake, engine, full=full)
    assert sorted(engine.begun) == sorted(set(SCHEMAS) - {"costs"})
    expect_all(world.made)


def test_once_a_table_has_failed_no_other_one_is_begun(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.collect()
    engine = TwoAtOnce(fails="receipts")
    with pytest.raises(IndexerError, match="no receipts today"):
        write_tables(world.made.store.engine, world.made.lake, engine)
    assert len(engine.begun) < len(SCHEMAS) / 2
    world.run()
    expect_all(world.made)


def test_a_run_is_to_read_what_came_since_the_last_one_or_all_if_it_can_not_add_to_that(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world.made.lake.place
    world.alpha.mine(routed(SENT))
    world.collect()
    assert events_to_read(place) == 1
    world.run()
    assert events_to_read(place) == 0
    world.beta.mine(received(SENT, 1), executed(SENT))
    world.collect()
    assert events_to_read(place) == 2
    with monkeypatch.context() as patched:
        patched.setattr("indexer.lake.increment.made_with", lambda: "other texts")
        assert events_to_read(place) == 3
    world.run()
    assert events_to_read(place) == 0
    _repair(world.made.lake, Random(1))
    assert events_to_read(place) == events_in(place) > 0
