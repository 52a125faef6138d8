"""Assembles a tripwire from the index's divergences, the relayer's endpoints and store, and a separate key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing

import structlog

from bridge.evm.chain import EvmChain
from bridge.evm.sender import Sender
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.indexed import IndexSource
from bridge.protocol.ports import TransientError, read_view
from bridge.service.connections import connected
from bridge.service.dead_letter_service import channels
from bridge.service.relayer_service import SystemClock, worker_name
from bridge.service.settings import Settings
from bridge.service.startup_checks import check_tripwire
from bridge.settings import SettingsError
from bridge.store import open_store
from bridge.store.lock import working_on
from bridge.store.observations import Finality
from bridge.tripwire.evidence import Evidence
from bridge.tripwire.tripwire import Tripwire

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_tripwire(deployment: Deployment, settings: Settings, index: IndexSource) -> AsyncIterator[Tripwire]:
    """Opens the relayer's store, connects to the chains, and assembles a tripwire.

    A chain that is down is added once it responds.

    Raises:
        SettingsError: see `check_tripwire` and `_check_roles`.
        StoreError: the store is unusable.
        WrongChainError: an endpoint serves a different chain.
    """
    signer = check_tripwire(settings, deployment)
    chosen, clock = settings.tripwire, SystemClock()
    async with connected(deployment, settings, may_be_down=True) as chains:
        await _check_roles(deployment, chains, signer.address)
        with working_on(settings.store, worker_name()), closing(open_store(settings.store)) as store:
            senders = {
                deployed.chain_id: Sender(
                    chains[deployed.chain_id],
                    signer,
                    store.transactions,
                    clock,
                    finality=Finality(store.observations, deployed.chain_id),
                    settings=settings.tripwire.sending(),
                )
                for deployed in deployment.chains
            }
            yield Tripwire(
                deployment,
                chains=chains,
                senders=senders,
                evidence=Evidence(deployment, chains, index, max_clock_skew=chosen.max_clock_skew),
                accusations=store.accusations,
                channels=channels(settings.dlq.alerts),
                clock=clock,
                settings=chosen,
            )


async def _check_roles(deployment: Deployment, chains: Mapping[int, EvmChain], account: str) -> None:
    """Checks that the routers accept pauses from an account. A chain that does not respond is not checked.

    Raises:
        SettingsError: a router's tripwire is a different account.
    """

    async def problem(deployed: ChainDeployment) -> str | None:
        try:
            named = await read_view(chains[deployed.chain_id], ROUTER, deployed.router, "tripwire")
        except TransientError:
            return None
        if named.lower() == account.lower():
            return None
        return (
            f"the router on {deployed.name} names {named} as its tripwire, not {account}: the owner calls setTripwire"
        )

    if problems := list(filter(None, await asyncio.gather(*map(problem, deployment.chains)))):
        raise SettingsError("\n".join(problems))
