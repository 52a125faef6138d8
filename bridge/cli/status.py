"""`waybill status`: chains, queues and messages at one glance."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live

from bridge.cli import options
from bridge.cli.freshness import freshness
from bridge.cli.open_stores import index_if_any
from bridge.cli.output import CliError, facts, result, table, with_network
from bridge.cli.overview import overview
from bridge.cli.root import current
from bridge.cli.workspace import Workspace
from bridge.protocol.times import readable

_LOOK_SECONDS = 1.0


def status(
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")] = False,
    max_behind: options.MaxBehind = None,
) -> None:
    """Show the health of chains, relayer and index: queues, held lanes, state changes not applied yet, streams.

    Exits with status 1 if a chain can't be reached, with 5 if the index is behind.

    Example: waybill status --watch
    """
    workspace = Workspace.current()
    if watch:
        asyncio.run(_watch(workspace))
        return
    with index_if_any(workspace) as index:
        fresh = freshness(workspace, index, max_behind) if index else None
    value = asyncio.run(overview(workspace)) | {"index": fresh and fresh.value()}

    def draw(console: Console) -> None:
        if fresh is not None:
            fresh.draw(console)
        console.print(_drawn(value))

    result(value, render=draw)
    silent = [f"{chain['name']}: {chain['error']}" for chain in value["chains"] if chain["error"]]
    if silent:
        raise CliError("; ".join(silent))
    if fresh is not None and (error := fresh.error()) is not None:
        raise error


async def _watch(workspace: Workspace) -> None:
    """One screen that follows the network; with --json a line for every look."""
    if current().as_json:
        while True:
            sys.stdout.write(json.dumps(await overview(workspace), default=str) + "\n")
            sys.stdout.flush()
            await asyncio.sleep(_LOOK_SECONDS)
    console = Console(highlight=False)
    with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            title = f"[bold]{workspace.network}[/bold]  {time.strftime('%H:%M:%S')}  (Ctrl-C ends it)\n"
            live.update(Group(title, _drawn(await overview(workspace))), refresh=True)
            await asyncio.sleep(_LOOK_SECONDS)


def _drawn(value: Mapping[str, Any]) -> Group:
    """The overview for people."""
    rows = [
        [
            chain["name"],
            str(chain["chainId"]),
            _number(chain["head"]),
            _number(chain["indexed"]),
            _number(chain["blocksBehind"]),
            chain["error"] or "up",
        ]
        for chain in value["chains"]
    ]
    parts: list[RenderableType] = [table(None, ["chain", "id", "head", "indexed", "behind", "state"], rows), ""]
    if value["outbox"]:
        queue = [
            [row["lane"], row["gmp"], row["state"], str(row["count"]), str(row["failing"])] for row in value["outbox"]
        ]
        parts.append(table(None, ["lane", "GMP", "deliveries", "count", "failed at least once"], queue))
    else:
        parts.append("no deliveries: no relayer has run, or nothing was sent")
    if value["replacements"]:
        columns = ["adapter replaced", "on", "deliveries to the former one", "to the new one, which wait"]
        replaced = [
            [row["gmp"], row["chain"], str(row["toFormer"]), str(row["toNew"])] for row in value["replacements"]
        ]
        parts += ["", table(None, columns, replaced)]
    parts += ["", *_held(value)]
    messages = ", ".join(f"{count} {state}" for state, count in sorted(value["messages"].items()))
    parts.append(f"messages  {messages or 'none: no index has run, or nothing was sent'}")
    if value["retries"]:
        parts.append("retries   " + ", ".join(f"{count} {state}" for state, count in sorted(value["retries"].items())))
    parts += _changes(value["sync"])
    if streams := _streams(value["streams"]):
        parts += ["", "streams", facts(streams)]
    return Group(*parts)


def _held(value: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What is not worked on, and why; nothing if everything is."""
    if value["gmpPauses"]:
        paused = [[row["gmp"], row["chain"], f"{readable(row['until'])} UTC"] for row in value["gmpPauses"]]
        yield from (table(None, ["GMP paused", "on", "until"], paused), "")
    if value["lanes"]:
        held = [[row["lane"], row["state"], row["reason"], row["by"]] for row in value["lanes"]]
        yield from (table(None, ["lane held", "state", "reason", "by"], held), "")
    tripped = [row for row in value["breakers"] if row["state"] != "CLOSED"]
    if tripped:
        rows = [[row["gmp"], row["destination"], row["state"], str(row["failures"])] for row in tripped]
        yield from (table(None, ["GMP", "to", "circuit breaker", "failures in a row"], rows), "")


def _changes(value: Mapping[str, Any] | None) -> Iterator[RenderableType]:
    """How far state changes are on each lane; nothing if none is followed."""
    if value is None or not (value["lanes"] or value["pending"]):
        return
    lanes = [
        [row["lane"], str(row["primaryFinal"]), str(row["applied"]), f"{row['lagSeconds']:.0f} s"]
        for row in value["lanes"]
    ]
    yield from ("", table(None, ["state changes on", "final", "applied", "lag"], lanes))
    if value["pending"]:
        pending = [
            [row["messageId"], row["state"], str(row["propagations"]), row["problem"]] for row in value["pending"]
        ]
        yield table("\nnot applied", ["message", "state", "re-propagated", "problem"], pending)


def _streams(value: Mapping[str, Any] | None) -> dict[str, str]:
    """How far the streams to Kafka are; empty where nothing is published."""
    if value is None or not (value["recording"] or value["waiting"]):
        return {}
    age = "" if value["oldestSeconds"] is None else f", the oldest for {value['oldestSeconds']:.0f} s"
    lines = {
        "waiting": f"{value['waiting']}{age}",
        "sent": ", ".join(f"{count} {stream}" for stream, count in value["sent"].items() if count) or "nothing yet",
        "last version": str(value["version"]),
        "published by": value["publishedBy"] or "no relayer yet",
    }
    if value["error"]:
        lines["last error"] = value["error"]
    if value["halted"]:
        lines["halted"] = with_network(f"{value['halted']}; then `waybill lane resume --streams`")
    return lines


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
