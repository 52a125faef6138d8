"""Parquet files of the lake, written by whoever has the rows: Spark's executors or the driver."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from indexer import schemas
from indexer.place import Place
from indexer.sinks.files import new_file

_ROWS_IN_A_FILE: Final = 1_000_000
_STATISTICS_OF: Final = ("chain_id", "block_number")
_REPETITIVE: Final = ("chain_id", "event", "source_chain", "destination_chain", "gmp", "gmps", "kind")


def write_files(
    folder: Place, batches: Iterable[pa.RecordBatch], prefix: str = "part-", rows_in_a_group: int = _ROWS_IN_A_FILE
) -> Iterator[dict[str, Any]]:
    """Writes rows to new files.

    Args:
        folder: of the Delta table.
        batches: `schemas.EVENTS`.
        prefix: how the files' names begin.
        rows_in_a_group: of which Parquet says the least and greatest values, so that readers can skip it.

    Yields:
        Per file, once its content lasts: `path` in the folder, `size` in bytes, and `stats`, Delta's statistics as
        JSON. No file counts until a commit names it.
    """
    rows: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        rows.append(batch)
        count += batch.num_rows
        if count >= _ROWS_IN_A_FILE:
            yield _write(folder, pa.Table.from_batches(rows, schemas.EVENTS), prefix, rows_in_a_group)
            rows, count = [], 0
    if rows:
        yield _write(folder, pa.Table.from_batches(rows, schemas.EVENTS), prefix, rows_in_a_group)


def _write(folder: Place, table: pa.Table, prefix: str, rows_in_a_group: int) -> dict[str, Any]:
    name = f"{prefix}{uuid.uuid4().hex}.parquet"
    with new_file(folder, name) as file:
        pq.write_table(
            table, file, compression="zstd", use_dictionary=list(_REPETITIVE), row_group_size=rows_in_a_group
        )
        size = file.tell()
    ranges = {column: pc.min_max(table[column]).as_py() for column in _STATISTICS_OF}
    stats = {
        "numRecords": table.num_rows,
        "minValues": {column: range_["min"] for column, range_ in ranges.items()},
        "maxValues": {column: range_["max"] for column, range_ in ranges.items()},
        "nullCount": dict.fromkeys(ranges, 0),
    }
    return {"path": name, "size": size, "stats": json.dumps(stats)}
