"""`waybill report`: what the index adds up to."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from bridge.cli import options
from bridge.cli.as_of import as_of_text, as_of_value
from bridge.cli.freshness import freshness
from bridge.cli.open_stores import open_index, open_relayer_store
from bridge.cli.output import escaped, facts, in_camel_case, progress, table
from bridge.cli.workspace import Workspace
from bridge.evm.actions import ActionReader
from bridge.protocol.errors import StoreError
from bridge.protocol.gmps import gmp_label
from bridge.protocol.indexed import DivergenceRecord
from bridge.protocol.ports import TransientError
from bridge.queries.actions import by_state, silent_chains
from bridge.queries.lanes import chain_name, gmp_name
from bridge.queries.messages import divergence_value
from bridge.service.connections import connected

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.store import Store
    from indexer.jobs.report import Report, Row

_T = TypeVar("_T")

_ACTIONS = 2_000
"""The newest atomic actions of each coordinator, which are counted."""


def report(*, max_behind: options.MaxBehind = None) -> None:
    """Print what the index adds up to: messages, retries, duplicates, divergences, latencies, costs, what redundancy brought.

    The figures are those of the lake's tables, as of their last refresh, and count final blocks. Divergences of the last 30 days
    and retry requests are those of now. Exits with status 5 if the index is behind.

    Example: waybill report
    """
    workspace = Workspace.current()
    with open_index(workspace) as index:
        from indexer.jobs.divergences import all_divergences
        from indexer.jobs.report import read_report

        found = read_report(workspace.lake)
        divergences, _ = all_divergences(index, workspace.lake)
        fresh = freshness(workspace, index, max_behind)
        requested = sorted({f"0x{request.message_id.hex()}" for request in index.retry_requests()})
    actions = actions_of(workspace)
    value = {
        **_value(found),
        "retriesRequested": len(requested),
        "retriesRequestedFor": requested,
        "divergences": [divergence_value(item) for item in divergences],
        "actions": None if actions is None else actions.by_state,
        "actionsMissingOf": [] if actions is None else actions.silent,
    }
    summary = report_facts(found, actions) | {
        "retries requested": str(len(requested)),
        "divergences": str(len(divergences)),
        "tables": as_of_text(found.tables),
    }
    chain = partial(chain_name, workspace.deployment())
    fresh.answer(value, render=lambda console: _draw(console, summary, sections(found, chain), divergences))


def _value(found: Report) -> dict[str, Any]:
    return {
        **in_camel_case(found.totals),
        "byStatus": found.by_status,
        "perGmp": {
            gmp_label(row["gmp"]): {name: row[name] for name in ("dispatched", "received", "duplicates")}
            for row in found.gmps
        },
        "latencies": [in_camel_case(row) for row in found.latencies],
        "redundancy": [in_camel_case(row) for row in found.redundancy],
        "costs": [in_camel_case(row) for row in found.costs],
        "duplicates": [in_camel_case({**row, "day": row["day"].isoformat()}) for row in found.duplicates],
        "tables": as_of_value(found.tables),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table of the report."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCounts:
    """How many atomic actions are in each state."""

    by_state: Mapping[str, int]
    silent: Sequence[str] = ()  # chains that gave no answer: the actions of their coordinators are not counted


def actions_of(workspace: Workspace) -> ActionCounts | None:
    """Counts atomic actions, as far as the coordinators' chains answer; None if none does, or no coordinator is named."""
    deployment, settings = workspace.deployment(), workspace.settings()
    coordinators = settings.actions.named(deployment)
    if not coordinators:
        return None

    async def read() -> ActionCounts:
        chain_ids = {one.chain for one in coordinators}
        async with connected(deployment, settings, chain_ids, eager=False) as chains:
            states = await ActionReader(deployment, chains, coordinators).states(_ACTIONS)
        return ActionCounts(by_state=by_state(states.given), silent=silent_chains(states, deployment))

    try:
        return asyncio.run(read())
    except TransientError as error:
        progress(f"atomic actions are not counted: {error}")
        return None


def report_facts(found: Report, actions: ActionCounts | None) -> dict[str, str]:
    """The report's single figures by their names."""
    totals = found.totals
    return {
        "messages": str(totals["messages"]),
        "by state": ", ".join(f"{count} {status}" for status, count in found.by_status.items()),
        "executed": str(totals["executed"]),
        "executed twice": str(totals["executed_twice"]),
        "retries sent / executed": f"{totals['retries_sent']} / {totals['retries_executed']}",
        "late receipts": str(totals["late_receipts"]),
        "duplicates absorbed": str(totals["duplicates_absorbed"]),
        "execution failed at first": str(totals["execution_failures_recovered"]),
        **({} if actions is None else {"atomic actions": _counted(actions)}),
    }


