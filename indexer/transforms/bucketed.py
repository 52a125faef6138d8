"""Lifecycles of the whole lake, or of one bucket of its messages, by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from indexer import schemas
from indexer.sinks.compaction import BUCKETS, bucket_of_file
from indexer.transforms.queries import query


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
