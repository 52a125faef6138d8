"""kill -9 of a real index process between any two steps: started again, it has the same tables as one never killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from indexer.model.settings import IndexFolder
from indexer.pipeline.bronze import Lake
from tests import seeds
from tests.spark.crashing_index import POINTS
from tests.spark.story import World

pytestmark = pytest.mark.long


def run_until_it_dies(world: World, point: str, call: int) -> None:
    deployment = world.folder.parent / "deployment.json"
    deployment.write_text(world.deployment.to_json())
    command = [sys.executable, "-m", "tests.spark.crashing_index", str(deployment), str(world.folder), point, str(call)]
    process = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert process.returncode == -9, process.stderr[-2000:]


def kill_at(spark: SparkSession, world: World, points: Sequence[tuple[str, int]]) -> None:
    """Kills an index at one point after the other; then it must have what one has that was never killed."""
    for point, call in points:
        world.tell_a_story()
        for chain in (world.alpha, world.beta):
            chain.mine(50 + 30 * call)  # enough for that many batches, and commits, of final blocks
        run_until_it_dies(world, point, call)
    world.tell_a_story()
    world.index_once(spark)
    assert world.equals_chains()

    never_killed = World(world.alpha, world.beta, world.folder.parent / "never killed")
    never_killed.index_once(spark)
    assert world.contents() == never_killed.contents()
    for chain in (world.alpha, world.beta):
        lakes = [Lake(IndexFolder(path=one.folder).lake) for one in (world, never_killed)]
        events = [lake.events(chain.chain_id, 0, 10_000) for lake in lakes]
        assert events[0] == events[1]
        assert len(events[0]) > 0


def test_index_killed_between_any_two_steps_loses_nothing(spark: SparkSession, world: World) -> None:
    """At the first call of some steps and at a later one of others, which the seed draws."""
    calls = seeds.dice("crash").sample(range(1, 5), len(POINTS))
    kill_at(spark, world, list(zip(POINTS, calls, strict=True)))
