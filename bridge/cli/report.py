"""`waybill report`: what the index adds up to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.as_of import as_of_text, as_of_value
from bridge.cli.freshness import freshness
from bridge.cli.index_settings import chains_to_ask, source_limits
from bridge.cli.open_stores import open_index, open_relayer_store
from bridge.cli.output import escaped, facts, progress, table
from bridge.cli.workspace import Workspace
from bridge.evm.actions import ActionReader
from bridge.protocol.errors import StoreError
from bridge.protocol.ports import TransientError
from bridge.queries.actions import by_state, silent_chains
from bridge.queries.lanes import chain_name, gmp_name
from bridge.queries.messages import divergence_value
from bridge.service.connections import connected

if TYPE_CHECKING:
    import pyarrow as pa

    from indexer.store.records import Report

_ACTIONS = 2_000
"""The newest atomic actions of each coordinator, which are counted."""


def report(
    *,
    costs: Annotated[
        bool,
        typer.Option("--costs", help="Ask the chains what the newest 2,000 deliveries cost, per GMP and set of GMPs."),
    ] = False,
    max_behind: options.MaxBehind = None,
) -> None:
    """Print what the index adds up to: messages, retries, duplicates, divergences, latencies, what redundancy brought.

    Latencies and redundancy are those of the gold tables, as of the last refresh. What the store has is counted there, as it is
    now. Exits with status 5 if the index is behind.

    Example: waybill report --costs
    """
    workspace = Workspace.current()
    from indexer.jobs.pruning import TABLES, pruned
    from indexer.jobs.report import make_report
    from indexer.lake.files import damages
    from indexer.lake.reading import as_of, rows_of
    from indexer.model.errors import LakeDamagedError
    from indexer.sources.chain import costs_of

    ask = partial(costs_of, chains_to_ask(workspace), limits=source_limits(workspace)) if costs else None
    with open_index(workspace) as index:
        try:
            tables = as_of(workspace.lake)
            figures = [rows_of(workspace.lake, name) for name in ("gold.latencies", "gold.redundancy")]
            found = make_report(index, ask, pruned(index, workspace.lake), *figures)
        except LakeDamagedError:
            tables, found = None, make_report(index, ask)
        fresh = freshness(workspace, index, max_behind)
        requested = sorted({f"0x{request.message_id.hex()}" for request in index.retry_requests()})
    chain = partial(chain_name, workspace.deployment())
    actions = actions_of(workspace)
    value = {
        **_value(found, requested),
        "actions": None if actions is None else actions.by_state,
        "actionsMissingOf": [] if actions is None else actions.silent,
        "tables": as_of_value(tables),
    }
    read = ("gold.latencies", "gold.redundancy", *TABLES.values())
    damaged = [what for name in read for what in damages(workspace.lake.table(name))]
    failures = [f"the report is of the store alone; the lake is damaged: {'; '.join(damaged)}"] * bool(damaged)
    fresh.answer(
        value,
        render=lambda console: _draw(console, found, chain, actions, as_of_text(tables)),
        failures=failures,
    )


def _value(found: Report, requested: list[str]) -> dict[str, Any]:
    return {
        "messages": found.messages,
        "not_counted": found.not_counted,
        "executed": found.executed,
        "executed_twice": found.executed_twice,
        "lost": found.lost,
        "by_status": {status.value: count for status, count in sorted(found.by_status.items())},
        "retries_requested": found.retries.requested,
        "retries_requested_for": requested,
        "retries_sent": found.retries.sent,
        "retries_executed": found.retries.executed,
        "duplicates_absorbed": found.duplicates_absorbed,
        "late_receipts": found.late_receipts,
        "execution_failures_recovered": found.execution_failures_recovered,
        "divergences": [divergence_value(item) for item in found.divergences],
        "attested_unknown": found.attested_unknown,
        "stages": [asdict(stage) for stage in found.stages],
        "shares": [asdict(share) for share in found.shares],
        "alternatives": [asdict(alternative) for alternative in found.alternatives],
        "alternatives_without": list(found.left_out),
        "health": [asdict(one) for one in found.health],
        "costs": [asdict(cost) for cost in found.costs],
        "fees": [asdict(fee) for fee in found.fees],
        "duplicates_by_day": [
            {"gmp": gmp, "lane": lane, "day": day, "duplicates": count}
            for (gmp, lane, day), count in sorted(found.duplicates_by_day.items())
        ],
        "per_gmp": {
            gmp.label: {
                "dispatched": counts.dispatched,
                "received": counts.received,
                "duplicates": counts.duplicates,
            }
            for gmp, counts in sorted(found.per_gmp.items())
        },
        "latency_ms": {"p50": round(found.latency_p50_ms or 0), "p95": round(found.latency_p95_ms or 0)},
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
    retries = found.retries
    return {
        "messages": str(found.messages),
        "by state": ", ".join(f"{count} {status}" for status, count in sorted(found.by_status.items())),
        "executed": str(found.executed),
        "executed twice": str(found.executed_twice),
        "lost": str(found.lost),
        "retries requested / sent / executed": f"{retries.requested} / {retries.sent} / {retries.executed}",
        "late receipts": str(found.late_receipts),
        "duplicates absorbed": str(found.duplicates_absorbed),
        "execution failed at first": str(found.execution_failures_recovered),
        "latency p50 / p95 (block time)": f"{found.latency_p50_ms or 0:.0f} / {found.latency_p95_ms or 0:.0f} ms",
        "divergences": str(len(found.divergences)),
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

    def lane(ends: tuple[int, int]) -> str:
        return f"{chain(ends[0])} → {chain(ends[1])}"

    return [
        Section(
            title="What each GMP did",
            columns=["GMP", "dispatched", "received", "repeated"],
            rows=[
                [gmp.label, str(counts.dispatched), str(counts.received), str(counts.duplicates)]
                for gmp, counts in sorted(found.per_gmp.items())
            ],
        ),
        Section(
            title="Latency, in seconds from the route",
            columns=["lane", "stage", "messages", "p50 s", "p95 s", "p99 s"],
            rows=[
                [
                    lane(one.lane),
                    one.stage,
                    str(one.messages),
                    *(_number(at, "-") for at in (one.p50, one.p95, one.p99)),
                ]
                for one in found.stages
            ],
        ),
        Section(
            title="Who delivered first, and who late",
            columns=["GMP", "receipts", "first", "lead p50 s", "late", "share late", "p50 s", "p95 s"],
            rows=[
                [
                    *(gmp_name(one.gmp), str(one.receipts), str(one.first), _number(one.lead_p50), str(one.late)),
                    *(f"{one.late / one.receipts:.0%}", str(one.latency_p50), str(one.latency_p95)),
                ]
                for one in found.shares
            ],
        ),
        Section(
            title="Recent health",
            columns=["lane", "GMP", "dispatched", "delivered", "p50 s"],
            rows=[
                [
                    *(lane(one.lane), gmp_name(one.gmp), str(one.dispatched)),
                    *(f"{one.delivered / one.dispatched:.0%}", _number(one.latency_p50)),
                ]
                for one in found.health
            ],
        ),
        Section(
            title="What fewer GMPs would have cost and gained",
            columns=[
                *("GMPs", "quorum", "messages", "reached", "p50 s", "p95 s", "deliveries", "saved"),
                *("wei for gas", "wei saved"),
            ],
            rows=[
                [
                    *(_gmps(one.gmps), str(one.quorum), str(one.messages), f"{one.reached / one.messages:.1%}"),
                    *(_number(one.latency_p50), _number(one.latency_p95), str(one.deliveries), str(one.saved)),
                    *("" if wei is None else str(wei) for wei in (one.gas_paid, one.gas_saved)),
                ]
                for one in found.alternatives
            ],
        ),
        Section(
            title="What deliveries cost",
            columns=["GMP", "lane", "deliveries", "late", "gas p50", "wei for gas", "of it late"],
            rows=[
                [
                    *(gmp_name(one.gmp), lane(one.lane)),
                    *map(str, (one.deliveries, one.late, one.gas_p50, one.gas_paid, one.late_gas_paid)),
                ]
                for one in found.costs
            ],
        ),
        Section(
            title="What senders paid to GMPs",
            columns=["GMPs", "lane", "messages", "fees p50, wei", "fees, wei"],
            rows=[
                [_gmps(one.gmps), lane(one.lane), *map(str, (one.messages, one.fees_p50, one.fees))]
                for one in found.fees
            ],
        ),
        Section(
            title="Duplicates absorbed",
            columns=["GMP", "lane", "day", "duplicates"],
            rows=[
                [gmp_name(gmp), lane(ends), day, str(count)]
                for (gmp, ends, day), count in sorted(found.duplicates_by_day.items())
            ],
        ),
    ]


def _draw(
    console: Console, found: Report, chain: Callable[[int], str], actions: ActionCounts | None, tables: str
) -> None:
    console.print(facts(report_facts(found, actions) | {"tables": tables}))
    if found.not_counted:
        console.print(
            f"{found.not_counted} messages, pruned by the store, are in no figure: `waybill index refresh` has the tables count them"
        )
    for section in sections(found, chain):
        if section.rows:
            console.print()
            console.print(table(section.title, section.columns, section.rows))
    if found.attested_unknown is not None:
        console.print(escaped(f"when GMPs attested is not known: {found.attested_unknown}"))
    if found.left_out:
        console.print(f"no sets were made with {_gmps(found.left_out)}: there are too many GMPs")
    for item in found.divergences:
        about = f"0x{item.message_id.hex()}" if item.message_id else ""
        console.print(escaped(f"DIVERGED {item.kind} {about} {item.evidence}"))


def _number(value: float | None, unknown: str = "") -> str:
    return unknown if value is None else f"{value:g}"


def _gmps(numbers: Sequence[int]) -> str:
    return " + ".join(map(gmp_name, numbers))


def paid_of(workspace: Workspace) -> pa.Table | None:
    """What the relayer paid for deliveries, as `schemas.PAID`; None if there is no relayer's store here that can be read."""
    from pyarrow import Table

    from indexer.model.schemas import PAID

    try:
        with open_relayer_store(workspace) as store:
            if store is None:
                return None
            paid = store.figures.paid()
    except (StoreError, TransientError) as error:
        progress(f"costs stay as they are: {error}")
        return None
    rows = [(message_id, int(gmp), gwei) for (message_id, gmp), gwei in paid.items()]
    return Table.from_pylist([dict(zip(PAID.names, row, strict=True)) for row in rows], schema=PAID)


def attested_of(workspace: Workspace, message_ids: Collection[bytes]) -> dict[tuple[bytes, int], float]:
    """When the attestation of each delivery was there (Unix seconds), by message and GMP.

    Raises:
        AttestationsUnknownError: there is no relayer's store here, or it can't be read.
    """
    from indexer.model.errors import AttestationsUnknownError

    try:
        with open_relayer_store(workspace) as store:
            if store is None:
                raise AttestationsUnknownError(f"no relayer of network {workspace.network!r} has its store here")
            known = store.figures.attested(message_ids)
    except (StoreError, TransientError) as error:
        raise AttestationsUnknownError(str(error)) from error
    return {(message_id, int(gmp)): at for (message_id, gmp), at in known.items()}
