"""All chains of a network at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager

from bridge.chains.evm import EvmChain
from bridge.protocol.deployment import Deployment


@asynccontextmanager
async def open_chains(
    deployment: Deployment, chain_ids: Collection[int] | None = None
) -> AsyncIterator[dict[int, EvmChain]]:
    """Connects to the chains of a network, or to those given, and closes them afterwards.

    Raises:
        WrongChainIdError: an endpoint is of another chain.
        TransientError: a chain has no endpoint that answers.
    """
    async with AsyncExitStack() as stack:
        chains = {}
        for deployed in deployment.chains:
            if chain_ids is None or deployed.chain_id in chain_ids:
                chain = await EvmChain.connect(deployed.chain_id, deployed.rpc_urls)
                chains[deployed.chain_id] = await stack.enter_async_context(chain)
        yield chains