def _counted(actions: ActionCounts) -> str:
    counted = ", ".join(f"{count} {state}" for state, count in actions.by_state.items()) or "0"
    return f"{counted}; without {' and '.join(actions.silent)}, no answer" if actions.silent else counted


def sections(found: Report, chain: Callable[[int], str]) -> list[Section]:
    """The report's tables, in the order in which they are shown.

    Args:
        found: the report.
        chain: names chains.
    """

    def lane(row: Row) -> str:
        return f"{chain(row['source_chain'])} → {chain(row['destination_chain'])}"

    return [
        Section(
            title="What each GMP did",
            columns=["GMP", "dispatched", "received", "repeated"],
            rows=[[gmp_label(row["gmp"]), *_texts(row, "dispatched", "received", "duplicates")] for row in found.gmps],
        ),
        Section(
            title="Latency, in seconds from the route",
            columns=["lane", "stage", "messages", "p50 s", "p95 s", "p99 s"],
            rows=[
                [lane(row), *_texts(row, "stage", "messages"), *_texts(row, "p50", "p95", "p99", unknown="-")]
                for row in found.latencies
            ],
        ),
        Section(
            title="Who delivered first, and who late",
            columns=["GMP", "receipts", "first", "lead p50 s", "late", "share late", "p50 s", "p95 s"],
            rows=[
                [
                    gmp_name(row["gmp"]),
                    *_texts(row, "receipts", "came_first", "lead_p50", "late_receipts"),
                    f"{row['late_receipts'] / row['receipts']:.0%}",
                    *_texts(row, "latency_p50", "latency_p95"),
                ]
                for row in found.redundancy
            ],
        ),
        Section(
            title="What this machine's relayer paid for deliveries, in gwei of the destination's currency",
            columns=["lane", "GMP", "messages", "gwei", "p50", "p95", "of it late"],
            rows=[
                [
                    *(lane(row), gmp_name(row["gmp"])),
                    *_texts(row, "messages", "gwei", "gwei_p50", "gwei_p95", "late_gwei"),
                ]
                for row in found.costs
            ],
        ),
        Section(
            title="Duplicates absorbed",
            columns=["GMP", "lane", "day", "duplicates"],
            rows=[[gmp_name(row["gmp"]), lane(row), *_texts(row, "day", "duplicates")] for row in found.duplicates],
        ),
    ]


def _texts(row: Row, *names: str, unknown: str = "") -> list[str]:
    return [unknown if row[name] is None else str(row[name]) for name in names]


def _draw(
    console: Console,
    summary: Mapping[str, str],
    tables: Sequence[Section],
    divergences: Sequence[DivergenceRecord],
) -> None:
    console.print(facts(summary))
    for section in tables:
        if section.rows:
            console.print()
            console.print(table(section.title, section.columns, section.rows))
    for item in divergences:
        about = f"0x{item.message_id.hex()}" if item.message_id else ""
        console.print(escaped(f"DIVERGED {item.kind} {about} {item.evidence}"))


def paid_of(workspace: Workspace) -> pa.Table | None:
    """What the relayer paid for deliveries, as `schemas.PAID`; None if there is no relayer's store here that can be read."""
    from pyarrow import Table

    from indexer.model.schemas import PAID

    paid = _of_relayer(workspace, "costs stay as they are", lambda store: store.figures.paid())
    if paid is None:
        return None
    rows = [{"message_id": message_id, "gmp": int(gmp), "gwei": gwei} for (message_id, gmp), gwei in paid.items()]
    return Table.from_pylist(rows, schema=PAID)


def attested_of(workspace: Workspace) -> pa.Table | None:
    """When attestations were there, as `schemas.ATTESTED`; None if there is no relayer's store here that can be read."""
    from pyarrow import Table

    from indexer.model.schemas import ATTESTED

    attested = _of_relayer(workspace, "attestation times are not known", lambda store: store.figures.attested())
    if attested is None:
        return None
    rows = [
        {"message_id": message_id, "gmp": int(gmp), "attested_at": math.floor(at)}
        for (message_id, gmp), at in attested.items()
    ]
    return Table.from_pylist(rows, schema=ATTESTED)


def _of_relayer(workspace: Workspace, otherwise: str, read: Callable[[Store], _T]) -> _T | None:
    try:
        with open_relayer_store(workspace) as store:
            return None if store is None else read(store)
    except (StoreError, TransientError) as error:
        progress(f"{otherwise}: {error}")
        return None
