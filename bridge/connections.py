"""Chains as the settings have them: their endpoints instead of the deployments file's, and how these are asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from bridge.chains import EvmChain, open_chains
from bridge.protocol.deployment import Deployment
from bridge.settings import Settings


@asynccontextmanager
async def connected(
    deployment: Deployment, settings: Settings, chain_ids: Collection[int] | None = None
) -> AsyncIterator[dict[int, EvmChain]]:
    """Connects to the chains of a network, or to those given, and closes them afterwards.

    Raises:
        WrongChainIdError: an endpoint is of another chain.
        TransientError: a chain has no endpoint that answers.
    """
    policies, urls = settings.endpoint_policies(deployment), settings.rpc_urls(deployment)
    async with open_chains(deployment, chain_ids, policies, urls) as chains:
        yield chains
