"""The tables of a lake, made by DuckDB alone with the index's decoder and SQL, for comparison with a full refresh."""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from indexer.decode.events import events_of_logs
from indexer.model import schemas
from indexer.pipeline.bronze import Lake
from indexer.pipeline.files import files_in
from indexer.pipeline.queries import query

_MEMORY: Final = "6GB"
_ROWS: Final = 50_000  # decoded at a time
_NO_TIMES: Final = "(select null::blob as message_id, 1 as gmp, 1 as attested_at limit 0)"
_TABLES: Final = {
    "messages": query("lifecycle", events="events"),
    "receipts": query("receipts", events="events"),
    "attempts": query("attempts", events="events"),
    "deliveries": query("deliveries", messages="messages", receipts="receipts"),
    "duplicates": query("duplicates", events="events"),
    "lanes": query("lanes", messages="messages", deliveries="deliveries"),
    "latencies": query("latencies", messages="messages", deliveries="deliveries", attested=_NO_TIMES, asked="false"),
    "redundancy": query("redundancy", deliveries="deliveries"),
}
"""In the order in which they are made. Divergences are left out, which is to DuckDB's advantage."""

_FUNCTIONS_OF_SPARK: Final = (
    "create macro shiftleft(value, bits) as value << bits",
    "create macro percentile(value, share) as quantile_cont(value, share)",
)


def duckdb_seconds(lake: Lake, folder: Path) -> float:
    """Decodes all logs of a lake into `folder`, and makes the tables there. Returns the seconds that it took."""
    folder.mkdir()
    started = time.monotonic()
    files = files_in(DeltaTable(lake.folder.root), lake.folder)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_decode, files, [f"{folder}/events-{number}.parquet" for number in range(len(files))]))
    with duckdb.connect(folder / "tables.duckdb") as connection:
        for setting in (
            f"memory_limit = '{_MEMORY}'",
            f"temp_directory = '{folder}'",
            "preserve_insertion_order = false",
        ):
            connection.execute(f"set {setting}")
        for function in _FUNCTIONS_OF_SPARK:
            connection.execute(function)
        connection.execute(f"create view events as from read_parquet('{folder}/events-*.parquet')")
        for name, text in _TABLES.items():
            connection.execute(f"copy ({text}) to '{folder}/{name}.parquet' (format parquet)")
            connection.execute(f"create view {name} as from read_parquet('{folder}/{name}.parquet')")
    return round(time.monotonic() - started, 1)


def _decode(logs: str, events: str) -> None:
    with pq.ParquetWriter(events, schemas.EVENTS) as writer:
        for batch in pq.ParquetFile(logs).iter_batches(_ROWS, columns=schemas.LOGS.names):
            writer.write_table(events_of_logs(pa.Table.from_batches([batch]).cast(schemas.LOGS)))
