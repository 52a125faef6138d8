"""The answer of `waybill status` and the HTTP API about a network: what its chains say, and what relayer and index keep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge.cli.open_stores import index_if_any, open_relayer_store
from bridge.cli.pending import sync_value
from bridge.cli.workspace import Workspace
from bridge.deploy.plan import adapter_numbers
from bridge.evm.chain import EvmChain
from bridge.evm.rpc_answers import WrongChainError
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.ports import TerminalError, TransientError
from bridge.protocol.times import iso
from bridge.queries.gmp_pauses import GmpPause, gmp_pauses
from bridge.queries.lanes import chain_name
from bridge.queries.overview import chain_value, overview_value
from bridge.queries.replacements import replacement_values
from bridge.queries.streams import stream_value


async def overview(workspace: Workspace) -> dict[str, Any]:
    """Asks the chains, and reads what relayer and index keep. Neither needs to run, nor to have run."""
    deployment = workspace.deployment()
    heads = await asyncio.gather(*(_asked(workspace, deployed) for deployed in deployment.chains))

    def read() -> dict[str, Any]:
        with open_relayer_store(workspace) as store, index_if_any(workspace) as index:
            indexed = {chain.chain_id: chain.block for chain in index.chains()} if index else {}
            numbers = adapter_numbers(workspace.plan_file)
            asked = zip(deployment.chains, heads, strict=True)
            return {
                "network": workspace.network,
                "chains": [chain_value(one, said.head, indexed.get(one.chain_id), said.error) for one, said in asked],
                "gmpPauses": [
                    {"gmp": one.gmp.label, "chain": chain_name(deployment, one.chain_id), "until": iso(one.until)}
                    for said in heads
                    for one in said.gmp_pauses
                ],
                **overview_value(deployment, store, index, time.time()),
                "replacements": replacement_values(deployment, numbers, store),
                "sync": sync_value(deployment, store) if store else None,
                "streams": stream_value(store.streams.status(), time.time()) if store else None,
            }

    return await asyncio.to_thread(read)


@dataclass(frozen=True, slots=True)
class _Said:
    """The number of a chain's newest block and the GMPs paused there, or why it does not say."""

    head: int | None = None
    gmp_pauses: Sequence[GmpPause] = ()
    error: str | None = None

    @classmethod
    async def by(cls, deployed: ChainDeployment, chain: EvmChain) -> _Said:
        return cls((await chain.head()).number, await gmp_pauses(deployed, chain))


async def _asked(workspace: Workspace, deployed: ChainDeployment) -> _Said:
    settings, deployment = workspace.settings(), workspace.deployment()
    urls, origin = settings.rpc_urls(deployment), settings.endpoint_policies(deployment)[deployed.chain_id].origin
    try:
        asked = urls.get(deployed.chain_id) or deployed.rpc_urls
        async with await EvmChain.connect(
            deployed.chain_id, asked, try_seconds=2, origin=origin, chain_name=deployed.name
        ) as chain:
            return await _Said.by(deployed, chain)
    except (TransientError, TerminalError, WrongChainError) as reason:
        return _Said(error=str(reason))
