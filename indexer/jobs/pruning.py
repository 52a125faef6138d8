"""What the store has pruned, in figures: from the lake's tables, less the messages that the store still has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import pyarrow as pa

from bridge.protocol.status import Status
from indexer.lake.reading import opened
from indexer.model.storage_location import StorageLocation
from indexer.store.analytics import Lane
from indexer.store.reader import IndexReader, day_of

TABLES: Final = {"messages": "silver.messages", "receipts": "silver.receipts", "duplicates": "gold.duplicates"}
"""Of the lake, from which the figures come, by the names that the queries use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Figures of messages that the store no longer has; by default there are none. See `IndexReader` for what each counts.

    Attributes:
        missing: messages that are in none of the figures, because the lake's tables were not refreshed since.
    """

    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    by_status: Mapping[Status, int] = field(default_factory=dict[Status, int])
    late_receipts: int = 0
    per_gmp: Mapping[int, Mapping[str, int]] = field(default_factory=dict[int, Mapping[str, int]])
    latencies: tuple[int, ...] = ()
    duplicates_by_day: Mapping[tuple[int, Lane, str], int] = field(default_factory=dict[tuple[int, Lane, str], int])
    missing: int = 0


NOTHING: Final = Pruned()


def pruned(reader: IndexReader, lake: StorageLocation) -> Pruned:
    """Adds up what the store has pruned.

    Args:
        reader: of the store.
        lake: whose tables have them.

    Raises:
        LakeUnreachableError: the lake's bucket refuses, or does not answer.
    """
    gone = reader.pruned()
    if not gone:
        return NOTHING
    with opened(lake, TABLES) as connection:
        connection.register("kept", pa.table({"message_id": pa.array(reader.ids(), pa.binary())}))
        connection.execute(
            "create temp table gone as select * from messages m "
            "where m.source_block is not null and m.message_id not in (select message_id from kept)"
        )
        return _added_up(connection, gone)


_TOTALS: Final = """
select count(*) as messages, count(*) filter (executions > 0) as executed,
  count(*) filter (executions > 1) as executed_twice,
  cast(coalesce(sum(attempts), 0) as bigint) as retries_sent,
  count(*) filter (executions > 0 and attempts > 0) as retries_executed,
  cast(coalesce(sum(duplicates), 0) as bigint) as duplicates,
  count(*) filter (executions > 0 and failures > 0) as recovered
from gone
"""


def _added_up(connection: duckdb.DuckDBPyConnection, gone: int) -> Pruned:
    (totals,) = _rows(connection, _TOTALS)
    (late,) = _rows(
        connection,
        """
        select count(*) as number from receipts r join gone m on m.message_id = r.message_id
        where m.executions > 0
          and (r.received_block > m.executed_block
               or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index))
        """,
    )
    per_gmp = _rows(
        connection,
        """
        select r.gmp, cast(sum(dispatches) as bigint) as dispatched,
          cast(sum(dispatch_failures) as bigint) as dispatch_failures,
          count(received_block) as received, cast(sum(r.duplicates) as bigint) as duplicates
        from receipts r join gone m on m.message_id = r.message_id group by r.gmp
        """,
    )
    days = _rows(
        connection,
        """
        select d.gmp, m.source_chain, m.destination_chain, d.block_time // 86400 as day, count(*) as number
        from duplicates d join gone m on m.message_id = d.message_id group by all
        """,
    )
    statuses = _rows(connection, "select status, count(*) as number from gone group by status")
    seconds = _rows(
        connection, "select executed_time - source_time as seconds from gone where executions > 0 order by 1"
    )
    return Pruned(
        totals=totals,
        by_status={Status(row["status"]): row["number"] for row in statuses},
        late_receipts=late["number"],
        per_gmp={row["gmp"]: row for row in per_gmp},
        latencies=tuple(row["seconds"] for row in seconds if row["seconds"] is not None),
        duplicates_by_day={
            (row["gmp"], (row["source_chain"], row["destination_chain"]), day_of(row["day"])): row["number"]
            for row in days
        },
        missing=max(0, gone - totals["messages"]),
    )


def _rows(connection: duckdb.DuckDBPyConnection, text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = connection.sql(text).to_arrow_table().to_pylist()
    return rows
