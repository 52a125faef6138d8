"""`--stateful`: Spark's state says which messages are stalled, from a start with what the lake has, and after a kill."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from indexer.jobs.stateful import bucket_of, in_buckets, with_overdue
from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.store import tables
from indexer.store.store import Store
from tests.spark.crashing_index import POINTS
from tests.spark.story import World, log_of
from tests.unit.indexer.world import START, new_world, received, retried, routed, sent_message

_LATE = 61  # seconds, after which a message of this world is overdue


def requests_of(world: World) -> list[tuple[Any, ...]]:
    """The requests, without when they were written and what that makes of their sequence."""
    names = [column.name for column in tables.retry_requests.c]
    left_out = {names.index(name) for name in ("sequence", "requested_at")}
    rows = world.contents(tables.retry_requests)[tables.retry_requests.name]
    return sorted(tuple(value for place, value in enumerate(row) if place not in left_out) for row in rows)


def let_pass(world: World, seconds: int) -> None:
    """Both chains get a block that much later."""
    now = max(world.alpha.time(), world.beta.time()) + seconds
    for chain in (world.alpha, world.beta):
        chain.rpc("evm_setNextBlockTimestamp", now)
        chain.mine(1)


def test_a_message_is_in_the_bucket_in_which_a_start_puts_it(spark: SparkSession) -> None:
    ids = [bytes([number]) * 32 for number in range(50)]
    found = in_buckets(as_source(spark, [{"message_id": one} for one in ids]), 7).collect()
    assert {bytes(row.message_id): row.bucket for row in found} == {one: bucket_of(one, 7) for one in ids}


def test_the_state_gets_a_batch_in_one_piece(spark: SparkSession) -> None:
    alpha, beta = new_world()
    sent = sent_message(quorum=2)
    alpha.mine(routed(sent), time=START)
    beta.mine(received(sent, 1), time=START)
    late = {"block_time": START + _LATE, "final_block": -1}
    batch = [
        {"chain_id": chain.chain_id, "block_number": block, "range_first": block} | late
        for block in (2, 3)
        for chain in (alpha, beta)
    ]
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)
    with closing(Store("sqlite://")) as store:
        for chain in (alpha, beta):
            store.apply(chain.events(0, chain.head), {chain.chain_id: chain.range(0)})
        policy = StallPolicy(stall_after=_LATE - 1, max_lag=2**31)
        rows = with_overdue(as_source(spark, batch), store.engine, policy).where("overdue_since is not null").collect()
    assert [bytes(row.message_id) for row in rows] == [sent.id]


def as_source(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schemas.SOURCE), spark_schema(schemas.SOURCE))


def test_the_state_asks_for_the_retries_that_the_tick_asks_for(spark: SparkSession, world: World) -> None:
    ticking = World(world.alpha, world.beta, world.folder.parent / "ticking")
    counts = []
    sent = world.tell_a_story()
    for seconds in (_LATE, 2 * _LATE):
        if seconds == 2 * _LATE:
            world.alpha.emit(log_of(retried(sent[4], 1, 0b10)))
        let_pass(world, seconds + 1)
        world.index_once(spark, stateful=True)
        ticking.index_once(spark)
        assert requests_of(world) == requests_of(ticking)
        counts.append(len(requests_of(world)))
    assert 0 < counts[0] < counts[1]


def test_a_kill_between_two_batches_loses_no_request_and_makes_none_twice(spark: SparkSession, world: World) -> None:
    world.tell_a_story()
    let_pass(world, _LATE)
    for chain in (world.alpha, world.beta):
        chain.mine(60)  # more than one batch
    deployment = world.folder.parent / "deployment.json"
    deployment.write_text(world.deployment.to_json())
    command = [sys.executable, "-m", "tests.spark.crashing_index", str(deployment), str(world.folder), POINTS[1], "1"]
    killed = subprocess.run(
        [*command, "stateful"], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert world.places(world.alpha) | world.places(world.beta)  # the first batch has what answered first
    assert requests_of(world) == []
    world.index_once(spark, stateful=True)

    never_killed = World(world.alpha, world.beta, world.folder.parent / "never killed")
    never_killed.index_once(spark)
    assert requests_of(world) == requests_of(never_killed)
    assert requests_of(world)
