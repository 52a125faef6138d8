"""(c) All tables of a large history: Spark's pipeline, DuckDB alone, plain Spark SQL; and what a tenth more costs."""

from __future__ import annotations

import json
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
from bench.index.lifecycles import memory
from indexer.jobs.tables import write_tables
from indexer.lake import lake_tables
from indexer.lake.lake import Lake
from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.model.tables import SCHEMAS, Noted
from indexer.spark.session import batch_session
from indexer.spark.tables import SparkEngine
from indexer.store.store import Store
from indexer.transforms.pipeline import Pipeline
from indexer.transforms.queries import FOR_SPARK, WITH_BIT_OR, query

_LATE: Final = 1_000  # messages of the lake that something more happens to
_SHARE_OF_MEMORY: Final = 0.6  # of the machine, for DuckDB


def gold(folder: Path, messages: int) -> dict[str, Any]:
    """Seconds and megabytes for the tables of that many messages, each engine in a process of its own.

    Args:
        folder: for the lake and the tables.
        messages: how many.
    """
    lake = fill_lake(folder / "lake", messages)
    figures: dict[str, Any] = {}
    for engine in ("duckdb", "spark_sql", "gold"):
        figures |= _apart(engine, folder)
    ids = pq.ParquetFile(lake.files()[0]).read_row_group(0, ["message_id"])["message_id"].unique()[:_LATE]
    late = np.frombuffer(b"".join(ids.to_pylist()), np.uint8).reshape(-1, 32)
    first = -(-messages // MESSAGES_OF_A_BLOCK) * MESSAGES_OF_A_BLOCK
    fill_lake(folder / "lake", first + messages // 10, first, late)
    figures |= _apart("incremental", folder) | _apart("full", folder)
    figures["incremental_fraction"] = round(figures["incremental_s"] / figures["full_s"], 3)
    size = f"{messages // 1_000_000}m" if messages >= 1_000_000 else str(messages)
    names = {"gold_s": f"gold_{size}_s", "duckdb_s": f"duckdb_{size}_s", "spark_sql_s": f"spark_sql_{size}_s"}
    return {names.get(name, name): value for name, value in figures.items()}


def _apart(engine: str, folder: Path) -> dict[str, Any]:
    told = [sys.executable, "-m", "bench.index.gold", engine, str(folder)]
    said = subprocess.run(told, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    print(said[-1], flush=True)
    found: dict[str, Any] = json.loads(said[-1])
    return found


def main() -> None:
    """Runs one engine on a lake that is there, and prints its figures as JSON."""
    engine, folder = sys.argv[1], Path(sys.argv[2])
    lake, peaks = Lake(folder / "lake"), [0.0]
    with memory(peaks):
        if engine == "duckdb":
            seconds = _duckdb_alone(lake, folder / engine)
            figures = {"duckdb_s": seconds}
        else:
            with batch_session() as spark:
                figures = _by_spark(engine, spark, lake, folder)
    print(json.dumps({**figures, f"{engine}_peak_mb": round(max(peaks))}))


def _by_spark(engine: str, spark: SparkSession, lake: Lake, folder: Path) -> dict[str, float]:
    if engine == "spark_sql":
        return {"spark_sql_s": _plain_spark(spark, lake, folder / engine)}
    store = Store(f"sqlite:///{folder / 'index.db'}")
    by = SparkEngine(spark)
    begun = time.monotonic()
    write_tables(store.engine, lake, by, lambda text: _say(begun, text), full=engine == "full")
    store.close()
    return {f"{engine}_s": round(time.monotonic() - begun, 1)}


def _say(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:.1f} s: {text}", file=sys.stderr)


def _duckdb_alone(lake: Lake, target: Path) -> float:
    """The same texts as a user would run them, with memory enough for what they hold."""
    target.mkdir()
    begun = time.monotonic()
    with duckdb.connect() as connection:
        most = int(psutil.virtual_memory().total * _SHARE_OF_MEMORY) >> 20
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{most}MB'")
        connection.execute("set temp_directory = $folder", {"folder": f"{target}/overflow"})
        connection.read_parquet(lake.files(), union_by_name=True).create_view("events")
        for name in SCHEMAS:
            text = lake_tables.text_of(name, connection, Noted())
            path = f"{target}/{name}.parquet"
            connection.execute(f"copy ({text}) to '{path}' (format parquet, compression zstd)")
            connection.read_parquet(path).create_view(name)
    return round(time.monotonic() - begun, 1)


def _plain_spark(spark: SparkSession, lake: Lake, target: Path) -> float:
    """Spark SQL as a user would write it: each event ranked by a window, as in the text that every engine has."""
    begun = time.monotonic()
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
    return round(time.monotonic() - begun, 1)


if __name__ == "__main__":
    main()
