"""The composition root: the only module that knows the implementations behind the relayer's ports."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from os import getpid
from typing import Any, TypeVar

import structlog

from bridge.atomic.follower import Actions
from bridge.atomic.reader import ActionReader
from bridge.client import Client
from bridge.dead_letters.signing import KeySealer
from bridge.evm.chain import EvmChain
from bridge.evm.sender import Sender, SenderPool
from bridge.evm.signing import LocalSigner, Signer
from bridge.evm.supervision import retry_until_success, run_forever
from bridge.gmps.attestation import JsonDocuments
from bridge.gmps.registry import create_adapters
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import IndexSource
from bridge.protocol.message import Message
from bridge.protocol.ports import Attester, Call, Chain, Clock
from bridge.records.jobs import SyncJob
from bridge.relayer.execution import Execution
from bridge.relayer.own_messages import OwnMessages
from bridge.relayer.policies import Policies
from bridge.relayer.propagation import Propagation, RoutePropagator
from bridge.relayer.relayer import Relayer
from bridge.relayer.retries import Recovery, Retried
from bridge.relayer.retry_planning import Planner
from bridge.relayer.spending import SpendGate
from bridge.service.connections import connected
from bridge.service.dead_letter_service import DeadLetterService
from bridge.service.settings import SELDOM, Settings
from bridge.service.startup_checks import check_relayer, public_attesters
from bridge.store import Store, open_store, working_on
from bridge.store.index_requests import IndexRequests
from bridge.store.observations import Finality
from bridge.store.streams import Streams
from bridge.streams.copying import Copier

_log = structlog.get_logger(__name__)
_Result = TypeVar("_Result")
AttesterSource = Callable[[Deployment, Mapping[int, Chain]], Mapping[Gmp, Attester]]
"""Returns the attester of each GMP, for a network whose attestations do not come from the GMPs' public services."""


