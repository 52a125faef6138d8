"""The answer of `waybill status` and the HTTP API about a network: chains, queues, lanes, GMPs and messages at one glance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from bridge.cli.open_stores import index_if_any, open_relayer_store
from bridge.cli.workspace import Workspace
from bridge.domain.jobs import RetryJob, totals
from bridge.domain.ports import TerminalError, TransientError
from bridge.evm.chain import EvmChain
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.queries.lanes import chain_name, lane_change_value, queue_value
from bridge.relayer.breaker import breakers
from bridge.rpc.answers import WrongChainError

_CHAIN_SECONDS: Final = 3.0


async def overview(workspace: Workspace, chains: Mapping[int, EvmChain] | None = None) -> dict[str, Any]:
    """Asks the chains, and reads what relayer and index keep. Neither needs to run, nor to have run.

    Args:
        workspace: the network.
        chains: its chains by id; None connects to them for this answer.
    """
    deployment = workspace.deployment()
    heads = await _chains(workspace, deployment, chains)
    return await asyncio.to_thread(_kept, workspace, deployment, heads)


def _kept(workspace: Workspace, deployment: Deployment, heads: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "network": workspace.network,
        "chains": heads,
        "outbox": _outbox(workspace, deployment),
        "lanes": _lanes(workspace, deployment),
        "breakers": _breakers(workspace, deployment),
        "retries": _retries(workspace),
        "messages": _messages(workspace),
    }


def _indexed(workspace: Workspace) -> dict[int, int]:
    with index_if_any(workspace) as index:
        return {chain.chain_id: chain.block for chain in index.chains()} if index else {}


async def _chains(
    workspace: Workspace, deployment: Deployment, chains: Mapping[int, EvmChain] | None
) -> list[dict[str, Any]]:
    indexed, urls = await asyncio.to_thread(_indexed, workspace), workspace.settings().rpc_urls(deployment)

    async def head_of(deployed: ChainDeployment) -> int:
        if chains is not None:
            async with asyncio.timeout(_CHAIN_SECONDS):
                return (await chains[deployed.chain_id].head()).number
        asked = urls.get(deployed.chain_id) or deployed.rpc_urls
        async with await EvmChain.connect(deployed.chain_id, asked, retry_seconds=2) as chain:
            return (await chain.head()).number

    return list(await asyncio.gather(*(_chain(one, head_of(one), indexed) for one in deployment.chains)))


async def _chain(deployed: ChainDeployment, asked: Awaitable[int], indexed: Mapping[int, int]) -> dict[str, Any]:
    head, error = None, None
    try:
        head = await asked
    except (TransientError, TerminalError, WrongChainError, TimeoutError) as reason:
        error = str(reason) or "no answer in time"
    return {
        "name": deployed.name,
        "chainId": deployed.chain_id,
        "head": head,
        "indexed": indexed.get(deployed.chain_id),
        "error": error,
    }


def _outbox(workspace: Workspace, deployment: Deployment) -> list[dict[str, Any]]:
    with open_relayer_store(workspace) as store:
        counts = store.outbox.counts() if store else []
    return [queue_value(count, deployment) for count in counts]


def _lanes(workspace: Workspace, deployment: Deployment) -> list[dict[str, Any]]:
    with open_relayer_store(workspace) as store:
        held = store.lanes.held() if store else []
    return [lane_change_value(change, deployment) for change in held]


def _breakers(workspace: Workspace, deployment: Deployment) -> list[dict[str, Any]]:
    settings, now = workspace.settings().relay().breaker, time.time()
    with open_relayer_store(workspace) as store:
        found = breakers(store.figures.recent(now - settings.memory), settings) if store else {}
    return [
        {
            "gmp": gmp.label,
            "destination": chain_name(deployment, destination),
            "state": breaker.state(now).value,
            "failures": breaker.failures,
            "probesAt": breaker.probes_at,
        }
        for (gmp, destination), breaker in sorted(found.items())
    ]


def _retries(workspace: Workspace) -> dict[str, int]:
    with open_relayer_store(workspace) as store:
        return dict(totals(store.jobs.counts(RetryJob))) if store else {}


def _messages(workspace: Workspace) -> dict[str, int]:
    with index_if_any(workspace) as index:
        return {state.value: count for state, count in index.counts_by_status().items()} if index else {}
