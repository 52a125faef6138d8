"""`waybill report`: what the index adds up to."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options, table_engine
from bridge.cli.freshness import freshness
from bridge.cli.index_settings import chains_to_ask, source_limits
from bridge.cli.open_stores import open_index, open_relayer_store
from bridge.cli.output import escaped, facts, progress, table
from bridge.cli.workspace import DEVNET, Workspace
from bridge.domain.errors import StoreError
from bridge.domain.ports import TransientError
from bridge.protocol.gmps import Gmp

if TYPE_CHECKING:
    from indexer.store.records import Report


def report(
    *,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one self-contained page with plots there.", dir_okay=False)
    ] = None,
    costs: Annotated[
        bool,
        typer.Option("--costs", help="Ask the chains what the newest 2,000 deliveries cost, per GMP and set of GMPs."),
    ] = False,
    engine: table_engine.Engine = table_engine.EngineName.SPARK,
    master: options.SparkMaster = None,
    explain: table_engine.Explain = False,
    max_behind: options.MaxBehind = None,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Print what the index adds up to: messages, retries, duplicates, divergences, latencies, what redundancy brought.

    The engine computes latencies by stage and what each GMP contributed, from all events. What the store serves is counted
    there. Ends with 5 if the index is behind.

    Example: waybill report --html report.html
    """
    from indexer.jobs.page import report_page
    from indexer.jobs.pruning import TABLES, pruned
    from indexer.jobs.report import figures_of_index, make_report
    from indexer.lake.files import damages
    from indexer.sources.chain import costs_of

    workspace = Workspace.of(network)
    ask = partial(costs_of, chains_to_ask(workspace), limits=source_limits(workspace)) if costs else None
    with open_index(workspace) as index, table_engine.opened(engine, master, explain=explain) as by:
        found = make_report(
            index,
            ask,
            pruned(index, workspace.lake),
            partial(attested_of, workspace),
            figures_of_index(index.engine, workspace.lake, by),
        )
        fresh = freshness(workspace, index, max_behind)
        requested = sorted({f"0x{request.message_id.hex()}" for request in index.retry_requests()})
    names = {chain.chain_id: chain.name for chain in workspace.deployment().chains} if html else {}
    if html:
        html.write_text(report_page(found, lambda chain: names.get(chain, str(chain)), time.time()))
        progress(f"written: {html}")
    value = _value(found, requested)
    damaged = [what for name in ("events", *TABLES) for what in damages(workspace.lake / name)]
    failures = [f"the report is of the store alone; the lake is damaged: {'; '.join(damaged)}"] * bool(damaged)
    fresh.answer(value, as_json=as_json, render=lambda console: _draw(console, value), failures=failures)


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
        "divergences": [
            {
                "kind": item.kind,
                "message_id": f"0x{item.message_id.hex()}" if item.message_id else None,
                "source_chain": item.source_chain,
                "destination_chain": item.destination_chain,
                "evidence": item.evidence,
                "severity": item.severity,
                "next": item.next_action,
            }
            for item in found.divergences
        ],
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


