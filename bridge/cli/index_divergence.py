"""`waybill index divergence`: facts on the chains that contradict one another."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli import options
from bridge.cli.freshness import freshness
from bridge.cli.index_proof import open_for_reading
from bridge.cli.output import escaped, progress, result
from bridge.cli.reading import open_index
from bridge.cli.workspace import DEVNET, Workspace


def divergence(
    message: Annotated[str | None, typer.Argument(help="Only those of this message.", metavar="[ID]")] = None,
    *,
    max_behind: options.MaxBehind = None,
    network: options.Network = DEVNET,
    as_json: options.Json = False,
) -> None:
    """Print what contradicts: evidence, how bad it is, and what to do next. Fails if there is anything.

    Ends with 5 if there is nothing, and the index is behind.

    Example: waybill index divergence
    """
    chosen = None if message is None else options.message_id(message)
    from indexer.errors import LakeDamagedError
    from indexer.sinks.history import STORE_DIFFERS, History

    workspace, damage = Workspace.of(network), ""
    with open_index(workspace) as index:
        # What the running index noted of store and lake is of its last look; here they are compared whole, and now.
        found = [item for item in index.divergences() if item.kind != STORE_DIFFERS]
        try:
            with open_for_reading(workspace) as (engine, lake):
                found += History(engine, lake).disagreements()
        except LakeDamagedError as error:
            damage = f"what follows is of the store alone: {error}"
        fresh = freshness(workspace, index, max_behind)
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
    if damage:
        progress(damage)

    def draw(console: Console) -> None:
        fresh.draw(console)
        _draw(console, value, is_whole=not damage)

    result({"index": fresh.value(), "divergences": value, "damage": damage or None}, as_json=as_json, render=draw)
    failures = ["whether store and lake agree is not known: the lake is damaged"] * bool(damage)
    if value:
        failures.append(f"{len(value)} divergences: {', '.join(sorted({item['kind'] for item in value}))}")
    if (ending := fresh.error(*failures)) is not None:
        raise ending


def _draw(console: Console, value: list[dict[str, Any]], *, is_whole: bool) -> None:
    if not value and is_whole:
        console.print("no divergence: nothing contradicts, as far as the index has read")
    for item in value:
        where = f"0x{item['message_id'].hex()}" if item["message_id"] else "the lane as a whole"
        console.print(escaped(f"{item['severity'].upper()} {item['kind']}  {where}"), style="bold")
        console.print(escaped(f"  chains    {item['source_chain']} → {item['destination_chain']}"))
        console.print(escaped(f"  evidence  {item['evidence']}"))
        console.print(escaped(f"  next      {item['next']}"))
