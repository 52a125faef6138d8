"""`waybill status`: summarises the health of chains, relayer and index."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType

from bridge.cli import options
from bridge.cli.freshness import freshness
from bridge.cli.output import CliError, details, result, rows_table, with_network
from bridge.cli.workspace import Workspace
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import Block
from bridge.protocol.times import readable
from bridge.queries.lanes import GmpPause, gmp_pauses
from bridge.queries.overview import chain_value, overview_value, pause_value, stream_value, sync_value
from bridge.service.connections import ask_chains

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
_PAUSES: Final = {"gmp": "GMP paused", "chain": "on", "until": "until (UTC)"}
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


def status(
    *,
    max_behind: options.MaxBehind = None,
) -> None:
    """Show the health of chains, relayer and index: queues, held lanes, unapplied state changes, streams.

    Exits with status 1 if a chain is unreachable, and with status 5 if the index is behind.

    Example: waybill status
    """
    workspace = Workspace.current()
    deployment, now = workspace.deployment(), time.time()
    answers, silent = asyncio.run(ask_chains(deployment, workspace.settings(), _head_and_pauses))
    heads = {chain_id: head for chain_id, (head, _) in answers.items()}
    with workspace.relayer_store() as store, workspace.index_if_any() as index:
        fresh = freshness(workspace, index, max_behind, heads) if index else None
        indexed = {chain.chain_id: chain.block for chain in index.chains()} if index else {}
        value = {
            "network": workspace.network,
            "chains": [
                chain_value(
                    one,
                    heads[one.chain_id].number if one.chain_id in heads else None,
                    indexed.get(one.chain_id),
                    silent.get(one.chain_id),
                )
                for one in deployment.chains
            ],
            "gmpPauses": [pause_value(one, deployment) for _, pauses in answers.values() for one in pauses],
            **overview_value(deployment, store, index, now),
            "sync": sync_value(deployment, store) if store else None,
            "streams": stream_value(store.streams.status(), now) if store else None,
            "index": fresh and fresh.value(),
        }
    shown = [part for drawn in _drawn(value) for part in (drawn, "")]
    result(value, *([fresh.line] if fresh else ()), *shown[:-1])
    if silent:
        names = {chain.chain_id: chain.name for chain in deployment.chains}
        raise CliError("; ".join(f"{names[chain_id]}: {problem}" for chain_id, problem in silent.items()))
    if fresh is not None:
        fresh.require()


async def _head_and_pauses(deployed: ChainDeployment, chain: EvmChain) -> tuple[Block, list[GmpPause]]:
    return await chain.head(), await gmp_pauses(deployed, chain)


def _drawn(value: Mapping[str, Any]) -> list[RenderableType]:
    """Returns the non-empty tables, and the counts."""
    sync = value["sync"] or {"lanes": (), "pending": ()}
    tables: list[tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]] = [
        ([row | {"error": row["error"] or "up"} for row in value["chains"]], _CHAINS),
        (value["outbox"], _OUTBOX),
        ([row | {"until": readable(row["until"])} for row in value["gmpPauses"]], _PAUSES),
        (value["lanes"], _HELD),
        ([row for row in value["breakers"] if row["state"] != "CLOSED"], _BREAKERS),
        (sync["lanes"], _CHANGES),
        (sync["pending"], _NOT_APPLIED),
    ]
    drawn: list[RenderableType] = [rows_table(rows, columns) for rows, columns in tables if rows]
    if not value["outbox"]:
        drawn.append("no deliveries: no relayer has run, or no message was sent")
    counts = {
        "messages": value["messages"] or "none: no index has run, or no message was sent",
        "retries": value["retries"],
    }
    drawn.append(details(counts))
    streams = value["streams"]
    if streams and (streams["recording"] or streams["waiting"]):
        drawn.append(details({"streams": "to Apache Kafka", **_with_next_step(streams)}))
    return drawn


def _with_next_step(streams: Mapping[str, Any]) -> dict[str, Any]:
    halted = streams["halted"] and with_network(f"{streams['halted']}; then `waybill lane resume --streams`")
    return {**streams, "halted": halted}
