"""`waybill status`: chains, queues and messages at one glance."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType

from bridge.cli import options
from bridge.cli.freshness import freshness
from bridge.cli.open_stores import index_if_any
from bridge.cli.output import CliError, facts, result, rows_table, with_network
from bridge.cli.overview import overview
from bridge.cli.workspace import Workspace
from bridge.protocol.times import readable


def status(
    *,
    max_behind: options.MaxBehind = None,
) -> None:
    """Show the health of chains, relayer and index: queues, held lanes, state changes not applied yet, streams.

    Exits with status 1 if a chain can't be reached, with 5 if the index is behind.

    Example: waybill status
    """
    workspace = Workspace.current()
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


_CHAINS: Final = {
    "name": "chain",
    "chainId": "id",
    "head": "head",
    "indexed": "indexed",
    "blocksBehind": "behind",
    "error": "state",
}
_OUTBOX: Final = {
    "lane": "lane",
    "gmp": "GMP",
    "state": "deliveries",
    "count": "count",
    "failing": "failed at least once",
}
_REPLACEMENTS: Final = {
    "gmp": "adapter replaced",
    "chain": "on",
    "toFormer": "deliveries to the former one",
    "toNew": "to the new one, which wait",
}
_PAUSES: Final = {"gmp": "GMP paused", "chain": "on", "until": "until"}
_HELD: Final = {"lane": "lane held", "state": "state", "reason": "reason", "by": "by"}
_BREAKERS: Final = {
    "gmp": "GMP",
    "destination": "to",
    "state": "circuit breaker",
    "failures": "failures in a row",
}
_CHANGES: Final = {"lane": "state changes on", "primaryFinal": "final", "applied": "applied", "lagSeconds": "lag (s)"}
_NOT_APPLIED: Final = {
    "messageId": "state change not applied",
    "state": "state",
    "propagations": "re-propagated",
    "problem": "problem",
}


def _drawn(value: Mapping[str, Any]) -> Group:
    """The overview for people."""
    chains = [row | {"error": row["error"] or "up"} for row in value["chains"]]
    parts: list[RenderableType] = [rows_table(chains, _CHAINS), ""]
    parts += _table(value["outbox"], _OUTBOX) or ["no deliveries: no relayer has run, or nothing was sent", ""]
    parts += _table(value["replacements"], _REPLACEMENTS)
    paused = [row | {"until": f"{readable(row['until'])} UTC"} for row in value["gmpPauses"]]
    parts += _table(paused, _PAUSES)
    parts += _table(value["lanes"], _HELD)
    parts += _table([row for row in value["breakers"] if row["state"] != "CLOSED"], _BREAKERS)
    sync = value["sync"] or {"lanes": (), "pending": ()}
    parts += _table(sync["lanes"], _CHANGES)
    parts += _table(sync["pending"], _NOT_APPLIED)
    messages = ", ".join(f"{count} {state}" for state, count in sorted(value["messages"].items()))
    parts.append(f"messages  {messages or 'none: no index has run, or nothing was sent'}")
    if value["retries"]:
        parts.append("retries   " + ", ".join(f"{count} {state}" for state, count in sorted(value["retries"].items())))
    if streams := _streams(value["streams"]):
        parts += ["", "streams", facts(streams)]
    return Group(*parts)


def _table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> list[RenderableType]:
    """A table and an empty line; nothing without rows."""
    return [rows_table(rows, columns), ""] if rows else []


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
