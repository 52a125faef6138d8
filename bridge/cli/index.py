"""`waybill index`: the Spark job that finds what is stalled, and what is done with its tables."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from typing import Annotated

import typer

from bridge.cli import (
    index_divergence,
    index_history,
    index_maintain,
    index_proof,
    index_repair,
    index_tables,
    index_views,
    options,
)
from bridge.cli.index_settings import index_settings, indexed_deployment
from bridge.cli.workspace import DEVNET, Workspace
from bridge.logs import configure_logging

app = typer.Typer(help="Index the routers' events, and see what they add up to.", no_args_is_help=True)
app.command("verify")(index_proof.verify)
app.command("divergence")(index_divergence.divergence)
app.command("repair")(index_repair.repair)
app.command("maintain")(index_maintain.maintain)
app.command("tables")(index_tables.tables)
app.command("views")(index_views.views)
app.command("rebuild")(index_history.rebuild)
app.command("as-of")(index_history.as_of)


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


@app.command()
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
    network: options.Network = DEVNET,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object per line.")] = False,
) -> None:
    """Follow the chains, keep what happened, and ask for retries of what is stalled, until Ctrl-C.

    Killed at any point, it goes on where it was when it is started again.

    Example: waybill index run --stall-after 60
    """
    # Spark takes a second to import, which no other command has to wait for.
    from indexer.jobs.index import run_index

    workspace = Workspace.of(network)
    settings = index_settings(workspace)
    stall = replace(
        settings.stall, stall_after=stall_after or settings.stall.stall_after, learn=learn or settings.stall.learn
    )
    settings = replace(settings, stall=stall, backfill_blocks=backfill_blocks or settings.backfill_blocks)
    configure_logging(as_json=as_json)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    run_index(indexed_deployment(workspace), settings, once=once, stop=stop, master=master)