class SystemClock:
    """The system's clock."""

    def now(self) -> float:
        """See `bridge.protocol.ports.Clock.now`."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """See `bridge.protocol.ports.Clock.sleep`."""
        await asyncio.sleep(seconds)


class RelayerService:
    """A composed relayer."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, EvmChain],
        store: Store,
        settings: Settings,
        *,
        paying: Mapping[int, Sequence[Signer]],
        sealer: KeySealer,
        worker: str,
        web: JsonDocuments,
        attesters: AttesterSource | None = None,
        index: IndexSource | None = None,
    ) -> None:
        """Composes a relayer from open chains, store, lock and attesters; see `open_relayer`.

        Raises:
            SettingsError: the network's attestation sources are unknown.
        """
        self.deployment = deployment
        self.chains = chains
        self.store = store
        self._settings = settings
        clock = SystemClock()
        self._bounds = settings.bounds(deployment)
        self._senders = self._open_senders(paying, clock)
        payers = {
            chain_id: SenderPool([self._senders[chain_id, address] for address in _by_address(signers)])
            for chain_id, signers in paying.items()
        }
        named = {deployed.chain_id: deployed.name for deployed in deployment.chains}
        served = {chain_id: payer for chain_id, payer in payers.items() if settings.accepts_chain(named[chain_id])}
        self.own_messages = OwnMessages(
            deployment=deployment,
            client=Client(deployment, chains),
            senders={
                chain_id: self._senders[chain_id, next(iter(_by_address(signers)))]
                for chain_id, signers in paying.items()
            },
            ledger=store.transactions,
            clock=clock,
        )
        self.dead_letter_service = DeadLetterService(
            deployment, chains, store, settings, clock, messages=self.own_messages, sealer=sealer
        )
        gate = SpendGate(store.spending, clock, accepts=settings.acceptance(deployment), bounds=self._bounds)
        self.policies = Policies(deployment, chains, settings.operator_policies())
        self.relayer = Relayer(
            worker=worker,
            deployment=deployment,
            chains=chains,
            adapters=create_adapters(
                deployment,
                chains,
                attesters(deployment, chains) if attesters else public_attesters(deployment, chains, settings, web),
            ),
            senders=served,
            store=store,
            dead_letters=self.dead_letter_service.dead_letter_queue,
            policies=self.policies,
            clock=clock,
            random=random.random,
            settings=settings,
            gate=gate,
        )
        self.recovery = self._open_recovery(gate, clock)
        self.execution = self._open_execution(served, gate, clock)
        self.propagation = self._open_propagation(served, clock)
        self.actions = self._open_actions(served, clock)
        self._streams = self._open_streams(worker, index)

    def _open_senders(self, paying: Mapping[int, Sequence[Signer]], clock: Clock) -> dict[tuple[int, str], Sender]:
        """Opens a sender per account and chain, for paying accounts and for accounts that retry as senders."""
        retrying = [LocalSigner.from_key(key.get_secret_value()) for key in self._settings.retry_keys]
        return {
            (chain_id, address): Sender(
                self.chains[chain_id],
                signer,
                self.store.transactions,
                clock,
                finality=Finality(self.store.observations, chain_id),
                settings=self._settings,
                bounds=self._bounds,
                multicall=self.deployment.chain(chain_id).multicall,
            )
            for chain_id, signers in paying.items()
            for address, signer in _by_address([*signers, *retrying]).items()
        }

    def _open_recovery(self, gate: SpendGate, clock: Clock) -> Recovery:
        planner = Planner(
            deployment=self.deployment,
            chains=self.chains,
            senders=self._senders,
            store=self.store,
            usable=self._settings.claimable,
            gate=gate,
            retry_for=self._settings.retried_for(),
        )
        requests = IndexRequests(self._settings.index_store) if self._settings.index_store else None
        return Recovery(
            planner,
            self.store,
            clock,
            self._settings,
            poll_interval=self._settings.poll_interval,
            source=requests,
        )

    def _open_execution(self, payers: Mapping[int, SenderPool], gate: SpendGate, clock: Clock) -> Execution:
        return Execution(
            deployment=self.deployment,
            chains=self.chains,
            store=self.store,
            dead_letters=self.dead_letter_service.dead_letters,
            senders=payers,
            gate=gate,
            clock=clock,
        )

    def _open_propagation(self, payers: Mapping[int, SenderPool], clock: Clock) -> Propagation:
        dead_letters = self.dead_letter_service.dead_letters
        propagator = RoutePropagator(
            self.deployment,
            self.chains,
            dead_letters=dead_letters,
            recovery=self.recovery,
            execution=self.execution,
            senders=payers,
        )
        return Propagation(
            deployment=self.deployment,
            chains=self.chains,
            store=self.store,
            propagator=propagator,
            signer=self.dead_letter_service.sealer,
            clock=clock,
            poll_interval=self._settings.poll_interval,
            lock_ttl=self._settings.reliability.lock_ttl,
            settings=self._settings.sync,
        )

    def _open_actions(self, payers: Mapping[int, SenderPool], clock: Clock) -> Actions:
        table = self._settings.actions
        return Actions(
            ActionReader(self.deployment, self.chains, table.named(self.deployment)),
            deployment=self.deployment,
            chains=self.chains,
            observations=self.store.observations,
            senders=payers,
            next_look=self._next_look,
            retry=partial(self.recovery.retry, blind=True),
            report_call=self._report_call,
            dead_letters=self.dead_letter_service.dead_letter_queue,
            clock=clock,
            settings=table,
            poll_interval=SELDOM * self._settings.poll_interval,
        )

    async def _next_look(self, chain_id: int) -> None:
        observer = self.relayer.observers.get(chain_id)
        if observer is not None:
            await observer.next_look(SELDOM * self._settings.poll_interval)

    async def _report_call(self, message: Message) -> Call:
        """Builds the call that reports a message's outcome from its destination, over the GMPs that carried it."""
        attempts = self.store.observations.attempts(message.id)
        took = {gmp for attempt in attempts for gmp in attempt.gmps} or self.deployment.gmps_between(
            message.destination_chain, message.source_chain
        )
        payer = next(address for chain_id, address in self._senders if chain_id == message.destination_chain)
        return await Client(self.deployment, self.chains).report_call(message, sorted(took), payer)

    def _open_streams(self, worker: str, index: IndexSource | None) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """Returns the loops that publish the streams or, without Kafka, the loop that stops recording them."""
        settings, store = self._settings, self.store
        kafka = settings.kafka
        if kafka.bootstrap_servers is None:
            return [partial(_stop, store.streams, settings.poll_interval)]
        from bridge.streams.publisher import Publisher  # noqa: PLC0415  # the Kafka client is an extra

        copier = Copier(
            store.streams,
            dead_letters=self.dead_letter_service.dead_letters,
            index=index,
            divergence_interval=kafka.DIVERGENCE_INTERVAL,
        )
        return [
            Publisher(store.streams, kafka, worker=worker, lease=settings.lease).run,
            partial(copier.run, kafka.POLL_INTERVAL),
        ]

    @property
    def accounts(self) -> frozenset[str]:
        """Returns the addresses of all sending accounts."""
        return frozenset(sender.address for sender in self._senders.values())

    async def run(self) -> None:
        """Runs the relayer until cancelled.

        Raises:
            StoreMismatchError: the store belongs to other chains.
            StoreError: the store is being restored.
        """
        try:
            await self.while_monitoring(self._work)
        except BaseExceptionGroup as group:
            raise _first(group) from group

    async def retry(self, message_id: bytes, gmps: tuple[Gmp, ...] | None = None) -> Retried:
        """Retries one message; see `Recovery.retry`."""
        return await self.while_monitoring(lambda: self.recovery.retry(message_id, gmps))

    async def reconcile(self, message_id: bytes) -> SyncJob:
        """Compares a message with its primary record; see `Propagation.reconcile`."""
        return await self.while_monitoring(lambda: self.propagation.reconcile(message_id))

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.relayer.run())
            group.create_task(self.recovery.run())
            group.create_task(self.execution.run())
            group.create_task(self.dead_letter_service.run())
            group.create_task(self.propagation.run())
            group.create_task(self.actions.run())
            for run in self._streams:
                group.create_task(run())

    async def while_monitoring(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Runs `work` while monitoring all accounts' transactions. Not reentrant."""
        monitors = [
            asyncio.create_task(
                run_forever(
                    f"send on {chain_id}", sender.tick, every=self._settings.poll_interval, wakeup=sender.wakeup
                )
            )
            for (chain_id, _), sender in self._senders.items()
        ]
        try:
            return await work()
        finally:
            for task in monitors:
                task.cancel()
            await asyncio.gather(*monitors, return_exceptions=True)
            for sender in self._senders.values():
                await sender.close()


@asynccontextmanager
async def open_relayer(
    deployment: Deployment,
    settings: Settings,
    attesters: AttesterSource | None = None,
    index: IndexSource | None = None,
) -> AsyncIterator[RelayerService]:
    """Opens the store, connects to the chains, and composes a relayer. A chain that is down is added once it responds.

    Args:
        deployment: the network.
        settings: the relayer's settings.
        attesters: the sources of attestations; None uses the GMPs' public services.
        index: opens the index, whose divergences are published; with None, no divergences are published.

    Raises:
        SettingsError: see `check_relayer`.
        StoreError: the store can't be opened, is being restored, or has a newer version.
        WrongChainError: an endpoint serves a different chain.
    """
    paying, sealer = check_relayer(settings, deployment, has_attesters=attesters is not None)
    worker = worker_name()
    with working_on(settings.store, worker), closing(open_store(settings.store)) as store:
        async with (
            connected(deployment, settings, may_be_down=True) as chains,
            JsonDocuments(timeout=settings.attestations.TIMEOUT) as web,
        ):
            bridge = RelayerService(
                deployment,
                chains,
                store,
                settings,
                paying=paying,
                sealer=sealer,
                worker=worker,
                web=web,
                attesters=attesters,
                index=index,
            )
            with closing(bridge.dead_letter_service.dead_letters):
                yield bridge


def freeze_loaded_objects() -> None:
    """Excludes all existing objects from garbage collection. Call it once before a process starts its relayer.

    Imported code keeps about 150,000 objects alive; scanning them would stall the relayer for 0.15 s.
    """
    gc.collect()
    gc.freeze()


async def run_until_signalled(work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` until it ends, or until SIGINT or SIGTERM stops it cleanly."""
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
    """Returns the first error of a task group, which is the cause of the others."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _stop(streams: Streams, every: float) -> None:
    """Stops recording streams if no sink is configured for them."""

    async def stop() -> None:
        await asyncio.to_thread(streams.stop)

    await retry_until_success("stop streams", stop, every=every)


def _by_address(signers: Iterable[Signer]) -> dict[str, Signer]:
    return {signer.address.lower(): signer for signer in signers}


def worker_name() -> str:
    """Returns a worker name that is unique per run.

    A restarted worker must not mistake its predecessor's claims for its own.
    """
    return f"{socket.gethostname()}:{getpid()}:{uuid.uuid4().hex[:8]}"
