"""Assembles a tripwire from the index's divergences, the relayer's endpoints and store, and a key of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial

import structlog

from bridge.evm.chain import EvmChain
from bridge.evm.sender import Sender
from bridge.evm.signing import Signer
from bridge.evm.supervision import retry_until_success
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.ports import TransientError, read_view
from bridge.service.connections import connected
from bridge.service.dead_letter_service import channels
from bridge.service.relayer_service import SystemClock, keep_lock, worker_name
from bridge.service.settings import Settings
from bridge.service.startup_checks import check_tripwire
from bridge.settings import SettingsError
from bridge.store import open_store
from bridge.store.finality import Finality
from bridge.store.lock import working_on
from bridge.tripwire.evidence import Evidence, FactSource
from bridge.tripwire.tripwire import Tripwire

_log = structlog.get_logger(__name__)

_ROLE_EVERY = 1.0  # seconds between two tries to read a role
_NO_ROLE = "the owner calls setTripwire, or --dry-run only reports"


@asynccontextmanager
async def open_tripwire(
    deployment: Deployment, settings: Settings, index: FactSource, *, is_dry_run: bool
) -> AsyncIterator[Tripwire]:
    """Opens the relayer's store, connects to the chains, and assembles a tripwire.

    A chain that is down joins once it answers.

    Raises:
        SettingsError: see `check_tripwire` and `_checking_roles`.
        StoreError: the store is unusable.
        WrongChainError: an endpoint serves another chain.
    """
    signer = check_tripwire(settings, deployment, is_dry_run=is_dry_run)
    chosen, clock = settings.tripwire, SystemClock()
    async with (
        connected(deployment, settings, may_be_down=True) as chains,
        _checking_roles(deployment, chains, signer),
    ):
        with working_on(settings.store, worker_name()) as lock, closing(open_store(settings.store)) as store:
            holding = asyncio.create_task(keep_lock(lock))
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
                if signer is not None
            }
            try:
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
            finally:
                holding.cancel()
                await asyncio.gather(holding, return_exceptions=True)


@asynccontextmanager
async def _checking_roles(
    deployment: Deployment, chains: Mapping[int, EvmChain], signer: Signer | None
) -> AsyncIterator[None]:
    """Checks that the routers accept pauses from the signer. A chain that is down is checked once it answers.

    Raises:
        SettingsError: a router names another account as its tripwire.
    """
    if signer is None:
        yield
        return

    async def problem(deployed: ChainDeployment) -> str | None:
        named = await read_view(chains[deployed.chain_id], ROUTER, deployed.router, "tripwire")
        if named.lower() == signer.address.lower():
            return None
        return f"the router on {deployed.name} names {named} as its tripwire, not {signer.address}"

    async def check_later(deployed: ChainDeployment) -> None:
        if found := await problem(deployed):
            _log.error("nothing can be paused there", reason=found, next=_NO_ROLE)

    found = await asyncio.gather(*map(problem, deployment.chains), return_exceptions=True)
    failures = [one for one in found if isinstance(one, BaseException) and not isinstance(one, TransientError)]
    if failures:
        raise failures[0]
    if problems := [one for one in found if isinstance(one, str)]:
        raise SettingsError("\n".join([*problems, _NO_ROLE]))
    later = [
        asyncio.create_task(
            retry_until_success(f"check the role on {deployed.name}", partial(check_later, deployed), every=_ROLE_EVERY)
        )
        for deployed, outcome in zip(deployment.chains, found, strict=True)
        if outcome is not None
    ]
    try:
        yield
    finally:
        for task in later:
            task.cancel()
        await asyncio.gather(*later, return_exceptions=True)
