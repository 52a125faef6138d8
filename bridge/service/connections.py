"""Chains as the settings have them: their endpoints instead of the deployments file's, and how these are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from bridge.evm.chain import EvmChain, open_chains
from bridge.protocol.deployment import Deployment
from bridge.settings import Settings


@asynccontextmanager
async def connected(
    deployment: Deployment, settings: Settings, chain_ids: Collection[int] | None = None, *, eager: bool = True
) -> AsyncIterator[dict[int, EvmChain]]:
    """Connects to the chains of a network, or to those given, and closes them afterwards; see `open_chains`."""
    policies, urls = settings.endpoint_policies(deployment), settings.rpc_urls(deployment)
    async with open_chains(deployment, chain_ids, policies, urls, eager=eager) as chains:
        yield chains
