"""`waybill index maintain`: keep store and lake small."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.index_proof import open_for_writing
from bridge.cli.index_settings import index_settings
from bridge.cli.output import facts, result
from bridge.cli.workspace import DEVNET, Workspace


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
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Let go of messages that ended long ago, compact the lake, and delete its files that nobody can read any more.

    The lake keeps every event, and its tables are made anew first if they lack what would go, so that no figure of the report
    falls. The running index does the same every hour.

    Example: waybill index maintain
    """
    from indexer.jobs.maintain import maintain as run

    workspace = Workspace.of(network)
    settings = index_settings(workspace)
    if keep_days is not None:
        settings = replace(settings, keep_ended=keep_days * 86_400)
    if keep_hours is not None:
        settings = replace(settings, keep_versions=keep_hours)
    with open_for_writing(workspace) as (store, lake):
        done = asdict(run(store, lake, settings, time.time(), least_files=2))
    pairs = {
        "messages let go of": str(done["pruned"]),
        "files compacted": str(done["compacted"]),
        "files deleted": str(done["vacuumed"]),
    }
    result(done, as_json=as_json, render=lambda console: console.print(facts(pairs)))
