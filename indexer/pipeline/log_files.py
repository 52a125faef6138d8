"""Parquet files of `bronze.logs`, which Spark's tasks write and the driver adds to the table in one commit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from indexer.model import schemas
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.files import explained, files_of

FILES: Final = pa.schema(
    {
        "path": pa.string(),  # relative to the table's folder
        "size": pa.int64(),  # bytes
        "logs": pa.int64(),
        "chain_id": pa.int64(),
        "first_block": pa.int64(),  # with a log
        "last_block": pa.int64(),  # with a log
        "adapters": pa.binary(),  # known to the reader, 20 bytes each
    }
)


def write(folder: StorageLocation, logs: Sequence[pa.Table], adapters: Collection[bytes]) -> pa.Table:
    """Writes logs of one chain to a file.

    Args:
        folder: location of `bronze.logs`.
        logs: tables with the schema `schemas.LOGS`.
        adapters: the chain's adapters that are known after reading these logs.

    Returns:
        A table with the schema `FILES`. It has one row, or none if there are no logs.
    """
    rows = pa.concat_tables([schemas.LOGS.empty_table(), *logs])
    if not len(rows):
        return FILES.empty_table()
    path = f"part-{uuid.uuid4()}.parquet"
    with explained(folder):
        files = files_of(folder)
        pq.write_table(rows, path, filesystem=files)
        size = files.get_file_info(path).size
    blocks = pc.min_max(rows["block_number"]).as_py()
    file = {
        "path": path,
        "size": size,
        "logs": len(rows),
        "chain_id": rows["chain_id"][0].as_py(),
        "first_block": blocks["min"],
        "last_block": blocks["max"],
        "adapters": b"".join(sorted(adapters)),
    }
    return pa.Table.from_pylist([file], schema=FILES)


def adapters_in(files: pa.Table) -> set[bytes]:
    """Returns the adapters (20 bytes each) that were known after reading the logs of these files."""
    known = b"".join(files["adapters"].to_pylist())
    return {known[start : start + 20] for start in range(0, len(known), 20)}


def actions(files: pa.Table) -> list[AddAction | RemoveAction]:
    """Returns the actions that add files to the table, with statistics of the columns by which readers choose files."""
    now = int(time.time() * 1000)
    return [
        AddAction(file["path"], file["size"], {}, now, data_change=True, stats=_statistics(file))
        for file in files.to_pylist()
    ]


def _statistics(file: dict[str, int]) -> str:
    return json.dumps(
        {
            "numRecords": file["logs"],
            "minValues": {"chain_id": file["chain_id"], "block_number": file["first_block"]},
            "maxValues": {"chain_id": file["chain_id"], "block_number": file["last_block"]},
            "nullCount": {"chain_id": 0, "block_number": 0},
        }
    )


def delete(folder: StorageLocation, files: pa.Table) -> None:
    """Deletes files that were not added to the table."""
    with explained(folder):
        for path in files["path"].to_pylist():
            files_of(folder).delete_file(path)
