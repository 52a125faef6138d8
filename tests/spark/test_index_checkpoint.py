"""Spark's checkpoint, deleted, rewound and advanced: nothing is lost or doubled."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import create_engine

from indexer.jobs.history import History
from indexer.pipeline.bronze import Lake
from tests.spark.chain import AnvilChain, anvil_chain
from tests.spark.story import World

pytestmark = pytest.mark.long

FINALITY = 64  # blocks, of anvil

CHECKPOINT, REST = "checkpoint", ("index.db*", "lake")
CELLS: dict[str, tuple[str, ...]] = {
    "deleted": (),
    "rewound": (CHECKPOINT,),
    "advanced": REST,  # to be ahead of the store and the lake, which are put back
}
"""What comes from a copy that was made earlier."""


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """An index in the folder `now`, a copy of it as it was `earlier`, and chains that have gone on since."""
    root = tmp_path_factory.mktemp("steps")
    with anvil_chain(31337) as alpha, anvil_chain(31338) as beta:
        world = World(alpha, beta, root / "now")
        for copy in ("earlier", None):
            go_on(world)
            world.index_once(spark)
            assert_right(world)
            if copy is not None:
                shutil.copytree(world.folder, root / copy)
        go_on(world)
        yield world


def go_on(world: World) -> None:
    world.tell_a_story()
    for chain in (world.alpha, world.beta):
        chain.mine(FINALITY + 1)
    world.tell_a_story()  # which is not final yet


def put_back(earlier: Path, folder: Path, pattern: str) -> None:
    for found in folder.glob(pattern):
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    for found in earlier.glob(pattern):
        copy = shutil.copytree if found.is_dir() else shutil.copy2
        copy(found, folder / found.name)


def served(history: History, chain: AnvilChain) -> set[tuple[Any, ...]]:
    """The logs of lake and store."""
    events = history.events(chain.chain_id, 0, 10_000)
    columns = [events[name].to_pylist() for name in ("block_number", "log_index", "block_hash", "transaction_hash")]
    return set(zip(*columns, strict=True))


def assert_right(world: World) -> None:
    """Store and lake have the chains' own logs, and each of them once."""
    lake = Lake(world.settings().folder.lake)
    for chain in (world.alpha, world.beta):
        logs = chain.log_places()
        assert world.places(chain) == logs
        final = int(chain.head()["number"], 16) - FINALITY
        assert lake.last_block(chain.chain_id) == final
        events = lake.events(chain.chain_id, 0, 10_000)
        columns = [events[name].to_pylist() for name in ("block_number", "log_index", "block_hash", "transaction_hash")]
        assert list(zip(*columns, strict=True)) == sorted(log for log in logs if log[0] <= final)
    engine = create_engine(world.settings().folder.store_url)
    try:
        history = History(engine, lake)
        assert all(world.places(chain) == served(history, chain) for chain in (world.alpha, world.beta))
    finally:
        engine.dispose()


@pytest.mark.parametrize("cell", CELLS)
def test_lost_or_advanced_checkpoint_loses_nothing(spark: SparkSession, told: World, tmp_path: Path, cell: str) -> None:
    world = replace(told, folder=tmp_path / "index")
    shutil.copytree(told.folder, world.folder)
    checkpoint = world.folder / CHECKPOINT
    assert any((checkpoint / "offsets").iterdir())
    if cell == "deleted":
        shutil.rmtree(checkpoint)
    for pattern in CELLS[cell]:
        put_back(told.folder.parent / "earlier", world.folder, pattern)
    world.index_once(spark)
    assert_right(world)
