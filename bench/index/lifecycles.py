"""(b) Lifecycles of a whole lake: Spark's tasks beside DuckDB alone, from the same files, both writing Parquet."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import psutil
from pyspark.sql import SparkSession

from bench.index.history import fill_lake
from indexer.lake.bucketed_tables import table_text, write_table
from indexer.lake.lake import Lake
from indexer.model.storage_location import StorageLocation
from tests.support.spark_lake import messages_of_lake

_CHECKED_BY_SPARK: Final = 100_000  # messages; Spark's own SQL would take minutes for all
_MEMORY: Final = "3GB"
_SAMPLE_EVERY: Final = 0.1  # seconds


def lifecycle(spark: SparkSession, folder: Path, messages: int, rounds: int) -> dict[str, Any]:
    """Seconds for that many messages and for a tenth of them, and the most memory that the index took.

    Args:
        spark: a session of the index.
        folder: for lakes and results.
        messages: how many.
        rounds: of which the median counts.
    """
    checked = min(_CHECKED_BY_SPARK, messages // 10)
    _of_size(spark, folder / "checked", checked, rounds=1)  # it also starts Spark's Python processes
    _expect_equal_by_spark(spark, folder / "checked", checked)
    smaller = _of_size(spark, folder / "tenth", messages // 10, rounds)
    found = _of_size(spark, folder / "whole", messages, rounds)
    size = f"{messages / 1e6:g}m"
    return {
        f"lifecycle_{size}_s": found["ours"],
        f"duckdb_{size}_s": found["duckdb"],
        "lifecycle_s": found["ours"],
        "duckdb_s": found["duckdb"],
        "lifecycle_tenth_s": smaller["ours"],
        "duckdb_tenth_s": smaller["duckdb"],
        "lifecycle_peak_mb": round(found["peak_mb"]),
        "messages": messages,
    }


def _of_size(spark: SparkSession, folder: Path, messages: int, rounds: int) -> dict[str, float]:
    lake = fill_lake(folder / "lake", messages)
    files = lake.files()
    ours, alone, peaks = [], [], [0.0]
    for round_ in range(rounds):
        mine, other = folder / f"ours-{round_}", folder / f"duckdb-{round_}.parquet"
        mine.mkdir(parents=True)
        write = partial(write_table, "messages", files, lake.folder, StorageLocation.of(mine), spark)
        with _memory(peaks):
            ours.append(_seconds(write))
        alone.append(_seconds(partial(_duckdb_alone, files, other)))
        _expect_equal(f"{mine}/*.parquet", str(other), messages)
        print(f"{messages} messages: {ours[-1]:.1f} s, DuckDB alone {alone[-1]:.1f} s", flush=True)
    return {
        "ours": round(statistics.median(ours), 2),
        "duckdb": round(statistics.median(alone), 2),
        "peak_mb": max(peaks),
    }


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _duckdb_alone(files: list[str], target: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{_MEMORY}'")
        connection.execute("set temp_directory = $folder", {"folder": f"{target}.overflow"})
        text = f"copy ({table_text('messages')}) to '{target}' (format parquet, compression zstd)"
        connection.execute(text, {"files": files})


def _expect_equal(ours: str, alone: str, messages: int) -> None:
    """Both tables have the same rows: as many, with the same sum of their hashes."""
    with duckdb.connect() as connection:
        text = "select count(*), sum(hash(m)) from read_parquet($path) m"
        both = [connection.execute(text, {"path": path}).fetchone() for path in (ours, alone)]
    if both[0] != both[1] or both[0] is None or both[0][0] != messages:
        raise AssertionError(f"rows and hashes of {messages} messages: {both}")


def _expect_equal_by_spark(spark: SparkSession, folder: Path, messages: int) -> None:
    """Spark's own SQL gives the same rows too."""
    target = folder / "spark"
    messages_of_lake(spark, Lake(folder / "lake")).write.parquet(str(target))
    _expect_equal(f"{folder}/ours-0/*.parquet", f"{target}/*.parquet", messages)


@contextmanager
def _memory(peaks: list[float]) -> Iterator[None]:
    """Adds the most resident memory, in megabytes, of this process and all below it."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_SAMPLE_EVERY):
            peaks.append(_resident() / 1e6)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _resident() -> int:
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
