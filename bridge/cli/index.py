"""`waybill index`: runs the index, maintains its tables, and queries them."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer
from rich.console import RenderableType
from rich.text import Text

from bridge.cli import options
from bridge.cli.freshness import as_of_text, as_of_value, freshness
from bridge.cli.index_settings import chains_to_ask, index_settings, indexed_deployment
from bridge.cli.logs import configure_logging
from bridge.cli.output import facts, progress, result, rows_table, table, with_network
from bridge.cli.root import current
from bridge.cli.workspace import Workspace
from bridge.protocol.errors import StoreError
from bridge.protocol.ports import TransientError
from bridge.queries.messages import divergence_value

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Engine

    from indexer.jobs.repair import Violation
    from indexer.jobs.verify import LaneCheck
    from indexer.pipeline.bronze import Lake
    from indexer.sources.chain import ChainReader
    from indexer.store.store import Store

_log = structlog.get_logger(__name__)

app = typer.Typer(help="Run the index, and query it.", no_args_is_help=True)

StallAfter = Annotated[
    int | None,
    typer.Option(
        envvar="WAYBILL_STALL_AFTER",
        help="Seconds after which a message without its quorum is stalled. By default the setting index.stall_after (900).",
        min=1,
        show_default=False,
    ),
]


@app.command()
def run(
    *,
    once: Annotated[bool, typer.Option("--once", help="Catch up with the chains, then exit.")] = False,
    stall_after: StallAfter = None,
    master: options.SparkMaster = None,
) -> None:
    """Follow the chains, index their events, and request retries of stalled messages, until Ctrl-C.

    Resumes where it stopped, even after a kill.

    Example: waybill index run --stall-after 60
    """
    configure_logging(as_json=current().as_json)
    _log.info("loading Spark")
    # Importing it takes a second, which other commands save.
    from indexer.jobs.index import run_index

    workspace = Workspace.current()
    settings = index_settings(workspace)
    stall = replace(settings.stall, stall_after=stall_after or settings.stall.stall_after)
    refresh_command = (sys.executable, "-m", "bridge.cli", "--network", workspace.network, "index", "refresh")
    settings = replace(settings, stall=stall, refresh_command=refresh_command)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run_index(indexed_deployment(workspace), settings, once=once, stop=stop, master=master)


@app.command()
def backfill(
    *,
    master: options.SparkMaster = None,
) -> None:
    """Read the final blocks that the lake lacks into bronze.logs, in parallel, and exit. The index must not be running.

    Example: waybill index backfill --master spark://master.example:7077
    """
    configure_logging(as_json=current().as_json)
    from indexer.jobs.index import run_backfill

    workspace = Workspace.current()
    run_backfill(indexed_deployment(workspace), index_settings(workspace), master=master)


@app.command()
def refresh(
    *,
    full: Annotated[bool, typer.Option("--full", help="Recompute every row from the raw logs.")] = False,
    master: options.SparkMaster = None,
) -> None:
    """Update the silver and gold tables from the lake's raw logs.

    Recomputes the messages that changed since the last refresh, and the totals. After a repair of the lake or
    an upgrade of Waybill, recomputes everything, as --full does. A running index refreshes the tables every
    hour.

    Example: waybill index refresh
    """
    from indexer.jobs.refresh import run_refresh

    workspace = Workspace.current()
    settings = index_settings(workspace)
    with workspace.index():
        pass  # fails with the next step if no index has run
    names = {chain.chain_id: chain.name for chain in workspace.deployment().chains}
    paid, attested = _of_relayer(workspace)
    progress(f"starting Spark {'on this machine' if master is None else f'at {master}'}")
    done = run_refresh(
        settings,
        attested=attested,
        paid=paid,
        chain_names=names,
        full=full,
        keep_hours=workspace.settings().index.keep_hours,
        master=master,
    )
    reached = {names.get(chain, str(chain)): f"final block {block}" for chain, block in sorted(done.blocks.items())}
    result(as_of_value(done), facts(reached))


def _of_relayer(workspace: Workspace) -> tuple[pa.Table | None, pa.Table | None]:
    """Reads fees paid (`PAID`) and attestation times (`ATTESTED`) from the relayer's store.

    Both are None if this machine has no readable relayer store. The lake then keeps its values.
    """
    from pyarrow import Table

    from indexer.model.schemas import ATTESTED, PAID

    try:
        with workspace.relayer_store() as store:
            if store is None:
                return None, None
            fees, times = store.figures.paid(), store.figures.attested()
    except (StoreError, TransientError) as error:
        progress(f"costs and attestation times are not updated: {error}")
        return None, None
    paid = [{"message_id": message, "gmp": int(gmp), "gwei": gwei} for (message, gmp), gwei in fees.items()]
    attested = [
        {"message_id": message, "gmp": int(gmp), "attested_at": math.floor(at)} for (message, gmp), at in times.items()
    ]
    return Table.from_pylist(paid, schema=PAID), Table.from_pylist(attested, schema=ATTESTED)


@app.command()
def verify(
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Correct the index with the blocks that are read again.")
    ] = False,
    max_behind: options.MaxBehind = None,
) -> None:
    """Compare the whole index with the routers' totals, at one final block per chain.

    Each router counts the messages of a lane and sums their ids. Equal totals prove that the index has exactly
    those messages. If they differ, the range of blocks is narrowed down and read again. Reorgs of final blocks
    are reported as well; --repair rolls back to the last common block. Stop the index before a repair. Exits
    with status 1 unless all lanes are equal, and with status 5 if they are equal but the index is behind.

    Example: waybill index verify
    """
    from indexer.jobs import repair as repairs
    from indexer.jobs import verify as job
    from indexer.jobs.history import History

    workspace = Workspace.current()
    with open_for_writing(workspace) as (store, lake), readers(workspace, store.engine) as opened:
        history = History(store.engine, lake)
        violations = [one for one in (repairs.find_violation(reader, history) for reader in opened) if one is not None]
        by_chain = {reader.config.chain_id: reader for reader in opened}
        for violation in violations if repair else ():
            progress(f"chain {violation.chain_id}: going back to block {violation.fork}")
            repairs.repair(store, lake, by_chain[violation.chain_id], violation, time.time())
        checks = job.verify(opened, history, progress=progress)
        ranges = {(found.chain_id, found.first): found for check in checks for found in check.wrong}
        if repair and ranges:
            for found in ranges.values():
                progress(f"chain {found.chain_id}: correcting blocks {found.first}…{found.last}")
                job.correct(store, lake, found)
            checks = job.verify(opened, history, progress=progress)
        job.store_checks(store.engine, checks, time.time())
    with workspace.index() as index:
        fresh = freshness(workspace, index, max_behind)
    value = _checks_value(workspace, checks) | {"violations": [_violation(one, repaired=repair) for one in violations]}
    unequal = [check for check in checks if check.verdict is not job.Verdict.EQUAL]
    failures = [f"{len(unequal)} of {len(checks)} totals are not proved equal"] if unequal else []
    failures += [f"chain {one.chain_id} took back final blocks above {one.fork}" for one in violations if not repair]
    can_repair = not repair and bool(violations or any(check.wrong for check in unequal))
    fresh.answer(
        value,
        *_check_parts(value),
        failures=failures,
        next_step="waybill index verify --repair" if can_repair else None,
    )


def _violation(found: Violation, *, repaired: bool) -> dict[str, Any]:
    return {
        "chain": found.chain_id,
        "fork": found.fork,
        "finalBlock": found.final[0],
        "events": len(found.events),
        "messages": [message_id for message_id, _, _ in found.marks()],
        "repaired": repaired,
    }


@contextmanager
def open_for_writing(workspace: Workspace) -> Iterator[tuple[Store, Lake]]:
    """Opens the index's store and lake.

    Raises:
        CliError: no index has run yet.
    """
    from indexer.pipeline.bronze import Lake
    from indexer.store.store import Store

    with workspace.index():
        pass  # fails if no index has run; opening for writing would create its store
    lake = Lake(workspace.lake)
    store = Store(workspace.index_url)
    try:
        yield store, lake
    finally:
        store.close()


@contextmanager
def readers(workspace: Workspace, engine: Engine) -> Iterator[list[ChainReader]]:
    """Opens a reader for each chain. Each reader includes the adapters whose registration the index has seen."""
    from indexer.sources.chain import ChainReader
    from indexer.store.store import adapters_of

    taken, limits = adapters_of(engine), workspace.settings().index.limits
    with ExitStack() as stack:
        yield [
            stack.enter_context(ChainReader(chain.with_adapters(taken.get(chain.chain_id, ())), limits))
            for chain in chains_to_ask(workspace)
        ]


def _checks_value(workspace: Workspace, checks: list[LaneCheck]) -> dict[str, Any]:
    names = {chain.chain_id: chain.name for chain in workspace.deployment().chains}
    return {
        "verdicts": dict(Counter(check.verdict.value for check in checks)),
        "lanes": [
            {
                "router": names.get(check.chain_id, str(check.chain_id)),
                "direction": check.direction.value,
                "other": names.get(check.other_chain, str(check.other_chain)),
                "block": check.block,
                "blockHash": check.block_hash,
                "indexed": check.indexed and {"count": check.indexed.count, "sum": hex(check.indexed.sum)},
                "onChain": check.router and {"count": check.router.count, "sum": hex(check.router.sum)},
                "verdict": check.verdict.value,
                "reason": check.reason,
                "wrong": [
                    {"first": found.first, "last": found.last, "missing": found.missing, "surplus": found.surplus}
                    for found in check.wrong
                ],
            }
            for check in checks
        ],
    }


def _check_parts(value: dict[str, Any]) -> Iterator[RenderableType]:
    """Yields the table of lanes, and a line for each difference and violation."""
    rows = [
        [
            f"{lane['router']} {'→' if lane['direction'] == 'sent' else '←'} {lane['other']}",
            lane["direction"],
            "" if lane["block"] is None else f"{lane['block']} 0x{lane['blockHash'].hex()[:8]}…",
            _total(lane["indexed"]),
            _total(lane["onChain"]),
            lane["verdict"],
        ]
        for lane in value["lanes"]
    ]
    yield table(None, ["lane", "messages", "up to block", "index", "router", ""], rows)
    for lane in value["lanes"]:
        if lane["reason"]:
            yield f"{lane['router']} {lane['direction']} {lane['other']}: {lane['reason']}"
    for item in value["violations"]:
        did = "taken back" if item["repaired"] else "would be taken back"
        yield (
            f"chain {item['chain']}: {item['events']} events of {len(item['messages'])} messages above block "
            f"{item['fork']} {did}; block {item['finalBlock']} had been final"
        )
        yield from (f"  0x{message_id.hex()}" for message_id in item["messages"])
    yield "verdicts  " + ", ".join(f"{count} {verdict}" for verdict, count in value["verdicts"].items())


def _total(total: dict[str, Any] | None) -> str:
    return "" if total is None else f"{total['count']} · …{total['sum'].removeprefix('0x')[-8:]:0>8}"


@app.command()
def divergences(
    message: Annotated[str | None, typer.Argument(help="Only those of this message.", metavar="[ID]")] = None,
    *,
    history: Annotated[
        bool,
        typer.Option("--history", help="All final messages, from the table gold.divergences, as of its last refresh."),
    ] = False,
    max_behind: options.MaxBehind = None,
) -> None:
    """Print divergences with evidence, severity and next step. Exits with status 1 if there are any.

    Covers the messages in the store: all open ones, and those of the last 30 days. Exits with status 5 if there
    are no divergences but the index is behind.

    Example: waybill index divergences
    """
    chosen = None if message is None else options.message_id(message)
    from indexer.jobs.report import divergences_of_history, time_of_tables

    workspace = Workspace.current()
    with workspace.index() as index:
        tables = time_of_tables(workspace.lake) if history else None
        found = divergences_of_history(workspace.lake) if history else index.divergences()
        fresh = freshness(workspace, index, max_behind)
    found = [item for item in found if chosen in (None, item.message_id)]
    value = [divergence_value(item) for item in found]
    failures = [f"{len(value)} divergences: {', '.join(sorted({item['kind'] for item in value}))}"] if value else []
    fresh.answer(
        {"divergences": value, "tables": as_of_value(tables)},
        *_divergence_parts(value, as_of_text(tables) if history else "the store, now"),
        failures=failures,
    )


def _divergence_parts(value: list[dict[str, Any]], source: str) -> Iterator[RenderableType]:
    """Yields the lines that describe divergences."""
    if not value:
        yield "no divergence: the index has found no contradictions"
    for item in value:
        where = item["messageId"] or "the lane as a whole"
        yield Text(f"{item['severity'].upper()} {item['kind']}  {where}", style="bold")
        yield f"  chains    {item['sourceChain']} → {item['destinationChain']}"
        yield f"  evidence  {item['evidence']}"
        yield f"  next      {with_network(item['next'])}"
    yield f"source    {source}"


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One SELECT of DuckDB's SQL.", metavar="QUERY")],
    *,
    rows: Annotated[int, typer.Option("--rows", min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, max=3_600, help="Maximum number of seconds for the query.")
    ] = 30,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Query the lake's tables with SQL. Queries are read-only, without access to files, network or extensions.

    Ids, hashes and addresses are text: 0x and lower-case hex digits. `waybill index refresh` updates the tables.

    Example: waybill index sql "select status, count(*) as messages from silver.messages group by status"
    """
    from indexer.pipeline.reading import as_of
    from indexer.pipeline.user_queries import answer

    workspace = Workspace.current()
    with workspace.index():
        pass  # fails with the next step if no index has run
    found, is_cut = answer(workspace.lake, query, rows, timeout)
    if as_csv:
        from pyarrow import csv

        csv.write_csv(found, sys.stdout.buffer)
    else:
        value = found.to_pylist()
        result(value, rows_table(value, {name: name for name in found.column_names}))
    progress(f"tables {as_of_text(as_of(workspace.lake))}")
    if is_cut:
        progress(f"these are the first {rows} rows; --rows has more")
