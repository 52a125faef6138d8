"""Implements `waybill report` and `waybill index divergences --history`: DuckDB reads the tables that Spark has computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from bridge.protocol.indexed import DivergenceRecord
from indexer.model.divergences import divergence_record, in_order
from indexer.model.errors import QueryError
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.reading import AsOf, as_of, opened, rows_of

Row = Mapping[str, Any]

_TABLES: Final = {
    "messages": "silver.messages",
    "receipts": "silver.receipts",
    "duplicates": "gold.duplicates",
    "lanes": "gold.lanes",
    "latencies": "gold.latencies",
    "redundancy": "gold.redundancy",
    "costs": "gold.costs",
}
"""The tables that the report reads, by the names that its queries use."""

_TOTALS: Final = """
select count(*) as messages,
  count(*) filter (executions > 0) as executed,
  count(*) filter (executions > 1) as executed_twice,
  cast(coalesce(sum(attempts), 0) as bigint) as retries_sent,
  count(*) filter (executions > 0 and attempts > 0) as retries_executed,
  count(*) filter (executions > 0 and failures > 0) as execution_failures_recovered,
  cast(coalesce(sum(duplicates), 0) as bigint) as duplicates_absorbed,
  (select cast(coalesce(sum(late_receipts), 0) as bigint) from lanes) as late_receipts
from messages where source_block is not null
"""

_BY_STATUS: Final = """
select status, count(*) as messages from messages where source_block is not null group by status order by status
"""

_BY_GMP: Final = """
select gmp, cast(sum(dispatches) as bigint) as dispatched, count(received_block) as received,
  cast(sum(duplicates) as bigint) as duplicates
from receipts group by gmp order by gmp
"""

_DUPLICATES: Final = """
select d.gmp, m.source_chain, m.destination_chain, cast(make_timestamp(d.block_time * 1000000) as date) as day,
  count(*) as duplicates
from duplicates d join messages m on m.message_id = d.message_id
group by all order by all
"""

_LATENCIES: Final = """
select * from latencies order by source_chain, destination_chain,
  list_position(['attested', 'delivered', 'quorum', 'executed'], stage)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Totals of all final messages.

    Attributes:
        tables: the time of the last refresh.
        totals: counts of all messages whose creation is known.
        by_status: number of messages by state, according to their own events. States that depend on time, such
            as STALLED, are not included.
        gmps: dispatches, receipts and repeated deliveries, by GMP.
        latencies: rows of gold.latencies, by lane and in the order of the stages.
        redundancy: rows of gold.redundancy, by GMP.
        costs: rows of gold.costs, by lane and GMP.
        duplicates: repeated deliveries by GMP, lane and day (UTC).
        divergences: rows of gold.divergences, with their meaning.
    """

    tables: AsOf
    totals: Row
    by_status: Mapping[str, int]
    gmps: Sequence[Row]
    latencies: Sequence[Row]
    redundancy: Sequence[Row]
    costs: Sequence[Row]
    duplicates: Sequence[Row]
    divergences: Sequence[DivergenceRecord]


def time_of_tables(lake: StorageLocation) -> AsOf:
    """Returns the time of the last refresh.

    Raises:
        QueryError: the tables have never been refreshed.
    """
    tables = as_of(lake)
    if tables is None:
        raise QueryError("the lake's tables have never been refreshed; run `waybill index refresh`")
    return tables


def divergences_of_history(lake: StorageLocation) -> list[DivergenceRecord]:
    """Reads gold.divergences, which covers all final messages, including those that the store has pruned.

    Raises:
        LakeDamagedError: a file of the table is missing.
        LakeUnreachableError: the bucket denies access, or does not respond.
    """
    return in_order(map(divergence_record, rows_of(lake, "gold.divergences").to_pylist()))


def read_report(lake: StorageLocation) -> Report:
    """Reads the report from the tables of a lake.

    Raises:
        QueryError: the tables were never refreshed.
        LakeDamagedError: a file of a table is missing.
        LakeUnreachableError: the bucket denies access, or does not respond.
    """
    tables = time_of_tables(lake)
    with opened(lake, _TABLES) as connection:
        (totals,) = _rows(connection, _TOTALS)
        return Report(
            tables=tables,
            totals=totals,
            by_status={row["status"]: row["messages"] for row in _rows(connection, _BY_STATUS)},
            gmps=_rows(connection, _BY_GMP),
            latencies=_rows(connection, _LATENCIES),
            redundancy=_rows(connection, "select * from redundancy order by gmp"),
            costs=_rows(connection, "select * from costs order by source_chain, destination_chain, gmp"),
            duplicates=_rows(connection, _DUPLICATES),
            divergences=divergences_of_history(lake),
        )


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    rows: list[Row] = connection.sql(query).to_arrow_table().to_pylist()
    return rows
