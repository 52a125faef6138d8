"""All chains of a network at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType

from bridge.chains.endpoints import Endpoints
from bridge.chains.evm import EvmChain
from bridge.chains.policy import EndpointPolicy
from bridge.protocol.deployment import Deployment


@asynccontextmanager
async def open_chains(
    deployment: Deployment,
    chain_ids: Collection[int] | None = None,
    policies: Mapping[int, EndpointPolicy] = MappingProxyType({}),
    rpc_urls: Mapping[int, Sequence[str]] = MappingProxyType({}),
    *,
    eager: bool = True,
) -> AsyncIterator[dict[int, EvmChain]]:
    """Connects to the chains of a network, or to those given, and closes them afterwards.

    Args:
        deployment: the network.
        chain_ids: which of its chains; None is all.
        policies: how to ask endpoints, by the chain's id, where it is not the usual way.
        rpc_urls: endpoints in place of the deployment's, by the chain's id.
        eager: look behind every URL now; else with the first request to it, and nothing is raised here.

    Raises:
        WrongChainIdError: an endpoint is of another chain.
        TransientError: a chain has no endpoint that answers.
    """
    async with AsyncExitStack() as stack:
        chains = {}
        for deployed in deployment.chains:
            if chain_ids is None or deployed.chain_id in chain_ids:
                urls = rpc_urls.get(deployed.chain_id) or deployed.rpc_urls
                policy = policies.get(deployed.chain_id, EndpointPolicy())
                chain = (
                    await EvmChain.connect(deployed.chain_id, urls, policy)
                    if eager
                    else EvmChain(deployed.chain_id, Endpoints(deployed.chain_id, urls, policy))
                )
                chains[deployed.chain_id] = await stack.enter_async_context(chain)
        yield chains
