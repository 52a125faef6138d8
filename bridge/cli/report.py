"""`waybill report`: totals, latencies, costs and divergences from the index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from bridge.cli import options
from bridge.cli.freshness import as_of_text, as_of_value, freshness
from bridge.cli.output import details, in_camel_case, rows_table
from bridge.cli.workspace import Workspace
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import gmp_label
from bridge.queries.lanes import gmp_name, lane_name
from bridge.queries.messages import divergence_value

if TYPE_CHECKING:
    from indexer.jobs.report import Report, Row

_TABLES: Final = {
    "gmps": (
        "What each GMP did",
        {"gmp": "GMP", "dispatched": "dispatched", "received": "received", "duplicates": "repeated"},
    ),
    "latencies": (
        "Latency, in seconds from the route",
        {"lane": "lane", "stage": "stage", "messages": "messages", "p50": "p50 s", "p95": "p95 s", "p99": "p99 s"},
    ),
    "redundancy": (
        "First and late deliveries",
        {
            "gmp": "GMP",
            "receipts": "receipts",
            "came_first": "first",
            "lead_p50": "lead p50 s",
            "late_receipts": "late",
            "latency_p50": "p50 s",
            "latency_p95": "p95 s",
        },
    ),
    "costs": (
        "What this machine's relayer paid for deliveries, in gwei of the destination's currency",
        {
            "lane": "lane",
            "gmp": "GMP",
            "messages": "messages",
            "gwei": "gwei",
            "gwei_p50": "p50",
            "gwei_p95": "p95",
            "late_gwei": "late",
        },
    ),
    "duplicates": (
        "Duplicates absorbed",
        {"gmp": "GMP", "lane": "lane", "day": "day", "duplicates": "duplicates"},
    ),
}
"""By field of the report, the title of its table and the columns that are shown."""


def report(*, max_behind: options.MaxBehind = None) -> None:
    """Print the index's totals.

    These are messages, retries, duplicates, divergences, latencies, costs, and the benefit of redundancy.

    Figures come from the lake's tables. They cover final blocks only, and are as old as the last refresh,
    except that retry requests are current. Exits with status 5 if the index is behind.

    Example: waybill report
    """
    from indexer.jobs.report import read_report

    workspace = Workspace.current()
    with workspace.index() as index:
        found = read_report(workspace.lake)
        fresh = freshness(workspace, index, max_behind)
        requested = sorted({f"0x{request.message_id.hex()}" for request in index.retry_requests()})
    totals = {
        **in_camel_case(found.totals),
        "byStatus": found.by_status,
        "retriesRequested": len(requested),
    }
    value = {
        **totals,
        **_rows(found),
        "retriesRequestedFor": requested,
        "divergences": [divergence_value(item) for item in found.divergences],
        "tables": as_of_value(found.tables),
    }
    summary = details({**totals, "divergences": len(found.divergences), "tables": as_of_text(found.tables)})
    lines = [
        f"DIVERGED {item.kind} {f'0x{item.message_id.hex()}' if item.message_id else ''} {item.evidence}"
        for item in found.divergences
    ]
    shown = [part for table in tables(found, workspace.deployment()) for part in ("", table)]
    fresh.answer(value, summary, *shown, *lines)


def _rows(found: Report) -> dict[str, Any]:
    """Returns the report's tables for JSON."""
    return {
        "perGmp": {
            gmp_label(row["gmp"]): {name: row[name] for name in ("dispatched", "received", "duplicates")}
            for row in found.gmps
        },
        "latencies": [in_camel_case(row) for row in found.latencies],
        "redundancy": [in_camel_case(row) for row in found.redundancy],
        "costs": [in_camel_case(row) for row in found.costs],
        "duplicates": [in_camel_case({**row, "day": row["day"].isoformat()}) for row in found.duplicates],
    }


def tables(found: Report, deployment: Deployment) -> Iterator[Table]:
    """Returns the report's non-empty tables, with the names of lanes and GMPs."""
    for field, (title, columns) in _TABLES.items():
        rows = [_with_names(row, deployment) for row in getattr(found, field)]
        if rows:
            yield rows_table(rows, columns, title)


def _with_names(row: Row, deployment: Deployment) -> dict[str, Any]:
    lane = lane_name(deployment, row.get("source_chain"), row.get("destination_chain"))
    return {**row, "lane": lane, "gmp": gmp_name(row.get("gmp"))}
