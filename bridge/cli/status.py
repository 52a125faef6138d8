"""`waybill status`: chains, queues and messages at one glance."""

from __future__ import annotations

import asyncio
from typing import Any

from rich.console import Console

from bridge.cli import options
from bridge.cli.output import CliError, result, table
from bridge.cli.overview import overview
from bridge.cli.workspace import DEVNET, Workspace


def status(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Say how chains, relayer and index do. Fails if a chain can't be reached.

    Example: waybill status
    """
    workspace = Workspace.of(network)
    value = asyncio.run(overview(workspace))
    result(value, as_json=as_json, render=lambda console: _draw(console, value))
    silent = [f"{chain['name']}: {chain['error']}" for chain in value["chains"] if chain["error"]]
    if silent:
        raise CliError("; ".join(silent))


def _draw(console: Console, value: dict[str, Any]) -> None:
    rows = [
        [
            chain["name"],
            str(chain["chainId"]),
            _number(chain["head"]),
            _number(chain["indexed"]),
            chain["error"] or "up",
        ]
        for chain in value["chains"]
    ]
    console.print(table(None, ["chain", "id", "head", "indexed", "state"], rows))
    console.print()
    if value["outbox"]:
        queue = [
            [row["lane"], row["gmp"], row["state"], str(row["count"]), str(row["failing"])] for row in value["outbox"]
        ]
        console.print(table(None, ["lane", "GMP", "deliveries", "count", "failing"], queue))
    else:
        console.print("no deliveries: no relayer has run, or nothing was sent")
    console.print()
    _draw_held(console, value)
    messages = ", ".join(f"{count} {state}" for state, count in sorted(value["messages"].items()))
    console.print(f"messages  {messages or 'none: no index has run, or nothing was sent'}")
    if value["retries"]:
        retries = ", ".join(f"{count} {state}" for state, count in sorted(value["retries"].items()))
        console.print(f"retries   {retries}")


def _draw_held(console: Console, value: dict[str, Any]) -> None:
    """What is not worked on, and why; nothing if everything is."""
    if value["lanes"]:
        held = [[row["lane"], row["state"], row["reason"], row["by"]] for row in value["lanes"]]
        console.print(table(None, ["lane held", "state", "reason", "by"], held))
        console.print()
    tripped = [row for row in value["breakers"] if row["state"] != "CLOSED"]
    if tripped:
        rows = [[row["gmp"], row["destination"], row["state"], str(row["failures"])] for row in tripped]
        console.print(table(None, ["GMP", "to", "circuit breaker", "failures in a row"], rows))
        console.print()


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
