"""`waybill index`: the Spark job that follows the chains, and what is done with its tables."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import asdict, replace
from typing import Annotated, Any

import structlog
import typer
from rich.console import Console

from bridge.cli import exports, index_history, index_proof, options, table_engine
from bridge.cli.freshness import freshness
from bridge.cli.index_proof import open_for_reading, open_for_writing, readers
from bridge.cli.index_settings import index_settings, indexed_deployment
from bridge.cli.logs import configure_logging
from bridge.cli.next_commands import with_network
from bridge.cli.open_stores import open_index
from bridge.cli.output import escaped, facts, progress, result, table
from bridge.cli.report import paid_of
from bridge.cli.workspace import DEVNET, Workspace
from bridge.queries.messages import divergence_value
from indexer.model.settings import TableEngineName

_log = structlog.get_logger(__name__)

app = typer.Typer(help="Index the routers' events, and see what they add up to.", no_args_is_help=True)

StallAfter = Annotated[
    int | None,
    typer.Option(
        envvar="WAYBILL_STALL_AFTER",
        help="Seconds after which a message without its quorum is stalled; else the setting index.stall_after, which is 900.",
        min=1,
        show_default=False,
    ),
]
BackfillBlocks = Annotated[
    int | None,
    typer.Option(
        "--backfill-blocks",
        help="Final blocks behind from which Spark reads them in parallel; else the setting index.backfill_blocks.",
        min=1,
        show_default=False,
    ),
]


def run(
    *,
    once: Annotated[bool, typer.Option("--once", help="Catch up with the chains, then stop.")] = False,
    stall_after: StallAfter = None,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn-deadlines", help="Take each lane's --stall-after from its own latencies, once it has some."
        ),
    ] = False,
    master: options.SparkMaster = None,
    backfill_blocks: BackfillBlocks = None,
    engine: table_engine.Engine = TableEngineName.SPARK,
    network: options.Network = DEVNET,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object per line.")] = False,
) -> None:
    """Follow the chains, keep what happened, and ask for retries of what is stalled, until Ctrl-C.

    Killed at any point, it goes on where it was when it is started again.

    Example: waybill index run --stall-after 60
    """
    configure_logging(as_json=as_json)
    _log.info("loading Spark", network=network)
    # It takes a second to import, which no other command has to wait for.
    from indexer.jobs.index import run_index

    workspace = Workspace.of(network)
    settings = index_settings(workspace)
    stall = replace(
        settings.stall, stall_after=stall_after or settings.stall.stall_after, learn=learn or settings.stall.learn
    )
    backfill_blocks = backfill_blocks or settings.backfill_blocks
    settings = replace(settings, stall=stall, backfill_blocks=backfill_blocks, table_engine=engine)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run_index(indexed_deployment(workspace), settings, once=once, stop=stop, master=master)


def divergence(
    message: Annotated[str | None, typer.Argument(help="Only those of this message.", metavar="[ID]")] = None,
    *,
    engine: table_engine.Engine = TableEngineName.SPARK,
    master: options.SparkMaster = None,
    explain: table_engine.Explain = False,
    max_behind: options.MaxBehind = None,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Print what contradicts: evidence, how bad it is, and what to do next. Fails if there is anything.

    All events are looked at, those of the lake and those that the store alone has. Ends with 5 if there is nothing, and the
    index is behind.

    Example: waybill index divergence
    """
    chosen = None if message is None else options.message_id(message)
    from indexer.jobs.contradictions import contradictions
    from indexer.lake.history import STORE_DIFFERS, History
    from indexer.model.errors import LakeDamagedError

    workspace, damage = Workspace.of(network), ""
    with open_index(workspace) as index, table_engine.opened(engine, master, workspace.lake, explain=explain) as by:
        try:
            with open_for_reading(workspace) as (store, lake):
                found = contradictions(store, lake, by)
                found += History(store, lake).disagreements()
        except LakeDamagedError as error:
            damage = f"what follows is of the store alone: {error}"
            found = [item for item in index.divergences() if item.kind != STORE_DIFFERS]
        fresh = freshness(workspace, index, max_behind)
    found = [item for item in found if chosen in (None, item.message_id)]
    value = [divergence_value(item) for item in found]
    if damage:
        progress(damage)

    failures = ["whether store and lake agree is not known: the lake is damaged"] * bool(damage)
    if value:
        failures.append(f"{len(value)} divergences: {', '.join(sorted({item['kind'] for item in value}))}")
    fresh.answer(
        {"divergences": value, "damage": damage or None},
        as_json=as_json,
        render=lambda console: _draw_divergences(console, value, is_whole=not damage),
        failures=failures,
    )


