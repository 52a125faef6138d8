"""(c) All tables of a large history: Spark's pipeline, DuckDB alone, plain Spark SQL; and what a tenth more costs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import psutil
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.index.history import MESSAGES_OF_A_BLOCK, fill_lake
from bench.index.usage import usage
from indexer.jobs.tables import write_tables
from indexer.lake import lake_tables
from indexer.lake.increment import events_to_read
from indexer.lake.lake import Lake, events_in
from indexer.lake.lake_tables import DUCKDB
from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.model.tables import SCHEMAS, Noted, TableEngine
from indexer.spark.session import batch_session
from indexer.spark.tables import SparkEngine
from indexer.store.store import Store
from indexer.transforms.pipeline import Pipeline
from indexer.transforms.queries import FOR_SPARK, WITH_BIT_OR, query

_LATE: Final = 1_000  # messages of the lake that something more happens to
_SHARE_OF_MEMORY: Final = 0.6  # of the machine, for DuckDB


def gold(folder: Path, messages: int) -> dict[str, Any]:
    """Seconds, processor seconds and megabytes for the tables of that many messages, each run in a process of its own.

    Args:
        folder: for the lake and the tables.
        messages: how many.
    """
    lake = fill_lake(folder / "lake", messages)
    figures: dict[str, Any] = {}
    for run in ("duckdb", "spark_sql", "gold", "engine_duckdb"):
        figures |= _apart(run, folder)
    ids = pq.ParquetFile(lake.files()[0]).read_row_group(0, ["message_id"])["message_id"].unique()[:_LATE]
    late = np.frombuffer(b"".join(ids.to_pylist()), np.uint8).reshape(-1, 32)
    first = -(-messages // MESSAGES_OF_A_BLOCK) * MESSAGES_OF_A_BLOCK
    fill_lake(folder / "lake", first + messages // 10, first, late)
    shutil.copytree(folder / "lake", folder / "lake_duckdb", copy_function=os.link)
    for run in ("incremental", "full", "duckdb_incremental", "duckdb_full"):
        figures |= _apart(run, folder)
    for engine in ("", "duckdb_"):
        for name, unit in (("incremental_fraction", "s"), ("incremental_cpu_fraction", "cpu_s")):
            part, whole = figures[f"{engine}incremental_{unit}"], figures[f"{engine}full_{unit}"]
            figures[engine + name] = round(part / whole, 3)
    size = f"{messages // 1_000_000}m" if messages >= 1_000_000 else str(messages)
    names = {f"{run}_s": f"{run}_{size}_s" for run in ("duckdb", "spark_sql", "gold", "engine_duckdb")}
    return {names.get(name, name): value for name, value in figures.items()}


def _apart(run: str, folder: Path) -> dict[str, Any]:
    told = [sys.executable, "-m", "bench.index.gold", run, str(folder)]
    said = subprocess.run(told, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    print(said[-1], flush=True)
    found: dict[str, Any] = json.loads(said[-1])
    return found


def main() -> None:
    """Makes one run on a lake that is there, and prints its figures as JSON."""
    run, folder = sys.argv[1], Path(sys.argv[2])
    lake = Lake(folder / ("lake_duckdb" if run in ("duckdb_incremental", "duckdb_full") else "lake"))
    if "duckdb" in run:
        with usage() as used:
            if run == "duckdb":
                _duckdb_alone(lake, folder / run)
            else:
                _by_engine(DUCKDB, lake, folder, full=run != "duckdb_incremental")
    else:
        events = events_to_read(lake.place) if run == "incremental" else events_in(lake.place)
        with batch_session(events=events) as spark, usage() as used:
            if run == "spark_sql":
                _plain_spark(spark, lake, folder / run)
            else:
                _by_engine(SparkEngine(spark), lake, folder, full=run != "incremental")
    figures = {"s": round(used.seconds, 1), "cpu_s": round(used.cpu_s, 1), "peak_mb": round(used.peak_mb)}
    print(json.dumps({f"{run}_{name}": value for name, value in figures.items()}))


def _by_engine(engine: TableEngine, lake: Lake, folder: Path, *, full: bool) -> None:
    store = Store(f"sqlite:///{folder / 'index.db'}")
    begun = time.monotonic()
    write_tables(store.engine, lake, engine, lambda text: _say(begun, text), full=full)
    store.close()


def _say(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:.1f} s: {text}", file=sys.stderr)


def _duckdb_alone(lake: Lake, target: Path) -> None:
    """The same texts as a user would run them, with memory enough for what they hold."""
    target.mkdir()
    with duckdb.connect() as connection:
        most = int(psutil.virtual_memory().total * _SHARE_OF_MEMORY) >> 20
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{most}MB'")
        connection.execute("set temp_directory = $folder", {"folder": f"{target}/overflow"})
        connection.read_parquet(lake.files(), union_by_name=True).create_view("events")
        for name, schema in SCHEMAS.items():
            connection.register("before", schema.empty_table())
            connection.register(f"removed_{name}", schema.empty_table())
            text = lake_tables.text_of(name, connection, Noted())
            path = f"{target}/{name}.parquet"
            connection.execute(f"copy ({text}) to '{path}' (format parquet, compression zstd)")
            connection.read_parquet(path).create_view(name)


def _plain_spark(spark: SparkSession, lake: Lake, target: Path) -> None:
    """Spark SQL as a user would write it: each event ranked by a window, as in the text that every engine has."""
    events = spark.read.schema(spark_schema(schemas.EVENTS)).parquet(*lake.files())
    pipeline = Pipeline(events, Noted())
    bits = {name: text for name, text in FOR_SPARK.items() if name in WITH_BIT_OR}
    texts = {
        "messages": query("lifecycle", events="{events}", **bits),
        "receipts": query("receipts", events="{events}"),
    }
    for name in SCHEMAS:
        frame = spark.sql(texts[name], events=events) if name in texts else getattr(pipeline, name)
        frame.to(spark_schema(SCHEMAS[name])).write.option("compression", "zstd").parquet(f"{target}/{name}")
        setattr(pipeline, name, spark.read.parquet(f"{target}/{name}"))


if __name__ == "__main__":
    main()
