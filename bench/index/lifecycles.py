"""(b) The tables of a whole lake: Spark's pipeline, DuckDB as the other engine, and DuckDB alone, from the same files."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
from pyspark.sql import SparkSession

from bench.index.history import fill_lake
from bench.index.usage import usage
from indexer.lake.bucketed_tables import table_text
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import SCHEMAS, Bronze, Noted, TableEngine
from indexer.spark.tables import SparkEngine

_WARM_UP: Final = 1_000  # messages: Spark compiles its code, and starts its Python processes
_MEMORY: Final = "3GB"


def lifecycle(spark: SparkSession, folder: Path, messages: int, rounds: int) -> dict[str, Any]:
    """Seconds for the tables of that many messages and of a tenth of them, and the most memory that each engine took.

    Args:
        spark: a session for batches.
        folder: for lakes and results.
        messages: how many.
        rounds: of which the median counts.
    """
    begun = time.monotonic()
    _of_size(spark, folder / "warm", _WARM_UP, rounds=1)
    warm_up = time.monotonic() - begun
    smaller = _of_size(spark, folder / "tenth", messages // 10, rounds)
    found = _of_size(spark, folder / "whole", messages, rounds)
    return {
        **found,
        **{f"tenth_{name}": value for name, value in smaller.items() if name.endswith("_s")},
        "spark_warm_up_s": round(warm_up, 1),
        "messages": messages,
    }


def _of_size(spark: SparkSession, folder: Path, messages: int, rounds: int) -> dict[str, float]:
    lake = fill_lake(folder / "lake", messages)
    engines: dict[str, TableEngine] = {"spark": SparkEngine(spark), "duckdb": DUCKDB}
    found: dict[str, list[float]] = {}
    for round_ in range(rounds):
        for name, engine in engines.items():
            made = _tables(engine, lake, folder / f"{name}-{round_}")
            for figure, value in made.items():
                found.setdefault(f"{name}_{figure}", []).append(value)
        alone = folder / f"alone-{round_}.parquet"
        found.setdefault("duckdb_alone_lifecycle_s", []).append(_seconds(partial(_duckdb_alone, lake, alone)))
        for table in SCHEMAS:
            _expect_equal([f"{folder}/{name}-{round_}/{table}/*.parquet" for name in engines])
        _expect_equal([f"{folder}/spark-{round_}/messages/*.parquet", str(alone)], messages)
        print(f"{messages} messages: { ({name: values[-1] for name, values in found.items()}) }", flush=True)
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def _tables(engine: TableEngine, lake: Lake, folder: Path) -> dict[str, float]:
    """Writes every table."""
    seconds = dict[str, float]()
    bronze = Bronze(files=lake.files(), folder=lake.folder)
    with usage() as used, engine.tables(bronze, Noted()) as tables:
        for name in SCHEMAS:
            (folder / name).mkdir(parents=True)
            seconds[name] = _seconds(partial(tables.write, name, StorageLocation.of(folder / name)))
    each = ", ".join(f"{name} {took:.1f}" for name, took in seconds.items())
    print(f"{folder.name}: {each} s, {used.peak_mb:.0f} MB", flush=True)
    return {"lifecycle_s": seconds["messages"], "tables_s": sum(seconds.values()), "peak_mb": used.peak_mb}


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def _duckdb_alone(lake: Lake, target: Path) -> None:
    """One query for all messages, as a user would type it."""
    with duckdb.connect() as connection:
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{_MEMORY}'")
        connection.execute("set temp_directory = $folder", {"folder": f"{target}.overflow"})
        text = f"copy ({table_text('messages')}) to '{target}' (format parquet, compression zstd)"
        connection.execute(text, {"files": lake.files()})


def _expect_equal(paths: list[str], messages: int | None = None) -> None:
    """All have the same rows: as many, with the same sum of their hashes."""
    with duckdb.connect() as connection:
        text = "select count(*), sum(hash(m)) from read_parquet($path) m"
        found = [connection.execute(text, {"path": path}).fetchone() for path in paths]
    if len(set(found)) != 1 or (messages is not None and (found[0] is None or found[0][0] != messages)):
        raise AssertionError(f"rows and hashes of {paths}: {found}")
