"""(a) RPC to lake: the index's backfill against a plain web3.py source, cryo and Ponder, in turn from one endpoint."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import psutil
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench.index.endpoint import endpoint
from bench.index.history import LOGS_OF_A_BLOCK, ROUTER, SOURCE
from bench.index.naive import COLUMNS, NaiveSource
from bench.index.ponder_engine import ponder_is_there, run_ponder
from indexer.decode.events import Emitters, events_of_logs
from indexer.jobs.backfill import backfill
from indexer.model.settings import IndexFolder, IndexSettings
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainConfig

ROUNDS: Final = 3
_NAIVE_SHARE: Final = 20  # the plain source reads a twentieth of the blocks: all would take minutes
_PONDER_SHARE: Final = 20  # the same for Ponder, which runs once
_CRYO: Final = Path("build/tools/cryo")
_CRYO_PINNED: Final = "cryo==0.3.2"


def ingest(spark: SparkSession, folder: Path, logs: int) -> dict[str, Any]:
    """Returns logs per second, the median of three rounds, after checking that all read the same logs.

    The index's first round also starts Spark's Python processes, and is reported separately. Its CPU time, over all
    processes but the endpoint's, is independent of other load on the machine. Ponder runs once, at the end.

    Args:
        spark: Session of the index.
        folder: Folder for output.
        logs: Approximate number of logs.
    """
    blocks = max(2 * _NAIVE_SHARE, logs // LOGS_OF_A_BLOCK)
    spark.dataSource.register(NaiveSource)
    has_cryo = cryo_is_there()
    rates: dict[str, list[float]] = {"ingest": [], "naive": [], "cryo": []}
    work: list[float] = []
    with endpoint(blocks) as url:
        for round_ in range(ROUNDS):
            lake, plain = Lake(folder / f"lake-{round_}"), folder / f"naive-{round_}"
            before = _processor_seconds()
            taken = _seconds(partial(_backfill, spark, url, folder, lake))
            work.append((_processor_seconds() - before) / (blocks * LOGS_OF_A_BLOCK / 100_000))
            rates["ingest"].append(blocks * LOGS_OF_A_BLOCK / taken)
            few = blocks // _NAIVE_SHARE
            taken = _seconds(partial(_naive, spark, url, few, plain))
            rates["naive"].append(few * LOGS_OF_A_BLOCK / taken)
            _expect_same(lake, plain, blocks * LOGS_OF_A_BLOCK, few)
            if has_cryo:
                out = folder / f"cryo-{round_}"
                taken = _seconds(partial(run_cryo, url, blocks, out))
                rates["cryo"].append(blocks * LOGS_OF_A_BLOCK / taken)
                _expect_count(f"{out}/*.parquet", blocks * LOGS_OF_A_BLOCK)
        ponder = _ponder(url, blocks, folder / "ponder", lake)
    medians = {name: round(statistics.median(found)) if found else None for name, found in rates.items()}
    return {f"{name}_logs_per_s": value for name, value in medians.items()} | {
        **ponder,
        "ingest_first_logs_per_s": round(rates["ingest"][0]),
        "ingest_processor_s_per_100k_logs": round(statistics.median(work), 3),
        "logs": blocks * LOGS_OF_A_BLOCK,
    }


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _processor_seconds() -> float:
    """Returns the CPU seconds of this process and its descendants, except the endpoint."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            if "bench.index.endpoint" not in process.cmdline():
                total += sum(process.cpu_times()[:4])  # those of its children that have ended, too
        except psutil.NoSuchProcess:
            continue
    return total


def _backfill(spark: SparkSession, url: str, folder: Path, lake: Lake) -> None:
    emitters = Emitters(chain_id=SOURCE, router=ROUTER, adapters=frozenset())
    config = ChainConfig(chain_id=SOURCE, urls=(url,), start_block=0, emitters=emitters)
    backfill(spark, [config], IndexSettings(folder=IndexFolder(path=folder), backfill_blocks=1), lake)


def _naive(spark: SparkSession, url: str, blocks: int, out: Path) -> None:
    source = spark.read.format("naive").option("url", url).option("router", "0x" + ROUTER.hex())
    source.option("blocks", str(blocks)).load().write.parquet(str(out))


def _ponder(url: str, blocks: int, folder: Path, lake: Lake) -> dict[str, float | None]:
    """Returns Ponder's logs per second, measured once its process is up, and its start-up time in seconds."""
    if not ponder_is_there():
        return {"ponder_logs_per_s": None, "ponder_start_s": None}
    few = blocks // _PONDER_SHARE
    timed = run_ponder(url, few, folder)
    _expect_same(lake, folder, blocks * LOGS_OF_A_BLOCK, few)
    return {
        "ponder_logs_per_s": round(few * LOGS_OF_A_BLOCK / (timed.whole - timed.start)),
        "ponder_start_s": round(timed.start, 2),
    }


def _expect_same(lake: Lake, plain: Path, logs: int, blocks: int) -> None:
    """Checks the lake's number of logs, and that two readers have the same events in the blocks that both have read."""
    stored = DeltaTable(lake.folder.root).to_pyarrow_dataset()
    ours = events_of_logs(stored.to_table(filter=pc.field("block_number") < blocks)).select(list(COLUMNS))
    text = (
        "select (select count(*) from theirs), (select count(*) from (from ours except all from theirs)), "
        "(select count(*) from (from theirs except all from ours))"
    )
    with duckdb.connect() as connection:
        connection.register("ours", ours)
        connection.read_parquet(f"{plain}/*.parquet").select(", ".join(COLUMNS)).create_view("theirs")
        found = connection.execute(text).fetchone()
    counted = (stored.count_rows(), *(found or ()))
    expected = (logs, blocks * LOGS_OF_A_BLOCK, 0, 0)
    if counted != expected:
        raise AssertionError(f"logs, logs in {plain}, only in the lake, only there: {counted}, not {expected}")


def _expect_count(files: str, logs: int) -> None:
    with duckdb.connect() as connection:
        found = connection.execute("select count(*) from read_parquet($files)", {"files": files}).fetchone()
    if found != (logs,):
        raise AssertionError(f"{files} have {found} rows, not {logs}")


def cryo_is_there() -> bool:
    """Returns whether cryo is available, after installing it for this benchmark.

    Not every Python version has a build.
    """
    if _CRYO.exists():
        return True
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(_CRYO), _CRYO_PINNED]
    return subprocess.run([*command, "--python", sys.executable], check=False).returncode == 0


def run_cryo(url: str, blocks: int, out: Path) -> None:
    """Reads the logs of the first `blocks` blocks with cryo into a folder.

    Raises:
        subprocess.CalledProcessError: cryo failed.
    """
    program = (
        f"import cryo; cryo.freeze('logs', blocks=['0:{blocks}'], rpc='{url}', output_dir='{out}', "
        f"inner_request_size=50, chunk_size=1000, max_concurrent_requests=8, "
        "no_report=True, verbose=False)"
    )
    environment = os.environ | {"PYTHONPATH": str(_CRYO.resolve())}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, stdout=subprocess.DEVNULL)
