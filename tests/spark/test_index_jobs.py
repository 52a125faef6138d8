"""The index on a real Spark session, over real anvil chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from bridge.protocol.message import Message
from bridge.protocol.status import Status
from indexer.jobs.history import History
from indexer.jobs.repair import find_violation, repair
from indexer.model import schemas
from indexer.model.errors import FinalityViolatedError
from indexer.pipeline.bronze import Lake
from indexer.pipeline.reading import rows_of
from indexer.pipeline.refresh import StoreFacts, refresh
from indexer.sources.chain import ChainReader, chain_config
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.retention import pruned_among
from indexer.store.store import Store
from tests.spark.story import World, log_of
from tests.unit.indexer.world import retried

pytestmark = pytest.mark.long

ENDED = 3
"""Of the six messages of a story."""


def frame(spark: SparkSession, world: World, table: Any, schema: Any) -> DataFrame:
    """A table of the store as a DataFrame."""
    stored = [dict(zip(schema.names, row, strict=True)) for row in world.contents(table)[table.name]]
    return spark.createDataFrame(pa.Table.from_pylist(stored, schema=schema))


def rows(found: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in found.collect()), key=repr)


def stored(world: World, table: Any, schema: Any, spark: SparkSession) -> list[tuple[Any, ...]]:
    return rows(frame(spark, world, table, schema))


def test_once_reads_to_the_heads_and_is_idempotent(spark: SparkSession, world: World) -> None:
    sent = world.tell_a_story()
    world.index_once(spark)
    assert world.equals_chains()
    with world.reader() as reader:
        assert [found.status for one in sent if (found := reader.message(one.id))] == [
            Status.EXECUTED,
            Status.EXECUTED,
            Status.EXECUTION_FAILED,
            Status.EXECUTED,
            Status.ROUTED,
            Status.ROUTED,
        ]
        assert reader.divergences() == []
    before = world.contents(*tables.metadata.sorted_tables)
    world.index_once(spark)
    assert world.contents(*tables.metadata.sorted_tables) == before


def test_stalled_message_gets_one_request_across_restarts(spark: SparkSession, world: World) -> None:
    overdue, arrived = world.new_message(), world.new_message()

    def requested() -> list[tuple[bytes, int]]:
        with world.reader() as reader:
            return [(request.message_id, request.attempt) for request in reader.retry_requests()]

    with world.indexing(spark):
        world.send(overdue, arrived)
        world.deliver(arrived)
        for chain in (world.alpha, world.beta):
            chain.let_pass(120)
        world.until(lambda: requested() == [(overdue.id, 1)], "one retry request")
        world.alpha.emit(log_of(retried(overdue, 1)))
        world.until(world.equals_chains, "the retry is indexed")
        assert requested() == [(overdue.id, 1)]
    for chain in (world.alpha, world.beta):
        chain.let_pass(30)
    with world.indexing(spark):
        for chain in (world.alpha, world.beta):
            chain.let_pass(100)
        world.until(lambda: len(requested()) == 2, "a second request after the retry's own deadline")
    assert requested() == [(overdue.id, 1), (overdue.id, 2)]


def test_final_history_is_read_in_parallel(spark: SparkSession, world: World) -> None:
    sent = world.tell_a_story(12)
    for chain in (world.alpha, world.beta):
        chain.mine(100)
    last = world.new_message()
    world.send(last)
    world.index_once(spark, backfill_blocks=10)
    lake = Lake(world.settings().folder.lake)
    assert lake.last_block(world.alpha.chain_id) == int(world.alpha.head()["number"], 16) - 64
    assert world.equals_chains()
    refresh(spark, lake, StoreFacts())
    of_lake = rows(spark.createDataFrame(rows_of(lake.place, "silver.messages")))
    assert {row[0] for row in of_lake} == {one.id for one in sent}
    assert of_lake == [row for row in stored(world, tables.messages, schemas.MESSAGES, spark) if row[0] != last.id]
    before = world.contents()
    (world.folder / "index.db").unlink()
    world.index_once(spark, backfill_blocks=10)
    assert world.contents() == before


def pruned(reader: IndexReader, sent: Sequence[Message]) -> int:
    with reader.engine.connect() as connection:
        return len(pruned_among(connection, [one.id for one in sent]))


def test_running_stream_promotes_and_prunes(spark: SparkSession, world: World) -> None:
    sent = world.tell_a_story()
    with world.indexing(spark, lake_interval=0.01, refresh_interval=0.01, keep_ended=0), world.reader() as reader:
        world.until(world.equals_chains, "the index has caught up")
        for chain in (world.alpha, world.beta):
            chain.mine(100)
        lake = Lake(world.settings().folder.lake)
        world.until(
            lambda: all((lake.last_block(chain.chain_id) or 0) > 20 for chain in (world.alpha, world.beta)),
            "final blocks are in the lake",
        )
        world.until(lambda: pruned(reader, sent) == ENDED, "the store has pruned what ended")
        events = lake.events(world.alpha.chain_id, 0, 1_000)
    assert set(events["message_id"].drop_null().to_pylist()) == {one.id for one in sent}


def test_reverted_finality_halts_until_a_repair(spark: SparkSession, world: World) -> None:
    sent = world.new_message()
    world.send(sent)
    world.beta.mine()
    before = world.beta.rpc("evm_snapshot")
    world.deliver(sent)
    world.beta.mine(100)
    world.index_once(spark)
    world.beta.rpc("evm_revert", before)
    world.beta.rpc("evm_increaseTime", 7)
    world.beta.mine(120)
    with pytest.raises(FinalityViolatedError, match="verify --repair"):
        world.index_once(spark)
    with world.reader() as reader:
        assert [(found.kind, found.message_id) for found in reader.divergences()] == [("FINALITY_VIOLATED", sent.id)]
        found = reader.message(sent.id)
        assert found is not None
        assert found.status is Status.DIVERGED
    lake = Lake(world.settings().folder.lake)
    store = Store(world.settings().folder.store_url)
    with ChainReader(chain_config(world.deployment.chain("beta")), world.settings().limits) as beta:
        violation = find_violation(beta, History(store.engine, lake))
        assert violation is not None
        repair(store, lake, beta, violation, 0.0)
    store.close()
    world.index_once(spark)
    assert world.equals_chains()
    with world.reader() as reader:
        assert reader.divergences() == []
