"""Tables of the lake made of its other tables, of all messages at once: lane statistics and divergences. By DuckDB alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import duckdb
import pyarrow as pa
from pyarrow.dataset import dataset

from indexer.lake.bucketed_tables import check_there, typed, write_rows
from indexer.lake.files import explained, files_of
from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.model.storage_location import StorageLocation
from indexer.transforms.pauses import PAUSE_EVENTS, pauses
from indexer.transforms.queries import RULES, paused, query

TABLES: Final = {"lanes": schemas.LANES, "divergences": schemas.DIVERGENCES}
"""What is made of other tables, and its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A table that is read: its files of one version, where they are, and its columns."""

    files: Sequence[str]
    folder: StorageLocation
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What the lake does not know, but the store.

    Attributes:
        policy: when a message counts as silent.
        limits: `schemas.LIMITS`.
        divergences: `schemas.DIVERGENCES`, those that do not follow from messages and receipts.
    """

    policy: StallPolicy
    limits: pa.Table
    divergences: pa.Table


def write_whole(name: str, parts: Mapping[str, Part], noted: Noted, target: StorageLocation) -> list[dict[str, Any]]:
    """Writes one of `TABLES` to a new file.

    Args:
        name: of the table.
        parts: `events`, `messages` and `receipts`, made of the same version of the events.
        noted: what the store knows besides.
        target: where to write; the folder must be there.

    Returns:
        Of the file what `indexer.lake.bucketed_tables.write_rows` says; of an empty table too, so that it can be read like others.
    """
    with opened(parts) as connection:
        if name == "lanes":
            text = query("lanes", messages="messages", receipts="receipts")
        else:
            text = divergences(connection, noted)
        return [write_rows(connection, [typed(text, TABLES[name])], TABLES[name], target)]


@contextmanager
def opened(parts: Mapping[str, Part]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows each part by its name.

    Raises:
        LakeDamagedError: a file of a part is lost or can't be read, also while the block reads it.
        LakeUnreachableError: their bucket refuses, or does not answer.
    """
    with explained(*(part.folder for part in parts.values())), duckdb.connect() as connection:
        for name, part in parts.items():
            if not part.files:
                connection.register(name, part.schema.empty_table())
            elif part.folder.is_bucket:
                names = [PurePosixPath(path).name for path in part.files]
                of_bucket = dataset(names, schema=part.schema, format="parquet", filesystem=files_of(part.folder))
                connection.register(name, of_bucket)
            else:
                check_there(part.files, part.folder)
                connection.read_parquet(list(part.files), union_by_name=True).create_view(name)
        yield connection


def divergences(connection: duckdb.DuckDBPyConnection, noted: Noted) -> str:
    """The query for what contradicts, as `schemas.DIVERGENCES`; what it reads besides is made on the connection.

    A chain's time is that of its newest event in the lake, since no later block is known to be final: a message counts as
    silent later than in the store, never sooner.

    Args:
        connection: that has `events`, `messages` and `receipts`.
        noted: what the store knows besides.
    """
    connection.execute(
        "create temp table chains as select chain_id, max(block_time) as block_time, max(block_number) as final_block "
        "from events group by chain_id"
    )
    connection.execute(f"create temp table rules as select * from events where {RULES}")
    told = connection.sql(
        "select * from events where message_id is null and event in (select unnest($names)) order by block_number, log_index",
        params={"names": list(PAUSE_EVENTS)},
    ).to_arrow_table()
    connection.register("pauses", pa.Table.from_pylist(pauses(told.to_pylist()), schema=schemas.PAUSES))
    connection.register("stall_limits", noted.limits)
    connection.register("noted", noted.divergences)
    text = query(
        "divergences",
        messages="messages",
        fan_outs="messages",
        receipts="receipts",
        chains="chains",
        limits="stall_limits",
        rules="rules",
        periods=query("periods", rules="rules"),
        lane_paused=paused("lane", "m.attempted_time"),
        executed_paused=paused("clock", "m.sent_at", "m.executed_time"),
        expired_paused=paused("clock", "m.sent_at", "m.expired_time"),
        pruned="0",
        text="varchar",
    )
    for name, seconds in (("max_lag", noted.policy.max_lag), ("silence_after", noted.policy.silence_after)):
        text = text.replace(f":{name}", str(int(seconds)))
    return f"select * from ({text}) union all by name select * from noted"
