"""`waybill index tables`: what follows from the lake's events, as tables beside them."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console

from bridge.cli import options
from bridge.cli.freshness import freshness
from bridge.cli.index_proof import open_for_reading
from bridge.cli.output import progress, result, table
from bridge.cli.reading import open_index
from bridge.cli.workspace import DEVNET, Workspace


def tables(
    *,
    master: options.SparkMaster = None,
    max_behind: options.MaxBehind = None,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Write messages, receipts, attempts, duplicates, lanes and divergences as Delta tables beside the lake's events.

    They are of final blocks alone, and as they are now: run it again for newer ones. Each is replaced by one commit; the store
    is only read. Ends with 5 if the index is behind.

    Example: waybill index tables
    """
    from indexer.jobs.tables import write_tables

    workspace = Workspace.of(network)
    with open_for_reading(workspace) as (engine, lake):
        if master is None:
            written = write_tables(engine, lake, progress=progress)
        else:
            from indexer.session import spark_session

            with spark_session(master) as spark:
                written = write_tables(engine, lake, spark, progress)
    with open_index(workspace) as index:
        fresh = freshness(workspace, index, max_behind)
    value = {"index": fresh.value(), "tables": [asdict(one) for one in written]}

    def draw(console: Console) -> None:
        fresh.draw(console)
        rows = [[one.name, str(one.rows), str(one.events_version), one.folder] for one in written]
        console.print(table(None, ["table", "rows", "of version", "where"], rows))

    result(value, as_json=as_json, render=draw)
    if (error := fresh.error()) is not None:
        raise error
