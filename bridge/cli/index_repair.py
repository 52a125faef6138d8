"""`waybill index repair`: follow a chain again that took back final blocks."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.index_proof import open_for_writing, readers
from bridge.cli.output import progress, result
from bridge.cli.workspace import DEVNET, Workspace


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
    from indexer.sinks.history import History

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
    result({"violations": done}, as_json=as_json, render=lambda console: _draw(console, done))


def _draw(console: Console, done: list[dict[str, Any]]) -> None:
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
        console.print("next  waybill index repair --yes")
