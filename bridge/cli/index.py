"""`waybill index`: runs the index, maintains its tables, and queries them."""

from __future__ import annotations

import math
import signal
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer
from rich.console import Console

from bridge.cli import index_proof, options
from bridge.cli.freshness import as_of_text, as_of_value, freshness
from bridge.cli.index_settings import index_settings, indexed_deployment
from bridge.cli.logs import configure_logging
from bridge.cli.output import escaped, facts, progress, result, rows_table, with_network
from bridge.cli.root import current
from bridge.cli.workspace import Workspace
from bridge.protocol.errors import StoreError
from bridge.protocol.ports import TransientError
from bridge.queries.messages import divergence_value

if TYPE_CHECKING:
    import pyarrow as pa

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
    result(as_of_value(done), render=lambda console: console.print(facts(reached)))


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
        render=lambda console: _draw_divergences(console, value, as_of_text(tables) if history else "the store, now"),
        failures=failures,
    )


def _draw_divergences(console: Console, value: list[dict[str, Any]], source: str) -> None:
    if not value:
        console.print("no divergence: the index has found no contradictions")
    for item in value:
        where = item["messageId"] or "the lane as a whole"
        console.print(escaped(f"{item['severity'].upper()} {item['kind']}  {where}"), style="bold")
        console.print(escaped(f"  chains    {item['sourceChain']} → {item['destinationChain']}"))
        console.print(escaped(f"  evidence  {item['evidence']}"))
        console.print(escaped(f"  next      {with_network(item['next'])}"))
    console.print(escaped(f"source    {source}"))


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
        columns = {name: name for name in found.column_names}
        result(value, render=lambda console: console.print(rows_table(value, columns)))
    progress(f"tables {as_of_text(as_of(workspace.lake))}")
    if is_cut:
        progress(f"these are the first {rows} rows; --rows has more")


app.command("run")(run)
app.command("backfill")(backfill)
app.command("refresh")(refresh)
app.command("verify")(index_proof.verify)
app.command("divergences")(divergences)
app.command("sql")(sql)
