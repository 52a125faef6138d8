"""`waybill status`: chains, queues and messages at one glance."""

from __future__ import annotations

import asyncio
from typing import Any

from rich.console import Console

from bridge.chains import EvmChain
from bridge.cli import options
from bridge.cli.output import CliError, result, table
from bridge.cli.reading import open_bridge_store, open_index
from bridge.cli.workspace import DEVNET, Workspace
from bridge.ports import TerminalError, TransientError
from bridge.protocol.deployment import ChainDeployment, Deployment


def status(*, network: options.Network = DEVNET, as_json: options.Json = False) -> None:
    """Say how chains, relayer and index do. Fails if a chain can't be reached.

    Example: waybill status
    """
    workspace = Workspace.of(network)
    deployment = workspace.deployment()
    chains = asyncio.run(_chains(deployment, _indexed(workspace)))
    value = {
        "network": network,
        "chains": chains,
        "outbox": _outbox(workspace, deployment),
        "retries": _retries(workspace),
        "messages": _messages(workspace),
    }
    result(value, as_json=as_json, render=lambda console: _draw(console, value))
    silent = [f"{chain['name']}: {chain['error']}" for chain in chains if chain["error"]]
    if silent:
        raise CliError("; ".join(silent))


def _indexed(workspace: Workspace) -> dict[int, int]:
    if not workspace.index_store.exists():
        return {}
    with open_index(workspace) as index:
        return {chain.chain_id: chain.block for chain in index.chains()}


async def _chains(deployment: Deployment, indexed: dict[int, int]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_chain(deployed, indexed) for deployed in deployment.chains)))


async def _chain(deployed: ChainDeployment, indexed: dict[int, int]) -> dict[str, Any]:
    head, error = None, None
    try:
        async with await EvmChain.connect(deployed.chain_id, deployed.rpc_urls, retry_seconds=2) as chain:
            head = (await chain.head()).number
    except (TransientError, TerminalError) as reason:
        error = str(reason)
    return {
        "name": deployed.name,
        "chainId": deployed.chain_id,
        "head": head,
        "indexed": indexed.get(deployed.chain_id),
        "error": error,
    }


def _outbox(workspace: Workspace, deployment: Deployment) -> list[dict[str, Any]]:
    names = {chain.chain_id: chain.name for chain in deployment.chains}
    with open_bridge_store(workspace) as store:
        counts = store.outbox.counts() if store else []
    return [
        {
            "lane": f"{names.get(count.source_chain, count.source_chain)} → "
            f"{names.get(count.destination_chain, count.destination_chain)}",
            "gmp": count.gmp.label,
            "state": count.state.value,
            "count": count.count,
            "failing": count.failing,
        }
        for count in counts
    ]


def _retries(workspace: Workspace) -> dict[str, int]:
    with open_bridge_store(workspace) as store:
        return {state.value: count for state, count in store.retries.counts().items()} if store else {}


def _messages(workspace: Workspace) -> dict[str, int]:
    if not workspace.index_store.exists():
        return {}
    with open_index(workspace) as index:
        return {state.value: count for state, count in index.counts_by_status().items()}


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
    messages = ", ".join(f"{count} {state}" for state, count in sorted(value["messages"].items()))
    console.print(f"messages  {messages or 'none: no index has run, or nothing was sent'}")
    if value["retries"]:
        retries = ", ".join(f"{count} {state}" for state, count in sorted(value["retries"].items()))
        console.print(f"retries   {retries}")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
