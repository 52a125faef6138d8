"""Puts a tripwire together: its own endpoints, keys and file, and nothing of the relayer's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from bridge.domain.ports import TransientError, read_view
from bridge.domain.supervision import retry_until_success
from bridge.evm.chain import EvmChain, open_chains
from bridge.evm.signing import Signer
from bridge.metrics.samples import Samples
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.service.dead_letter_service import channels
from bridge.service.relayer_service import SystemClock
from bridge.service.startup_checks import check_tripwire
from bridge.settings import Settings, SettingsError
from bridge.tripwire.journal import Deed
from bridge.tripwire.pauser import Pauser
from bridge.tripwire.reader import ChainReader
from bridge.tripwire.store import TripwireStore
from bridge.tripwire.tripwire import Tripwire

_log = structlog.get_logger(__name__)

_REQUEST_SECONDS = 3.0  # a slow endpoint must not cost a block
_HEDGE_SECONDS = 0.5  # one that has not answered by then is asked again
_ROLE_EVERY = 1.0  # seconds between two tries to read a role
_NO_ROLE = "the owner calls setTripwire, or --dry-run only tells people"


@asynccontextmanager
async def open_tripwire(
    deployment: Deployment, settings: Settings, file: Path, *, is_dry_run: bool
) -> AsyncIterator[Tripwire]:
    """Opens the store, connects to the chains, and puts a tripwire together. A chain that is down is taken in when it answers.

    Raises:
        SettingsError: see `check_tripwire` and `_checking_roles`.
        StoreError: the store can't be used.
        WrongChainError: an endpoint is of another chain.
    """
    parts = check_tripwire(settings, deployment, is_dry_run=is_dry_run)
    signer = parts.signer
    chosen = replace(settings.tripwire.settings(), is_dry_run=is_dry_run)
    policy = replace(
        settings.tripwire.policy(),
        request_seconds=_REQUEST_SECONDS,
        try_seconds=_REQUEST_SECONDS,
        hedge_after=_HEDGE_SECONDS,
    )
    policies = {
        deployed.chain_id: replace(policy, origin=f"{deployed.name} in [tripwire.endpoints] of the settings")
        if deployed.name in settings.tripwire.endpoints
        else policy
        for deployed in deployment.chains
    }
    async with (
        open_chains(deployment, policies=policies, rpc_urls=parts.urls, may_be_down=True) as chains,
        _checking_roles(deployment, chains, signer),
    ):
        with closing(TripwireStore(file, parts.journal)) as store:
            readers = {
                deployed.chain_id: ChainReader(
                    chains[deployed.chain_id], deployed, store, block_range=chosen.block_range
                )
                for deployed in deployment.chains
            }
            pausers = {
                deployed.chain_id: Pauser(chains[deployed.chain_id], deployed.router, signer, max_fee=chosen.max_fee)
                for deployed in deployment.chains
                if signer is not None
            }
            yield Tripwire(
                deployment,
                readers=readers,
                pausers=pausers,
                store=store,
                channels=channels(settings.dlq.alerts),
                clock=SystemClock(),
                settings=chosen,
            )


@asynccontextmanager
async def _checking_roles(
    deployment: Deployment, chains: Mapping[int, EvmChain], signer: Signer | None
) -> AsyncIterator[None]:
    """Refuses to watch with a key that could pause nothing. Of a chain that is down now, the log says so when it answers.

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


def tripwire_samples(tripwire: Tripwire, deployment: Deployment) -> Samples:
    """The tripwire's figures now."""
    samples = Samples()
    names = {deployed.chain_id: deployed.name for deployed in deployment.chains}
    for chain_id, at in tripwire.read_at.items():
        samples.add("waybill_tripwire_read_timestamp_seconds", at, chain=names[chain_id])
    incidents = tripwire.store.incidents()
    for chain_id, name in names.items():
        here = [one for one in incidents if one.chain_id == chain_id]
        samples.add("waybill_tripwire_incidents", len(here), chain=name)
        samples.add("waybill_tripwire_unpaused", sum(one.state != "PAUSED" for one in here), chain=name)
    findings = sum(record.deed is Deed.FINDING for record in tripwire.store.records())
    samples.add("waybill_tripwire_findings", findings)
    return samples
