"""`waybill index divergence`: facts on the chains that contradict one another."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.index_proof import open_for_reading
from bridge.cli.output import CliError, escaped, result
from bridge.cli.reading import open_index
from bridge.cli.workspace import DEVNET, Workspace


def divergence(
    message: Annotated[str | None, typer.Argument(help="Only those of this message.", metavar="[ID]")] = None,
    *,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Print what contradicts: evidence, how bad it is, and what to do next. Fails if there is anything.

    Example: waybill index divergence
    """
    chosen = None if message is None else options.message_id(message)
    from indexer.sinks.history import STORE_DIFFERS, History

    workspace = Workspace.of(network)
    with open_index(workspace) as index, open_for_reading(workspace) as (engine, lake):
        # What the running index noted of store and lake is of its last look; here they are compared whole, and now.
        found = [item for item in index.divergences() if item.kind != STORE_DIFFERS]
        found += History(engine, lake).disagreements()
    found = [item for item in found if chosen in (None, item.message_id)]
    value: list[dict[str, Any]] = [
        {
            "kind": item.kind,
            "severity": item.severity,
            "message_id": item.message_id,
            "source_chain": item.source_chain,
            "destination_chain": item.destination_chain,
            "evidence": item.evidence,
            "next": item.next_action,
        }
        for item in found
    ]
    result({"divergences": value}, as_json=as_json, render=lambda console: _draw(console, value))
    if value:
        raise CliError(f"{len(value)} divergences: {', '.join(sorted({item['kind'] for item in value}))}")


def _draw(console: Console, value: list[dict[str, Any]]) -> None:
    if not value:
        console.print("no divergence: nothing that the chains say contradicts")
    for item in value:
        where = f"0x{item['message_id'].hex()}" if item["message_id"] else "the lane as a whole"
        console.print(escaped(f"{item['severity'].upper()} {item['kind']}  {where}"), style="bold")
        console.print(escaped(f"  chains    {item['source_chain']} → {item['destination_chain']}"))
        console.print(escaped(f"  evidence  {item['evidence']}"))
        console.print(escaped(f"  next      {item['next']}"))
