"""`--stateful`: Spark's state says which messages are stalled, from a start with what the lake has, and after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from indexer.store import tables
from tests.spark.crashing_index import POINTS
from tests.spark.story import World, log_of
from tests.unit.indexer.world import retried

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


@pytest.mark.timeout(900)  # a stream starts six times
def test_the_state_asks_for_the_retries_that_the_tick_asks_for(spark: SparkSession, world: World) -> None:
    ticking = World(world.alpha, world.beta, world.folder.parent / "ticking")
    counts = []
    sent = world.tell_a_story()
    for seconds in (0, _LATE, 2 * _LATE):
        if seconds == 2 * _LATE:
            world.alpha.emit(log_of(retried(sent[4], 1, 0b10)))
        let_pass(world, seconds + 1)
        world.index_once(spark, stateful=True)
        ticking.index_once(spark)
        assert requests_of(world) == requests_of(ticking)
        counts.append(len(requests_of(world)))
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.timeout(900)  # three Spark sessions start
def test_a_kill_between_two_batches_loses_no_request_and_makes_none_twice(spark: SparkSession, world: World) -> None:
    world.tell_a_story()
    world.index_once(spark, stateful=True)
    before = requests_of(world)
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
    assert requests_of(world) == before
    world.index_once(spark, stateful=True)

    never_killed = World(world.alpha, world.beta, world.folder.parent / "never killed")
    never_killed.index_once(spark)
    assert requests_of(world) == requests_of(never_killed)
    assert len(requests_of(world)) > len(before)
