"""Chains behind Web3 objects of the user's own, with their providers, headers and credentials."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from web3 import AsyncWeb3, Web3

from bridge.domain.ports import TransientError
from bridge.evm.chain import EvmChain, open_chains
from bridge.evm.transport import Endpoints
from bridge.protocol.deployment import Deployment, DeploymentError
from bridge.rpc.answers import TransientRpcError
from bridge.rpc.policy import EndpointPolicy


class Web3Exchange:
    """See `Exchange`: requests go through a Web3's provider. Middleware changes values, not requests, so none is applied."""

    def __init__(self, web3: AsyncWeb3[Any] | Web3) -> None:
        """Asks nothing yet; the provider's connections stay its owner's."""
        self._web3 = web3

    async def ask(self, method: str, params: Sequence[Any]) -> dict[str, Any]:
        """See `Exchange.ask`."""
        make: Any = self._web3.provider.make_request
        try:
            if inspect.iscoroutinefunction(make):
                answer = await make(method, list(params))
            else:
                answer = await asyncio.to_thread(make, method, list(params))
        except Exception as error:
            # Each provider has errors of its own for a node that does not answer.
            raise TransientRpcError(f"{type(error).__name__}: {error}") from error
        return dict(answer)

    async def close(self) -> None:
        """See `Exchange.close`; its owner closes the provider."""


def own_web3(*given: AsyncWeb3[Any] | Web3) -> Callable[[Deployment], AbstractAsyncContextManager[dict[int, EvmChain]]]:
    """How a network's chains are connected to through those Web3 objects, and through the deployment's URLs for all others.

    Example:
        ::

            with BlockingClient(deployment, own_web3(Web3(HTTPProvider(url))), account) as client:
                client.route("alpha", request)

    Raises:
        DeploymentError: on opening: a Web3 is of a chain that the network does not have.
        TransientError: on opening: a chain does not answer.
    """

    @asynccontextmanager
    async def opened(deployment: Deployment) -> AsyncIterator[dict[int, EvmChain]]:
        async with AsyncExitStack() as stack:
            chains: dict[int, EvmChain] = {}
            for web3 in given:
                chain_id = await _chain_id(web3)
                if chain_id not in {chain.chain_id for chain in deployment.chains}:
                    raise DeploymentError(
                        f"a Web3 is of chain {chain_id}, which network {deployment.network} does not have"
                    )
                endpoints = Endpoints(chain_id, [f"web3://{chain_id}"], EndpointPolicy(), _through(web3))
                chains[chain_id] = await stack.enter_async_context(EvmChain(chain_id, endpoints))
            rest = [chain.chain_id for chain in deployment.chains if chain.chain_id not in chains]
            yield chains | await stack.enter_async_context(open_chains(deployment, rest))

    return opened


def _through(web3: AsyncWeb3[Any] | Web3) -> Callable[[str, EndpointPolicy], Web3Exchange]:
    return lambda _url, _policy: Web3Exchange(web3)


async def _chain_id(web3: AsyncWeb3[Any] | Web3) -> int:
    try:
        answer = await Web3Exchange(web3).ask("eth_chainId", [])
        return int(answer["result"], 16)
    except (TransientRpcError, KeyError, TypeError, ValueError) as error:
        raise TransientError(f"a Web3 does not say which chain it is of: {error}") from error
