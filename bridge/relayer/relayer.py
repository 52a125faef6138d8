"""Runs the relayer's steps for all chains of a network."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import structlog

from bridge.dead_letters.queue import DeadLetterQueue
from bridge.evm.finality import FinalityRule
from bridge.evm.sender import Sending
from bridge.evm.supervision import retry_until_success, run_forever
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Adapter, Chain, Clock, TransientError
from bridge.records.figures import Counted, CounterKey
from bridge.relayer.breaker import GmpHealth
from bridge.relayer.completeness import Completeness
from bridge.relayer.confirmation import Confirmation
from bridge.relayer.delivery import Deliveries
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.relayer.observer import Observer
from bridge.relayer.policies import Policies
from bridge.relayer.seen_capacity import SeenCapacity
from bridge.relayer.settings import RelaySettings
from bridge.relayer.spending import SpendGate
from bridge.store import Store
from bridge.store.observations import Finality

_log = structlog.get_logger(__name__)

_RETENTION_EVERY = 600.0  # seconds
_COMPLETENESS_EVERY = 60.0  # seconds between two comparisons with the routers' counters
_COUNTERS_EVERY = 5.0  # a killed process loses this much of its counts
_FORGOTTEN_AT_ONCE = 200  # entries


class Relayer:
    """Observes every chain, and delivers to every chain for which it has a sending account."""

    def __init__(
        self,
        *,
        worker: str,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        adapters: Mapping[Gmp, Adapter],
        senders: Mapping[int, Sending],
        store: Store,
        dead_letters: DeadLetterQueue,
        policies: Policies,
        clock: Clock,
        random: Callable[[], float],
        settings: RelaySettings,
        gate: SpendGate,
    ) -> None:
        """Assembles the components; `run` starts them."""
        self._settings = settings
        self._store = store
        self._clock = clock
        self._written: Counter[CounterKey] = Counter()  # the part of `_counts` that the store has
        self._capacity = SeenCapacity(store.outbox, settings.reliability.dedup_capacity, clock)
        self.observers = {
            deployed.chain_id: self._observer(deployed, deployment, chains, adapters, store)
            for deployed in deployment.chains
        }
        self.confirmations = {
            deployed.chain_id: self._confirmation(deployed, chains, store) for deployed in deployment.chains
        }
        self.deliveries = {
            chain_id: Deliveries(
                worker=worker,
                chain=chains[chain_id],
                router=deployment.chain(chain_id).router,
                adapters=adapters,
                outbox=store.outbox,
                dead_letters=dead_letters,
                sender=sender,
                gate=gate,
                health=GmpHealth(chain_id, store.figures, clock),
                policies=policies,
                clock=clock,
                random=random,
                final_height=partial(store.observations.final_height, chain_id),
                settings=settings,
                acceptance=settings.acceptance(deployment),
            )
            for chain_id, sender in senders.items()
        }

    def _observer(
        self,
        deployed: ChainDeployment,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        adapters: Mapping[Gmp, Adapter],
        store: Store,
    ) -> Observer:
        chain = chains[deployed.chain_id]
        completeness = Completeness(
            chain,
            deployed.router,
            [other.chain_id for other in deployment.chains if other is not deployed],
            store.observations,
            self._clock,
            every=_COMPLETENESS_EVERY,
        )
        return Observer(
            chain,
            deployed.router,
            adapters.values(),
            store.observations,
            self._clock,
            start_block=deployed.start_block,
            finality=FinalityRule.of(deployed),
            block_range=self._settings.BLOCK_RANGE,
            capacity=self._capacity,
            asset_classes=self._settings.classes(deployment),
            completeness=completeness,
            found=self._wake,
        )

    def _confirmation(self, deployed: ChainDeployment, chains: Mapping[int, Chain], store: Store) -> Confirmation:
        return Confirmation(
            chains[deployed.chain_id],
            deployed.router,
            store.outbox,
            store.jobs,
            self._clock,
            finality=Finality(store.observations, deployed.chain_id),
            head=self.observers[deployed.chain_id].head,
        )

    def _counts(self) -> Counter[CounterKey]:
        """Returns the counters that this process keeps itself.

        These are commits by destination and result, and unrecognised dispatches by source.
        """
        counts: Counter[CounterKey] = Counter()
        for chain_id, deliveries in self.deliveries.items():
            for result, count in deliveries.commits.items():
                counts[Counted.COMMIT, (chain_id, result)] = count
        for chain_id, observer in self.observers.items():
            counts[Counted.UNRECOGNISED, (chain_id,)] = observer.unrecognised
        return counts

    async def _write_counts(self) -> bool:
        """Adds this process's counts to the store's counters. Always returns False, since nothing is left to write.

        Raises:
            StoreBusyError: Nothing was written; the next call writes all counts.
        """
        now = self._counts()
        self._store.counters.add(now - self._written)
        self._written = now
        return False

    async def run(self) -> None:
        """Runs until cancelled, then releases its claims.

        Raises:
            StoreMismatchError: The store belongs to other chains.
            CommitsHaltedError: The store has accepted no commit for too long.
        """
        _log.info(
            "relaying",
            chains=len(self.observers),
            gmps=sorted(gmp.label for gmp in self._settings.gmps),
            paused=sorted(gmp.label for gmp in self._settings.paused_gmps),
            commit=self._settings.commit.value,
        )
        try:
            async with asyncio.TaskGroup() as group:
                for chain_id in self.observers:
                    group.create_task(self._serve(chain_id))
                group.create_task(run_forever("counters", self._write_counts, every=_COUNTERS_EVERY))
                group.create_task(run_forever("retention", self._prune, every=_RETENTION_EVERY))
        finally:
            await asyncio.gather(*(deliveries.stop() for deliveries in self.deliveries.values()))
            with suppress(TransientError):
                await self._write_counts()

    async def _serve(self, chain_id: int) -> None:
        """Runs every step of one chain, after checking that the store belongs to that chain.

        Chains do not wait for each other.
        """
        poll, lease = self._settings.poll_interval, self._settings.lease
        observer = self.observers[chain_id]
        await retry_until_success(f"identify {chain_id}", observer.identify, every=poll)
        async with asyncio.TaskGroup() as group:
            observing = run_forever(f"observe {chain_id}", observer.step, every=lambda: observer.pause(poll))
            group.create_task(observing)
            if chain_id in self.deliveries:
                deliveries, confirmation = self.deliveries[chain_id], self.confirmations[chain_id]
                name = f"deliver to {chain_id}"
                group.create_task(run_forever(name, deliveries.step, every=poll, wakeup=deliveries.wakeup))
                group.create_task(run_forever(f"{name}: leases", deliveries.renew, every=lease / 3))
                group.create_task(deliveries.halted())
                if self._settings.commit is CommitStrategy.AUTO:
                    every = self._settings.commit_wait
                    group.create_task(run_forever(f"{name}: commits", deliveries.commit, every=every))
                group.create_task(run_forever(f"confirm on {chain_id}", confirmation.step, every=poll))

    async def _prune(self) -> bool:
        """Deletes a batch of old final rows; returns whether there may be more."""
        before = self._clock.now() - self._settings.retention
        deleted = (
            self._store.outbox.forget(before, _FORGOTTEN_AT_ONCE),
            self._store.transactions.forget(before, _FORGOTTEN_AT_ONCE),
            self._store.jobs.forget_retries(before, _FORGOTTEN_AT_ONCE),
            self._store.observations.forget_envelopes(before, _FORGOTTEN_AT_ONCE),
        )
        self._store.spending.forget(before)
        return _FORGOTTEN_AT_ONCE in deleted

    def _wake(self, destination: int) -> None:
        if destination in self.deliveries:
            self.deliveries[destination].wakeup.set()
