"""The index on a Spark cluster, with PostgreSQL as its store and the lake in a bucket or a shared folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from indexer.model.dictionary import TABLES
from indexer.model.settings import IndexFolder
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.bronze import Lake
from indexer.pipeline.reading import rows_of
from tests.postgresql import Server, running_postgresql
from tests.s3 import CREDENTIALS, S3, running_s3
from tests.spark.chain import AnvilChain
from tests.spark.cluster import standalone_cluster
from tests.spark.story import World

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = 4_200  # of history: several tasks of each chain, for two executors


@pytest.fixture
def server() -> Iterator[Server]:
    with running_postgresql() as started:
        yield started


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with running_s3(tmp_path / "s3.log") as started:
        yield started


def run_once(home: Path, deployment: str, environment: dict[str, str]) -> None:
    """`waybill index backfill` and `waybill index run --once`, as an operator types them."""
    file = home / "deployments" / "cluster.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(deployment)
    for arguments in (["backfill"], ["run", "--once"]):
        with started(home, environment, *arguments) as process:
            _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-4_000:]


@contextmanager
def started(home: Path, environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command of `waybill index`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("WAYBILL_", "PYSPARK_"))}
    with subprocess.Popen(
        [sys.executable, "-m", "bridge.cli", "index", *arguments, "--network", "cluster"],
        env=inherited | {"WAYBILL_HOME": str(home)} | environment,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_cluster_has_the_tables_of_one_machine(
    alpha: AnvilChain, beta: AnvilChain, server: Server, s3: S3, tmp_path: Path
) -> None:
    lake = s3.new_lake()
    clustered = World(alpha, beta, tmp_path / "clustered" / ".waybill" / "cluster", store=server.new_url())
    for _ in range(3):
        clustered.tell_a_story(12)
        for chain in (alpha, beta):
            for _ in range(BLOCKS // 3 // 100):
                chain.mine(100)
    clustered.tell_a_story()
    assert clustered.store is not None
    deployment = clustered.deployment.to_json()
    with standalone_cluster(tmp_path / "spark", workers=2) as cluster:
        environment = {
            "WAYBILL_SPARK_MASTER": cluster.master,
            "WAYBILL_INDEX_STORE": clustered.store,
            "WAYBILL_INDEX_LAKE": lake,
            "PYSPARK_SUBMIT_ARGS": "--conf spark.driver.host=127.0.0.1 --conf spark.executor.memory=512m pyspark-shell",
        }
        run_once(tmp_path / "clustered", deployment, environment)
        assert all(cluster.executors()), "each of the workers has run an executor"
    assert clustered.equals_chains()
    assert not (clustered.folder / "index.db").exists()

    alone = World(alpha, beta, tmp_path / "alone" / ".waybill" / "cluster")
    run_once(tmp_path / "alone", deployment, {})
    assert clustered.contents() == alone.contents()
    lakes = [Lake(StorageLocation.of(lake)), Lake(alone.settings().folder.lake)]
    for chain in (alpha, beta):
        events = [lake.events(chain.chain_id, 0, 10 * BLOCKS) for lake in lakes]
        assert events[0] == events[1]
        assert len(events[0]) > 10
        assert len({lake.last_block(chain.chain_id) for lake in lakes}) == 1


def test_tables_are_right_though_a_worker_is_killed(alpha: AnvilChain, beta: AnvilChain, tmp_path: Path) -> None:
    home, lake = tmp_path / "home", tmp_path / "shared"
    world = World(alpha, beta, home / ".waybill" / "cluster")
    for _ in range(4):
        world.tell_a_story(12)
        for chain in (alpha, beta):
            chain.mine(100)
    shared = {"WAYBILL_INDEX_LAKE": str(lake)}
    run_once(home, world.deployment.to_json(), shared)
    with standalone_cluster(tmp_path / "spark", workers=3) as cluster:
        environment = shared | {
            "WAYBILL_SPARK_MASTER": cluster.master,
            "PYSPARK_SUBMIT_ARGS": "--conf spark.driver.host=127.0.0.1 --conf spark.executor.memory=512m pyspark-shell",
        }
        with started(home, environment, "refresh", "--full") as process:
            while not any("Running task" in log.read_text() for log in cluster.executors()[0]):
                assert process.poll() is None, process.communicate()
                time.sleep(0.05)
            assert all(cluster.executors()), "each of the workers has an executor"
            cluster.kill(0)
            assert process.poll() is None, "it was killed while it computed"
            _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-4_000:]
        for worker in (1, 2):
            assert any("Finished task" in log.read_text() for log in cluster.executors()[worker])
    by_cluster = tables_in(lake)
    with started(home, shared, "refresh", "--full") as process:
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-4_000:]
    assert by_cluster == tables_in(lake)
    assert len(by_cluster["silver.messages"]) > 10


def tables_in(lake: Path) -> dict[str, list[Any]]:
    """The rows of each table."""
    place = StorageLocation.of(lake)
    return {name: sorted(map(repr, rows_of(place, name).to_pylist())) for name in TABLES}


def test_a_stream_outlives_a_time_in_which_its_bucket_refuses_it(
    spark: SparkSession, alpha: AnvilChain, beta: AnvilChain, s3: S3, tmp_path: Path
) -> None:
    place = StorageLocation.of(s3.new_lake())
    world = World(alpha, beta, tmp_path / "index")
    folder = IndexFolder(path=world.folder, shared_lake=place)

    def in_bucket() -> int:
        return len(Lake(place).events(alpha.chain_id, 0, 10**9))

    with world.indexing(spark, folder=folder, lake_interval=0.5):
        world.tell_a_story()
        alpha.mine(100)
        world.until(lambda: in_bucket() > 0, "final events are in the bucket")
        before = in_bucket()
        with s3.refusing():
            world.tell_a_story()
            alpha.mine(100)
            world.until(world.equals_chains, "the store goes on without the bucket")
            time.sleep(2)
            alpha.mine(1)
            time.sleep(2)
        alpha.mine(1)
        world.until(lambda: in_bucket() > before, "the bucket has caught up")
    final = int(alpha.head()["number"], 16) - 64
    # Read by this process: the session's workers began before the credentials were in the environment.
    ids = {
        one for chain in (alpha, beta) for one in Lake(place).events(chain.chain_id, 0, 10**9)["message_id"].to_pylist()
    }
    assert len(ids - {None}) == 12
    assert (Lake(place).last_block(alpha.chain_id) or 0) <= final


def test_a_stream_outlives_a_restart_of_its_postgresql(
    spark: SparkSession, alpha: AnvilChain, beta: AnvilChain, server: Server, tmp_path: Path
) -> None:
    world = World(alpha, beta, tmp_path / "index", store=server.new_url())
    with world.indexing(spark):
        world.tell_a_story()
        world.until(world.equals_chains, "the index has caught up")
        server.stop()
        world.tell_a_story()
        server.start()
        world.until(world.equals_chains, "the index has caught up after the restart")
    never_restarted = World(alpha, beta, tmp_path / "never restarted")
    never_restarted.index_once(spark)
    assert world.contents() == never_restarted.contents()