def _draw(console: Console, value: dict[str, Any]) -> None:
    retries = " / ".join(str(value[f"retries_{what}"]) for what in ("requested", "sent", "executed"))
    console.print(
        facts(
            {
                "messages": str(value["messages"]),
                "by state": ", ".join(f"{count} {status}" for status, count in value["by_status"].items()),
                "executed twice": str(value["executed_twice"]),
                "retries requested / sent / executed": retries,
                "late receipts": str(value["late_receipts"]),
                "duplicates absorbed": str(value["duplicates_absorbed"]),
                "refused by the recipient, executed later": str(value["execution_failures_recovered"]),
                "latency p50 / p95 (block time)": f"{value['latency_ms']['p50']} / {value['latency_ms']['p95']} ms",
            }
        )
    )
    if value["not_counted"]:
        console.print(
            f"{value['not_counted']} messages, pruned by the store, are in no figure: `waybill index tables` has the lake count them"
        )
    rows = [[gmp, *(str(count) for count in counts.values())] for gmp, counts in value["per_gmp"].items()]
    if rows:
        console.print()
        console.print(table(None, ["GMP", "dispatched", "received", "repeated"], rows))
    if value["stages"]:
        stages = [
            [f"{stage['lane'][0]} → {stage['lane'][1]}", stage["stage"], str(stage["messages"])]
            + [_number(stage[name]) or "-" for name in ("p50", "p95", "p99")]
            for stage in value["stages"]
        ]
        console.print()
        console.print(table(None, ["lane", "stage", "messages", "p50 s", "p95 s", "p99 s"], stages))
        if value["attested_unknown"] is not None:
            console.print(f"when GMPs attested is not known: {value['attested_unknown']}")
    _draw_redundancy(console, value)
    if value["health"]:
        health = [
            [f"{one['lane'][0]} → {one['lane'][1]}", _gmps([one["gmp"]])]
            + [str(one[name]) for name in ("dispatched", "delivered", "latency_p50")]
            for one in value["health"]
        ]
        console.print()
        console.print(
            table("recent health, the best first", ["lane", "GMP", "dispatched", "delivered", "p50 s"], health)
        )
    if value["costs"]:
        _draw_costs(console, value)
    for item in value["divergences"]:
        console.print(escaped(f"DIVERGED {item['kind']} {item['message_id'] or ''} {item['evidence']}"))


def _draw_redundancy(console: Console, value: dict[str, Any]) -> None:
    """Who delivered first and who in vain, what sets of GMPs would have done, and what was repeated."""
    whats = (
        (
            "who delivered",
            ["GMP", "receipts", "first", "ahead by s", "in vain", "p50 s", "p95 s"],
            [
                [_gmps([one["gmp"]])]
                + [
                    _number(one[name])
                    for name in ("receipts", "first", "lead_p50", "late", "latency_p50", "latency_p95")
                ]
                for one in value["shares"]
            ],
        ),
        (
            "what fewer GMPs would have done",
            ["alone", "quorum", "messages", "reached", "p50 s", "p95 s", "deliveries", "saved"],
            [
                [_gmps(one["gmps"])]
                + [_number(one[name]) for name in ("quorum", "messages", "reached", "latency_p50", "latency_p95")]
                + [_number(one[name]) for name in ("deliveries", "saved")]
                for one in value["alternatives"]
            ],
        ),
        (
            "duplicates absorbed",
            ["day", "GMP", "lane", "deliveries"],
            [
                [one["day"], _gmps([one["gmp"]]), f"{one['lane'][0]} → {one['lane'][1]}", str(one["duplicates"])]
                for one in value["duplicates_by_day"]
            ],
        ),
    )
    if value["alternatives_without"]:
        console.print(f"no sets were made with {_gmps(value['alternatives_without'])}: there are too many GMPs")
    for title, columns, rows in whats:
        if rows:
            console.print()
            console.print(table(title, columns, rows))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _draw_costs(console: Console, value: dict[str, Any]) -> None:
    names = ("deliveries", "late", "gas_p50", "gas_paid", "late_gas_paid")
    costs = [
        [_gmps([cost["gmp"]]), f"{cost['lane'][0]} → {cost['lane'][1]}", *(str(cost[name]) for name in names)]
        for cost in value["costs"]
    ]
    console.print()
    console.print(table(None, ["GMP", "lane", "deliveries", "late", "gas p50", "wei for gas", "of it late"], costs))
    fees = [
        [_gmps(fee["gmps"]), f"{fee['lane'][0]} → {fee['lane'][1]}", str(fee["messages"]), str(fee["fees_p50"])]
        for fee in value["fees"]
    ]
    console.print()
    console.print(table(None, ["GMPs", "lane", "messages", "fees p50, wei"], fees))


def _gmps(numbers: Sequence[int]) -> str:
    known = {gmp.value: gmp.label for gmp in Gmp}
    return " + ".join(known.get(number, str(number)) for number in numbers)


def attested_of(workspace: Workspace, message_ids: Collection[bytes]) -> dict[tuple[bytes, int], float]:
    """When the proof of each delivery was there (Unix seconds), by message and GMP.

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
