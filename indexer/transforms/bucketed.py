"""Lifecycles of the whole lake: Spark's tasks take a bucket of messages each, and DuckDB works within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from indexer import schemas
from indexer.sinks.compaction import BUCKETS, bucket_of_file
from indexer.spark_types import spark_schema
from indexer.transforms.queries import query

_FILES = "files array<string>, bucket int"


def lifecycle_of(files: Sequence[str], bucket: int | None = None) -> pa.Table:
    """The messages of the lake's files, as `schemas.MESSAGES`, by the same text as everywhere.

    Args:
        files: Parquet, of the lake's pinned version.
        bucket: only messages of this bucket; of all if not given. Files of all buckets may be among `files`.
    """
    chosen = "select * from read_parquet($files, union_by_name = true)"
    if bucket is not None and any(bucket_of_file(path) != bucket for path in files):
        low, high = (f"'\\x{edge * 256 // BUCKETS:02X}'::blob" for edge in (bucket, bucket + 1))
        upper = f"and message_id < {high}" if bucket + 1 < BUCKETS else ""
        chosen += f" where message_id >= {low} {upper}"
    with duckdb.connect() as connection:
        connection.execute("set threads = 1" if bucket is not None else "set preserve_insertion_order = false")
        found = connection.sql(query("lifecycle", events=f"({chosen})"), params={"files": list(files)}).to_arrow_table()
    return found.cast(schemas.MESSAGES)


def lifecycles(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """As `lifecycle_of`, for all files at once on all of Spark's executors, bucket by bucket."""
    loose = [path for path in files if bucket_of_file(path) is None]
    tasks = []
    for bucket in range(BUCKETS):
        chosen = [path for path in files if bucket_of_file(path) == bucket] + loose
        if chosen:
            tasks.append((chosen, bucket))
    if not tasks:
        return spark.createDataFrame([], spark_schema(schemas.MESSAGES))
    rows = spark.createDataFrame(tasks, _FILES).repartition(len(tasks), "bucket")
    return rows.mapInArrow(_buckets, spark_schema(schemas.MESSAGES))


def _buckets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from lifecycle_of(row["files"], row["bucket"]).combine_chunks().to_batches()
