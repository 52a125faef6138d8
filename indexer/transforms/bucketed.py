"""Lifecycles of the whole lake by DuckDB, a bucket of its messages at a time: in one process, or in Spark's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from pyspark.sql import SparkSession

from indexer import schemas
from indexer.sinks.compaction import BUCKETS, bucket_of_file
from indexer.transforms.queries import WITH_BIT_OR, query

_TYPES: Final = {
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.bool_(): "boolean",
    pa.string(): "varchar",
    pa.binary(): "blob",
    schemas.UINT64: "decimal(20, 0)",
}
_MEMORY: Final = "1GB"  # for one task; what does not fit goes to disk


def lifecycle_of(files: Sequence[str], bucket: int | None = None) -> pa.Table:
    """The messages of the lake's files, as `schemas.MESSAGES`, by the same text as everywhere.

    Args:
        files: Parquet, of the lake's pinned version.
        bucket: only messages of this bucket; of all if not given. Files of all buckets may be among `files`.
    """
    with duckdb.connect() as connection:
        connection.execute("set threads = 1" if bucket is not None else "set preserve_insertion_order = false")
        found = connection.sql(lifecycle_text(files, bucket), params={"files": list(files)}).to_arrow_table()
    return found.cast(schemas.MESSAGES)


def lifecycle_text(files: Sequence[str], bucket: int | None = None) -> str:
    """The query of `lifecycle_of`, with the parameter `files`."""
    chosen = "select * from read_parquet($files, union_by_name = true)"
    if bucket is not None and any(bucket_of_file(path) != bucket for path in files):
        low, high = (f"'\\x{edge * 256 // BUCKETS:02X}'::blob" for edge in (bucket, bucket + 1))
        upper = f"and message_id < {high}" if bucket + 1 < BUCKETS else ""
        chosen += f" where message_id >= {low} {upper}"
    columns = ", ".join(f"cast({field.name} as {_TYPES[field.type]}) as {field.name}" for field in schemas.MESSAGES)
    text = query("lifecycle", events=f"({chosen})", **WITH_BIT_OR)
    return f"select {columns} from ({text})"  # noqa: S608  our own texts


def write_lifecycles(spark: SparkSession, files: Sequence[str], folder: Path) -> list[str]:
    """Writes the messages of the lake's files, as `schemas.MESSAGES`, one Parquet file per bucket and task.

    Args:
        spark: whose tasks do it.
        files: Parquet, of the lake's pinned version; the tasks must be able to read them.
        folder: where to write, which the tasks must be able to do; a file that is there is written again.

    Returns:
        The files written, in the order of message ids.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of_bucket = {
        bucket: [path for path in files if bucket_of_file(path) in (bucket, None)] for bucket in range(BUCKETS)
    }
    tasks = [(bucket, paths) for bucket, paths in of_bucket.items() if paths]
    return spark.sparkContext.parallelize(tasks, max(1, len(tasks))).map(lambda task: _write(*task, folder)).collect()


def _write(bucket: int, files: list[str], folder: Path) -> str:
    target = folder / f"bucket-{bucket:02d}.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"set threads = 1; set preserve_insertion_order = false; set memory_limit = '{_MEMORY}'")
        connection.execute("set temp_directory = $folder", {"folder": str(folder / f"overflow-{bucket:02d}")})
        connection.execute(
            f"copy ({lifecycle_text(files, bucket)}) to '{target}' (format parquet, compression zstd)", {"files": files}
        )
    return str(target)
