"""The composition root: the only place that knows which chains, GMPs and store stand behind the core."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from os import getpid
from typing import TypeVar

import structlog

from bridge.adapters import create_adapters
from bridge.attestations import AttestationError, public_attesters
from bridge.chains import EvmChain, NewHeads
from bridge.connections import connected
from bridge.devnet import devnet_attesters
from bridge.keys import paying_signers
from bridge.ports import Attester, Chain, Clock
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.records import Store
from bridge.records.errors import StoreBusyError
from bridge.records.finality import ObservedFinality
from bridge.recovery import (
    Burial,
    Execution,
    Planner,
    Propagation,
    Recovery,
    Retried,
    RoutePropagator,
)
from bridge.relay import Relay, RelaySettings
from bridge.relay.spending import SpendGate
from bridge.sending import LocalSigner, Sender, SenderPool, Signer
from bridge.settings import Settings, SettingsError
from bridge.store import WorkingLock, open_store, working_on
from bridge.store.index_requests import IndexRequests
from bridge.supervision import keep_doing
from bridge.undertaking import Undertaking

_log = structlog.get_logger(__name__)
_Result = TypeVar("_Result")

_DEVNET = "devnet"
_LOCK_RENEWAL = 5.0  # seconds


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        """See `bridge.ports.Clock.now`."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """See `bridge.ports.Clock.sleep`."""
        await asyncio.sleep(seconds)


class Bridge:
    """A relayer, put together."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, EvmChain],
        store: Store,
        settings: Settings,
        *,
        worker: str,
        lock: WorkingLock,
    ) -> None:
        """Uses chains and a store that are open, and the lock of that store; `open_bridge` opens them.

        Raises:
            SettingsError: there is no key to deliver with, or nobody knows where this network's proofs come from.
            InvalidKeyError: a key is none.
        """
        self.deployment = deployment
        self.chains = chains
        self.store = store
        self._lock = lock
        self._settings = settings
        clock = SystemClock()
        paying = paying_signers(settings, deployment)
        self._senders = self._open_senders(paying, clock)
        payers = {
            chain_id: SenderPool([self._senders[chain_id, address] for address in _by_address(signers)])
            for chain_id, signers in paying.items()
        }
        relaying = replace(
            settings.relay(),
            acceptance=settings.acceptance(deployment),
            asset_classes=settings.classes(deployment),
        )
        named = {deployed.chain_id: deployed.name for deployed in deployment.chains}
        served = {chain_id: payer for chain_id, payer in payers.items() if settings.accepts_chain(named[chain_id])}
        self.undertaking = Undertaking(deployment, chains, store, settings, clock)
        gate = SpendGate(store.spending, clock, accepts=relaying.acceptance, bounds=settings.bounds(deployment))
        self.relay = Relay(
            worker=worker,
            deployment=deployment,
            chains=chains,
            adapters=create_adapters(deployment, chains, _attesters(deployment, chains, settings)),
            senders=served,
            store=store,
            dead_letters=self.undertaking.office,
            policies=settings.retry_policies(),
            clock=clock,
            random=random.random,
            settings=relaying,
            gate=gate,
        )
        self.recovery = self._open_recovery(relaying, gate, clock)
        self.execution = self._open_execution(served, gate, clock)
        self.propagation = self._open_propagation(clock)

    def _open_senders(self, paying: Mapping[int, Sequence[Signer]], clock: Clock) -> dict[tuple[int, str], Sender]:
        """One for each account on each chain: those that pay for deliveries, and those that retry as a message's sender."""
        retrying = [LocalSigner.from_key(key.get_secret_value()) for key in self._settings.retry_keys]
        return {
            (chain_id, address): Sender(
                self.chains[chain_id],
                signer,
                self.store.transactions,
                clock,
                finality=ObservedFinality(self.store.observations, chain_id),
                settings=self._settings.sending(self.deployment),
                multicall=self.deployment.chain(chain_id).multicall,
            )
            for chain_id, signers in paying.items()
            for address, signer in _by_address([*signers, *retrying]).items()
        }

    def _open_recovery(self, relaying: RelaySettings, gate: SpendGate, clock: Clock) -> Recovery:
        planner = Planner(
            deployment=self.deployment,
            chains=self.chains,
            senders=self._senders,
            store=self.store,
            usable=relaying.claimable,
            max_fee=self._settings.max_retry_fee,
            gate=gate,
            retry_for=self._settings.retried_for(),
        )
        requests = IndexRequests(self._settings.index_store) if self._settings.index_store else None
        burial = Burial(
            self.undertaking.office,
            self.store,
            policies=self._settings.retry_policies(),
            guarantees=relaying.guarantees,
            usable=relaying.claimable,
        )
        settings = self._settings.recovery(self.deployment)
        return Recovery(planner, self.store, clock, settings, burial=burial, source=requests)

    def _open_execution(self, payers: Mapping[int, SenderPool], gate: SpendGate, clock: Clock) -> Execution:
        return Execution(
            deployment=self.deployment,
            chains=self.chains,
            store=self.store,
            letters=self.undertaking.letters,
            senders=payers,
            gate=gate,
            clock=clock,
        )

    def _open_propagation(self, clock: Clock) -> Propagation:
        letters = self.undertaking.letters
        propagator = RoutePropagator(
            self.deployment, self.chains, letters=letters, recovery=self.recovery, execution=self.execution
        )
        return Propagation(
            deployment=self.deployment,
            chains=self.chains,
            store=self.store,
            propagator=propagator,
            signer=self.undertaking.sealer,
            clock=clock,
            settings=self._settings.propagation(),
        )

    @property
    def accounts(self) -> frozenset[str]:
        """The addresses that transactions are sent from."""
        return frozenset(sender.address for sender in self._senders.values())

    async def run(self) -> None:
        """Relays and retries until it is cancelled.

        Raises:
            StoreMismatchError: the store is of other chains.
            StoreError: the store is being restored.
        """
        try:
            await self.with_upkeep(self._work)
        except BaseExceptionGroup as group:
            raise _first(group) from group

    async def retry(self, message_id: bytes, gmps: tuple[Gmp, ...] | None = None) -> Retried:
        """Retries one message; see `Recovery.retry`."""
        return await self.with_upkeep(lambda: self.recovery.retry(message_id, gmps))

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.relay.run())
            for chain_id, url in self._settings.ws_urls(self.deployment).items():
                group.create_task(NewHeads(url, self.relay.observers[chain_id].wakeup.set).run())
            group.create_task(self.recovery.run())
            group.create_task(self.execution.run())
            group.create_task(self.undertaking.run())
            group.create_task(self.propagation.run())
            group.create_task(self._keep_lock())

    async def _keep_lock(self) -> None:
        while True:
            await asyncio.sleep(_LOCK_RENEWAL)
            with suppress(StoreBusyError):  # whatever works with the store says so
                await asyncio.to_thread(self._lock.renew)

    async def with_upkeep(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Does something while the transactions of all accounts are looked after. To be done once at a time."""
        upkeep = [
            asyncio.create_task(
                keep_doing(f"send on {chain_id}", sender.tick, every=self._settings.poll, wakeup=sender.wakeup)
            )
            for (chain_id, _), sender in self._senders.items()
        ]
        try:
            return await work()
        finally:
            for task in upkeep:
                task.cancel()
            await asyncio.gather(*upkeep, return_exceptions=True)
            for sender in self._senders.values():
                await sender.close()


@asynccontextmanager
async def open_bridge(deployment: Deployment, settings: Settings) -> AsyncIterator[Bridge]:
    """Opens the store, connects to the chains, and puts a relayer together.

    Raises:
        SettingsError: see `Bridge`.
        StoreError: the store can't be opened, is being restored, or is of a newer version.
        WrongChainIdError: an endpoint is of another chain.
        TransientError: a chain has no endpoint that answers.
    """
    worker = _worker_name()
    with working_on(settings.store, worker) as lock, closing(open_store(settings.store)) as store:
        async with connected(deployment, settings) as chains:
            bridge = Bridge(deployment, chains, store, settings, worker=worker, lock=lock)
            with closing(bridge.undertaking.letters):
                yield bridge


def spare_what_is_set_up() -> None:
    """Has the garbage collector leave alone for ever what exists by now. For a process that runs one bridge, before it does.

    Some 150,000 objects of imported code stay anyway; to look through them holds up all that a bridge does for 0.15 s.
    """
    gc.collect()
    gc.freeze()


async def run_until_signalled(work: Callable[[], Awaitable[None]]) -> None:
    """Runs something until it ends or the process gets SIGINT or SIGTERM, which stop it cleanly."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work())
    stopped = False

    def stop(name: str) -> None:
        nonlocal stopped
        stopped = True
        _log.info("stopping", signal=name)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number.name)
    try:
        await task
    except asyncio.CancelledError:
        if not stopped:
            raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended a group of tasks: the others only followed."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _by_address(signers: Iterable[Signer]) -> dict[str, Signer]:
    return {signer.address.lower(): signer for signer in signers}


def _attesters(deployment: Deployment, chains: Mapping[int, Chain], settings: Settings) -> dict[Gmp, Attester]:
    if deployment.network == _DEVNET:
        return devnet_attesters(deployment, chains)
    try:
        return public_attesters(deployment, chains, settings.attestations.settings(), settings.gmps)
    except AttestationError as error:
        raise SettingsError(f"network {deployment.network!r}: {error}") from error


def _worker_name() -> str:
    """Unique for each run, so that a restarted worker never takes its predecessor's claims for its own."""
    return f"{socket.gethostname()}:{getpid()}:{uuid.uuid4().hex[:8]}"
