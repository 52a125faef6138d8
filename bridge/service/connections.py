"""Connects to chains with the endpoints and policies of the settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from urllib.parse import urlsplit

from bridge.evm.chain import EvmChain, open_chains
from bridge.evm.endpoint_policy import require_endpoints
from bridge.evm.rpc_answers import RpcError, WrongChainError
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.ports import Block, TerminalError, TransientError
from bridge.service.settings import Settings
from bridge.settings import SettingsError

T = TypeVar("T")

_PATIENCE: Final = 10.0
"""Seconds to wait for a chain's head before a command continues without it."""

_TRY_SECONDS: Final = 2.0
"""Seconds to wait for the endpoints of a chain in `ask_chains`."""

_THIS_MACHINE: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@asynccontextmanager
async def connected(
    deployment: Deployment,
    settings: Settings,
    chain_ids: Collection[int] | None = None,
    *,
    eager: bool = True,
    may_be_down: bool = False,
) -> AsyncIterator[dict[int, EvmChain]]:
    """Connects to the given chains of a network, or to all of them, and closes the connections afterwards.

    See `open_chains`.
    """
    policies, urls = settings.endpoint_policies(deployment), settings.rpc_urls(deployment)
    async with open_chains(deployment, chain_ids, policies, urls, eager=eager, may_be_down=may_be_down) as chains:
        yield chains


async def newest_blocks(chains: Mapping[int, EvmChain]) -> dict[int, Block]:
    """Returns the heads of the chains that respond within a few seconds."""

    async def ask(chain: EvmChain) -> Block | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await chain.head()
        except (TransientError, TimeoutError):
            return None

    heads = await asyncio.gather(*map(ask, chains.values()))
    return {chain_id: head for chain_id, head in zip(chains, heads, strict=True) if head is not None}


async def ask_chains(
    deployment: Deployment, settings: Settings, ask: Callable[[ChainDeployment, EvmChain], Awaitable[T]]
) -> tuple[dict[int, T], dict[int, str]]:
    """Runs a query against every chain of a network. A chain that is down does not affect the other queries.

    Returns:
        The results, and the errors of the other chains, both by chain id.
    """
    policies, urls = settings.endpoint_policies(deployment), settings.rpc_urls(deployment)
    answers: dict[int, T] = {}
    problems: dict[int, str] = {}

    async def ask_one(deployed: ChainDeployment) -> None:
        chain_id = deployed.chain_id
        endpoints, origin = urls.get(chain_id) or deployed.rpc_urls, policies[chain_id].origin
        try:
            async with await EvmChain.connect(
                chain_id, endpoints, try_seconds=_TRY_SECONDS, origin=origin, chain_name=deployed.name
            ) as chain:
                answers[chain_id] = await ask(deployed, chain)
        except (TransientError, TerminalError, WrongChainError) as error:
            problems[chain_id] = str(error)

    await asyncio.gather(*map(ask_one, deployment.chains))
    return answers, problems


def check_endpoints(settings: Settings, deployment: Deployment) -> None:
    """Checks that each chain has at least as many endpoints as `agreement` requires. Sends no requests.

    Raises:
        SettingsError: a chain has too few endpoints.
    """
    policies, urls = settings.endpoint_policies(deployment), settings.rpc_urls(deployment)
    problems = []
    for deployed in deployment.chains:
        try:
            require_endpoints(
                deployed.chain_id, urls.get(deployed.chain_id) or deployed.rpc_urls, policies[deployed.chain_id]
            )
        except RpcError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("\n".join(problems))


def independent(urls: Collection[str]) -> int:
    """Returns the number of independent endpoints.

    URLs with the same host count once, except for URLs on this machine.
    """
    hosts = [urlsplit(url).hostname for url in urls]
    here = [host for host in hosts if host in _THIS_MACHINE]
    return len(here) + len(set(hosts) - _THIS_MACHINE)
