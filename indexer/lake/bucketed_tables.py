"""Tables made of the whole lake by DuckDB, a bucket of its messages at a time."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.dataset import dataset

from indexer.lake.compaction import BUCKETS, bucket_of_file, prefix, slices_of
from indexer.lake.files import check_there, explained, files_of, manifest_of, new_file
from indexer.model import schemas
from indexer.model.storage_location import StorageLocation
from indexer.transforms.queries import WITH_BIT_OR, query

_TYPES: Final = {
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.bool_(): "boolean",
    pa.string(): "varchar",
    pa.binary(): "blob",
    pa.date32(): "date",
    pa.float64(): "double",
    schemas.UINT64: "decimal(20, 0)",
}
_MEMORY: Final = "1GB"  # what does not fit goes to disk
_EVENTS_IN_A_SLICE: Final = 250_000
"""So many fit into that memory, and into the processor's caches better than more do (docs/decisions/0028)."""

Ids = tuple[bytes, bytes | None]
"""Message ids from the one up to before the other, of which only the first bytes may be given; None ends after all."""

ALL_IDS: Final[Ids] = (b"", None)

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


def table_text(name: str, ids: Ids = ALL_IDS, source: str = _FILES) -> str:
    """The query of one of `TABLES`.

    Args:
        name: of the table.
        ids: only messages of these.
        source: the events, by default those of the parameter `files`.
    """
    text, schema = TABLES[name]
    low, high = ids
    edges = [f"message_id >= {_literal(low)}"] * bool(low) + [
        f"message_id < {_literal(high)}" for high in [high] if high
    ]
    chosen = f"select * from {source} where {' and '.join(edges) or 'true'}"
    return typed(query(text, events=f"({chosen})", **WITH_BIT_OR), schema)


def typed(text: str, schema: pa.Schema) -> str:
    """A query of DuckDB with its columns in the types of a schema."""
    columns = ", ".join(f"cast({field.name} as {_TYPES[field.type]}) as {field.name}" for field in schema)
    return f"select {columns} from ({text})"


def _literal(value: bytes) -> str:
    return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::blob"


def write_table(
    name: str, files: Sequence[str], folder: StorageLocation, target: StorageLocation
) -> list[dict[str, Any]]:
    """Writes one of `TABLES` to new files: one per bucket of messages, or a single one of a lake that is small or not compacted.

    Args:
        name: of the table.
        files: Parquet, of the lake's pinned version.
        folder: where those are.
        target: where to write; the folder must be there.

    Returns:
        Of each file what `indexer.lake.files.write_files` says, and its `rows`; in the order of message ids.
    """
    of_bucket = {
        bucket: [path for path in files if bucket_of_file(path) in (bucket, None)] for bucket in range(BUCKETS)
    }
    tasks: list[tuple[int | None, list[str]]] = [(bucket, paths) for bucket, paths in of_bucket.items() if paths]
    if tasks and _fits_in_one(files, folder):
        tasks = [(None, list(files))]
    return [_write(name, bucket, paths, folder, target) for bucket, paths in tasks]


def _write(
    name: str, bucket: int | None, files: list[str], folder: StorageLocation, target: StorageLocation
) -> dict[str, Any]:
    """Makes and writes one slice of ids after another, so that a bucket of any size takes the same memory."""
    start = "part-" if bucket is None else prefix(bucket)
    slices = [ALL_IDS] if bucket is None else slices_of(bucket, _slices(files, folder))
    with _connected(files, folder) as (connection, source, parameters):
        texts = [table_text(name, ids, source) for ids in slices]
        return write_rows(connection, texts, TABLES[name][1], target, start=start, parameters=parameters)


def write_rows(
    connection: duckdb.DuckDBPyConnection,
    texts: Sequence[str],
    schema: pa.Schema,
    target: StorageLocation,
    *,
    start: str = "part-",
    parameters: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Writes what queries find, one after the other, to one new file, within `_MEMORY`.

    Args:
        connection: on which to run them.
        texts: the queries, their columns as `typed` makes them.
        schema: of their columns.
        target: where to write.
        start: how the file's name begins.
        parameters: of each query.

    Returns:
        What `indexer.lake.files.write_files` says of the file, and its `rows`.
    """
    file, rows = f"{start}{uuid.uuid4().hex}.parquet", 0
    with (
        tempfile.TemporaryDirectory(prefix="overflow-", dir=None if target.is_bucket else target.root) as overflow,
        new_file(target, file) as stream,
    ):
        connection.execute(f"set preserve_insertion_order = false; set memory_limit = '{_MEMORY}'")
        connection.execute("set temp_directory = $folder", {"folder": overflow})
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for text in texts:
                for batch in connection.sql(text, params=dict(parameters or {})).to_arrow_reader():
                    rows += batch.num_rows
                    writer.write_batch(batch.cast(schema))
        size = stream.tell()
    return manifest_of(file, size, rows)


def _slices(files: Sequence[str], folder: StorageLocation) -> int:
    """In how many slices a bucket is worked on: in all at once where none can be skipped, and memory overflows to disk."""
    ordered, loose = _rows(files, folder)
    return 1 if loose > ordered else -(-(ordered + loose // BUCKETS) // _EVENTS_IN_A_SLICE)


def _fits_in_one(files: Sequence[str], folder: StorageLocation) -> bool:
    """Whether there are no more events than one slice has, or most are in files of all buckets, which each bucket would read."""
    ordered, loose = _rows(files, folder)
    return loose > ordered or ordered + loose <= _EVENTS_IN_A_SLICE


def _rows(files: Sequence[str], folder: StorageLocation) -> tuple[int, int]:
    """The rows in files of one bucket, and those in files of all of them."""
    counted = [0, 0]
    with explained(folder):
        for path in files:
            metadata = pq.read_metadata(PurePosixPath(path).name, filesystem=files_of(folder))
            counted[bucket_of_file(path) is None] += metadata.num_rows
    return counted[0], counted[1]


@contextmanager
def _connected(
    files: Sequence[str], folder: StorageLocation
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, dict[str, Any]]]:
    """A connection, what it calls the files' events, and the parameters that this takes."""
    with explained(folder), duckdb.connect() as connection:
        if not folder.is_bucket:
            check_there(files, folder)
            yield connection, _FILES, {"files": list(files)}
            return
        names = [PurePosixPath(path).name for path in files]
        events = dataset(names, schema=schemas.EVENTS, format="parquet", filesystem=files_of(folder))
        connection.register(_EVENTS, events)
        yield connection, _EVENTS, {}
