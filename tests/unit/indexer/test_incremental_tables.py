"""A run of the tables computes what is new, and gives the rows of a run that computes all: with reorgs, repairs, compaction."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from indexer.jobs import tables as job
from indexer.jobs.tables import noted_in, write_tables
from indexer.lake.increment import OF_EVENTS, without
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model.errors import IndexerError
from indexer.model.tables import SCHEMAS, Bronze
from tests.spark.history import SeededHistory, rows_of, seeded_history


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


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 12))])
def test_a_run_of_what_is_new_gives_the_rows_of_a_run_of_all(seed: int, tmp_path: Path) -> None:
    runs = Runs()
    made = seeded_history(seed, tmp_path, runs)
    runs.run(made)
    expect_all(made)
    assert runs.increments
    assert runs.spared
    made.store.close()


def test_a_run_that_another_one_has_overtaken_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = seeded_history(1, tmp_path, lambda made, random: write_all(made) if random.random() < 0.2 else None)

    def overtaken(*arguments: Any) -> object:
        monkeypatch.undo()
        write_tables(made.store.engine, made.lake)
        return without(*arguments)

    monkeypatch.setattr(job, "without", overtaken)
    with pytest.raises(IndexerError, match="another process writes"):
        write_tables(made.store.engine, made.lake)
    expect_all(made)
    made.store.close()


def write_all(made: SeededHistory) -> None:
    write_tables(made.store.engine, made.lake)


def test_a_run_can_be_told_to_compute_all(tmp_path: Path) -> None:
    made = seeded_history(2, tmp_path)
    write_tables(made.store.engine, made.lake)
    assert {one.computed for one in write_tables(made.store.engine, made.lake) if one.name in OF_EVENTS} == {0}
    assert all(one.computed == one.rows for one in write_tables(made.store.engine, made.lake, full=True))
    made.store.close()
