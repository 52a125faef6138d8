"""Tables made of the whole lake by DuckDB, a bucket of its messages at a time: in one process, or in Spark's tasks."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset
from pyspark.sql import SparkSession

from indexer import schemas
from indexer.place import Place
from indexer.sinks.compaction import BUCKETS, bucket_of_file, prefix
from indexer.sinks.files import explained, files_of, new_file
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


TABLES: Final = {"messages": ("lifecycle", schemas.MESSAGES), "receipts": ("receipts", schemas.RECEIPTS)}
"""What can be made of the lake's events, one row per message, or per message and GMP: the query, and its columns."""

_FILES: Final = "read_parquet($files, union_by_name = true)"
_EVENTS: Final = (
    "lake_events"  # what a bucket's files are registered as: DuckDB's own S3 reader is no part of its wheel
)


def lifecycle_of(files: Sequence[str], bucket: int | None = None, folder: Place | None = None) -> pa.Table:
    """The messages of the lake's files, as `schemas.MESSAGES`; see `made_of`."""
    return made_of("messages", files, bucket, folder)


def made_of(name: str, files: Sequence[str], bucket: int | None = None, folder: Place | None = None) -> pa.Table:
    """One of `TABLES`, made of the lake's files by the same text as everywhere.

    Args:
        name: of the table.
        files: Parquet, of the lake's pinned version.
        bucket: only messages of this bucket; of all if not given. Files of all buckets may be among `files`.
        folder: where the files are; it has to be given if that is an S3 bucket.
    """
    with _connected(files, folder) as (connection, source, parameters):
        connection.execute("set threads = 1" if bucket is not None else "set preserve_insertion_order = false")
        found = connection.sql(table_text(name, files, bucket, source), params=parameters).to_arrow_table()
    return found.cast(TABLES[name][1])


def table_text(name: str, files: Sequence[str], bucket: int | None = None, source: str = _FILES) -> str:
    """The query of one of `TABLES`.

    Args:
        name: of the table.
        files: what `source` reads.
        bucket: only messages of this bucket; of all if not given.
        source: the events, by default those of the parameter `files`.
    """
    text, schema = TABLES[name]
    chosen = f"select * from {source}"  # noqa: S608  our own texts
    if bucket is not None and any(bucket_of_file(path) != bucket for path in files):
        low, high = (f"'\\x{edge * 256 // BUCKETS:02X}'::blob" for edge in (bucket, bucket + 1))
        upper = f"and message_id < {high}" if bucket + 1 < BUCKETS else ""
        chosen += f" where message_id >= {low} {upper}"
    columns = ", ".join(f"cast({field.name} as {_TYPES[field.type]}) as {field.name}" for field in schema)
    return f"select {columns} from ({query(text, events=f'({chosen})', **WITH_BIT_OR)})"  # noqa: S608  the same


def write_table(
    name: str, files: Sequence[str], folder: Place, target: Place, spark: SparkSession | None = None
) -> list[dict[str, Any]]:
    """Writes one of `TABLES` to new files: by Spark's tasks one per bucket of messages, else one.

    Args:
        name: of the table.
        files: Parquet, of the lake's pinned version.
        folder: where those are.
        target: where to write. Folders must be there, and Spark's tasks reach both.
        spark: whose tasks do it; None is this process alone.

    Returns:
        Of each file what `indexer.sinks.parquet.write_files` says, and its `rows`; in the order of message ids.
    """
    if spark is None:
        return [_write(name, None, list(files), folder, target)] if files else []
    of_bucket = {
        bucket: [path for path in files if bucket_of_file(path) in (bucket, None)] for bucket in range(BUCKETS)
    }
    tasks = [(bucket, paths) for bucket, paths in of_bucket.items() if paths]
    distributed = spark.sparkContext.parallelize(tasks, max(1, len(tasks)))
    return distributed.map(lambda task: _write(name, *task, folder, target)).collect()


def _write(name: str, bucket: int | None, files: list[str], folder: Place, target: Place) -> dict[str, Any]:
    file = f"{'part-' if bucket is None else prefix(bucket)}{uuid.uuid4().hex}.parquet"
    with (
        tempfile.TemporaryDirectory(prefix="overflow-", dir=None if target.is_bucket else target.root) as overflow,
        _connected(files, folder) as (connection, source, parameters),
    ):
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{_MEMORY}'")
        if bucket is not None:
            connection.execute("set threads = 1")
        connection.execute("set temp_directory = $folder", {"folder": overflow})
        text = table_text(name, files, bucket, source)
        if target.is_bucket:
            rows, size = _copy(connection.sql(text, params=parameters), TABLES[name][1], target, file)
        else:
            path = Path(target.root) / file
            copied = f"copy ({text}) to '{path}' (format parquet, compression zstd)"
            rows, size = connection.execute(copied, parameters).fetchall()[0][0], path.stat().st_size
    return {"path": file, "size": size, "rows": rows, "stats": json.dumps({"numRecords": rows})}


def _copy(found: duckdb.DuckDBPyRelation, schema: pa.Schema, target: Place, file: str) -> tuple[int, int]:
    rows = 0
    with new_file(target, file) as stream:
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for batch in found.to_arrow_reader():
                rows += batch.num_rows
                writer.write_batch(batch.cast(schema))
        return rows, stream.tell()


@contextmanager
def _connected(
    files: Sequence[str], folder: Place | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, dict[str, Any]]]:
    """A connection, what it calls the files' events, and the parameters that this takes."""
    with duckdb.connect() as connection:
        if folder is None or not folder.is_bucket:
            _check_there(files, folder)
            yield connection, _FILES, {"files": list(files)}
            return
        names = [PurePosixPath(path).name for path in files]
        with explained(folder):
            events = dataset(names, schema=schemas.EVENTS, format="parquet", filesystem=files_of(folder))
            connection.register(_EVENTS, events)
            yield connection, _EVENTS, {}


def _check_there(files: Sequence[str], folder: Place | None) -> None:
    """DuckDB's own error names neither the lake nor what to do."""
    if folder is not None:
        with explained(folder):
            for path in files:
                if not Path(path.removeprefix("file://")).exists():
                    raise FileNotFoundError(path)