def _draw_divergences(console: Console, value: list[dict[str, Any]], *, is_whole: bool) -> None:
    if not value and is_whole:
        console.print("no divergence: nothing contradicts, as far as the index has read")
    for item in value:
        where = item["message_id"] or "the lane as a whole"
        console.print(escaped(f"{item['severity'].upper()} {item['kind']}  {where}"), style="bold")
        console.print(escaped(f"  chains    {item['source_chain']} → {item['destination_chain']}"))
        console.print(escaped(f"  evidence  {item['evidence']}"))
        console.print(escaped(f"  next      {with_network(item['next'])}"))


def repair(
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what would be done.")] = False,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Go back to the last block that a chain still has, after it took back what it had called final.

    Takes the lost blocks' events out of store and lake; the lake's commit records it, and its earlier versions keep them.
    Stop the index first. The next `waybill index run` reads the chain from there.

    Example: waybill index repair
    """
    from indexer.jobs import repair as job
    from indexer.lake.history import History

    workspace = Workspace.of(network)
    done: list[dict[str, Any]] = []
    with open_for_writing(workspace) as (store, lake), readers(workspace, store.engine) as opened:
        for reader in opened:
            progress(f"chain {reader.config.chain_id}: comparing the index's blocks with the chain's")
            violation = job.find_violation(reader, History(store.engine, lake))
            if violation is None:
                continue
            if yes:
                job.repair(store, lake, reader, violation, time.time())
            done.append(
                {
                    "chain": violation.chain_id,
                    "fork": violation.fork,
                    "final_block": violation.final[0],
                    "events": len(violation.events),
                    "messages": [message_id for message_id, _, _ in violation.marks()],
                    "repaired": yes,
                }
            )
    result({"violations": done}, as_json=as_json, render=lambda console: _draw_repairs(console, done))


def _draw_repairs(console: Console, done: list[dict[str, Any]]) -> None:
    if not done:
        console.print("nothing to repair: every chain still has what it had called final")
    for item in done:
        did = "taken back" if item["repaired"] else "would be taken back"
        console.print(
            f"chain {item['chain']}: {item['events']} events of {len(item['messages'])} messages above block "
            f"{item['fork']} {did}; block {item['final_block']} had been final"
        )
        for message_id in item["messages"]:
            console.print(f"  0x{message_id.hex()}")
    if any(not item["repaired"] for item in done):
        console.print(with_network("next  waybill index repair --yes"))


def maintain(
    *,
    keep_days: Annotated[
        int | None,
        typer.Option(
            "--keep-days",
            min=0,
            help="Days that the store keeps messages that have ended; else the setting index.keep_days.",
            show_default=False,
        ),
    ] = None,
    keep_hours: Annotated[
        int | None,
        typer.Option(
            "--keep-hours",
            min=0,
            help="Hours for which the lake's earlier versions can be read; else the setting index.keep_hours.",
            show_default=False,
        ),
    ] = None,
    engine: table_engine.Engine = TableEngineName.SPARK,
    master: options.SparkMaster = None,
    explain: table_engine.Explain = False,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Prune messages that ended long ago, compact the lake, and delete its files that no version needs any more.

    The lake keeps every event. Its tables are rebuilt first if they lack messages that would be pruned, so that no figure of
    the report falls. The running index does the same every hour.

    Example: waybill index maintain
    """
    from indexer.jobs.maintain import maintain as run
    from indexer.jobs.tables import write_tables

    workspace = Workspace.of(network)
    settings = index_settings(workspace)
    if keep_days is not None:
        settings = replace(settings, keep_ended=keep_days * 86_400)
    if keep_hours is not None:
        settings = replace(settings, keep_versions=keep_hours)
    with open_for_writing(workspace) as (store, lake):

        def make_tables() -> None:
            with table_engine.opened(engine, master, workspace.lake, explain=explain, is_for_new=True) as by:
                write_tables(store.engine, lake, by)

        done = asdict(run(store, lake, settings, time.time(), least_files=2, make_tables=make_tables))
    pairs = {
        "messages pruned": str(done["pruned"]),
        "files compacted": str(done["compacted"]),
        "files deleted": str(done["vacuumed"]),
    }
    result(done, as_json=as_json, render=lambda console: console.print(facts(pairs)))


def tables(
    *,
    engine: table_engine.Engine = TableEngineName.SPARK,
    master: options.SparkMaster = None,
    explain: table_engine.Explain = False,
    full: Annotated[bool, typer.Option("--full", help="Compute every row, even if little is new.")] = False,
    max_behind: options.MaxBehind = None,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Write messages, receipts, attempts, duplicates, lanes, latencies, redundancy, costs and divergences as Delta tables.

    They stand next to the lake's events. They are of final blocks alone, and as they are now: run it again for newer ones. Then only what is new is computed: rows of messages to which something has happened since, which are added to the totals. A repair of the lake, or another version of Waybill, has all computed. Costs are those of the relayer whose store is here; without one that table stays as it is. Each table gets one commit; the store is only read. Ends with 5 if the index is behind.

    Example: waybill index tables
    """
    from indexer.jobs.tables import write_tables

    workspace = Workspace.of(network)
    with (
        open_for_reading(workspace) as (store, lake),
        table_engine.opened(engine, master, workspace.lake, explain=explain, is_for_new=not full) as by,
    ):
        written = write_tables(store, lake, by, progress, full=full, paid=paid_of(workspace))
    with open_index(workspace) as index:
        fresh = freshness(workspace, index, max_behind)
    rows = [[one.name, str(one.rows), str(one.computed), str(one.events_version), one.folder] for one in written]
    drawn = table(None, ["table", "rows", "computed", "of version", "where"], rows)
    value = {"tables": [asdict(one) for one in written]}
    fresh.answer(value, as_json=as_json, render=lambda console: console.print(drawn))


def views(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Print DuckDB views of the lake's tables in which ids, hashes and addresses are text: 0x and small hexadecimal digits.

    A binary column never equals a text such as '0x12…', and DuckDB does not say so. The views read the files of one version.

    Example: waybill index views
    """
    from indexer.lake.derived import files_of_table
    from indexer.model.dictionary import TABLES
    from indexer.model.dictionary import views as view_of

    with open_for_reading(Workspace.of(network)) as (_, lake):
        files = {name: lake.files() if name == "events" else files_of_table(lake.place / name) for name in TABLES}
    made = {name: view_of(name, found) for name, found in files.items() if found}
    result(made, as_json=as_json, render=lambda console: console.print("\n".join(made.values()), markup=False))


def sql(
    query: Annotated[str, typer.Argument(help="One SELECT of DuckDB's SQL.", metavar="QUERY")],
    *,
    rows: Annotated[int, typer.Option("--rows", min=1, max=1_000_000, help="Rows to answer at most.")] = 1_000,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, max=3_600, help="Seconds it may take.")] = 30,
    form: exports.Chosen = exports.Format.TABLE,
    output: exports.Output = None,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Ask the lake's tables a question of your own. Only reads, and only these tables: no file, no network, no extension.

    Ids, hashes and addresses are text: 0x and small hexadecimal digits. `waybill index tables` brings the tables up to date.

    Example: waybill index sql "select status, count(*) as messages from messages group by status"
    """
    from indexer.lake.user_queries import answer

    chosen = exports.Format.JSON if as_json else form
    exports.check(chosen, output)
    with open_for_reading(Workspace.of(network)) as (_, lake):
        found, is_cut = answer(lake, query, rows, timeout)
    exports.export(found, chosen, output)
    if is_cut:
        progress(f"these are the first {rows} rows; --rows has more")


app.command("verify")(index_proof.verify)
app.command("divergence")(divergence)
app.command("repair")(repair)
app.command("maintain")(maintain)
app.command("tables")(tables)
app.command("views")(views)
app.command("sql")(sql)
app.command("rebuild")(index_history.rebuild)
app.command("as-of")(index_history.as_of)
app.command("run")(run)
