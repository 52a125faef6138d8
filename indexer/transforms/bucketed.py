"""Tables made of the whole lake by DuckDB, a bucket of its messages at a time: in one process, or in Spark's tasks."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
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
    pa.date32(): "date",
    schemas.UINT64: "decimal(20, 0)",
}
_MEMORY: Final = "1GB"  # for one task; what does not fit goes to disk


TABLES: Final = {
    "messages": ("lifecycle", schemas.MESSAGES),
    "receipts": ("receipts", schemas.RECEIPTS),
    "attempts": ("attempts", schemas.ATTEMPTS),
    "duplicates": ("duplicates", schemas.DUPLICATES),
}
"""What can be made of the lake's events a message at a time: the query, and its columns."""

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
    return typed(query(text, events=f"({chosen})", **WITH_BIT_OR), schema)


def typed(text: str, schema: pa.Schema) -> str:
    """A query of DuckDB with its columns in the types of a schema."""
    columns = ", ".join(f"cast({field.name} as {_TYPES[field.type]}) as {field.name}" for field in schema)
    return f"select {columns} from ({text})"  # noqa: S608  our own texts


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
    start = "part-" if bucket is None else prefix(bucket)
    with _connected(files, folder) as (connection, source, parameters):
        if bucket is not None:
            connection.execute("set threads = 1")
        text = table_text(name, files, bucket, source)
        return write_rows(connection, text, TABLES[name][1], target, start=start, parameters=parameters)


def write_rows(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    schema: pa.Schema,
    target: Place,
    *,
    start: str = "part-",
    parameters: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes what a query finds to one new file, within `_MEMORY`.

    Args:
        connection: on which to run it.
        text: the query, its columns as `typed` makes them.
        schema: of its columns.
        target: where to write.
        start: how the file's name begins.
        parameters: of the query.

    Returns:
        What `indexer.sinks.parquet.write_files` says of the file, and its `rows`.
    """
    file = f"{start}{uuid.uuid4().hex}.parquet"
    told = dict(parameters or {})
    with tempfile.TemporaryDirectory(prefix="overflow-", dir=None if target.is_bucket else target.root) as overflow:
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{_MEMORY}'")
        connection.execute("set temp_directory = $folder", {"folder": overflow})
        if target.is_bucket:
            rows, size = _copy(connection.sql(text, params=told), schema, target, file)
        else:
            path = Path(target.root) / file
            copied = f"copy ({text}) to '{path}' (format parquet, compression zstd)"
            rows, size = connection.execute(copied, told).fetchall()[0][0], path.stat().st_size
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
            check_there(files, folder)
            yield connection, _FILES, {"files": list(files)}
            return
        names = [PurePosixPath(path).name for path in files]
        with explained(folder):
            events = dataset(names, schema=schemas.EVENTS, format="parquet", filesystem=files_of(folder))
            connection.register(_EVENTS, events)
            yield connection, _EVENTS, {}


def check_there(files: Sequence[str], folder: Place | None) -> None:
    """DuckDB's own error names neither the lake nor what to do."""
    if folder is not None:
        with explained(folder):
            for path in files:
                if not Path(path.removeprefix("file://")).exists():
                    raise FileNotFoundError(path)
