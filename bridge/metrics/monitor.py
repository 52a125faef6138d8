"""Reads the chains, the store and the index for a scrape."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from typing import Final, TypeVar

import structlog

from bridge.evm.chain import EvmChain
from bridge.evm.endpoints import EndpointState
from bridge.evm.ttl_cache import AsyncCached, Cached
from bridge.metrics.samples import Samples
from bridge.metrics.stored import add_letters, add_stored, add_streams
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.indexed import ChainRecord, IndexSource
from bridge.protocol.ports import Clock, TransientError
from bridge.protocol.status import Status
from bridge.service.settings import Settings
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.streams import Streams

_log = structlog.get_logger(__name__)
_Result = TypeVar("_Result")

_FRESH: Final = 1.0  # seconds for which an exposition is cached, so that concurrent scrapes read the store once
_CHAIN_SECONDS: Final = 5.0  # seconds until an unresponsive chain counts as down
_ALARMING: Final = (
    "critical",
    "high",
    "medium",
)  # severities of divergences; anyone can cause low ones, which must not raise an alert
COUNTED: Final = 60.0  # seconds for which a count of rows is cached: counting a million takes a quarter of a second


class Monitor:
    """Reads the metrics for each scrape.

    The store keeps the counters, so neither restarts nor retention reduce them.
    """

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, EvmChain],
        store: Store,
        clock: Clock,
        settings: Settings,
        *,
        dead_letters: DeadLetterLog,
        streams: Streams | None = None,
        accounts: Collection[str] = (),
        index: IndexSource = nullcontext,
    ) -> None:
        """Creates the monitor of one network.

        Args:
            deployment: the network.
            chains: connections to the network's chains, by chain id.
            store: the relayer's store.
            clock: the source of time.
            settings: the relayer's settings.
            dead_letters: the log of dead letters, which may be in a separate database.
            streams: the store's streams; None omits their metrics.
            accounts: accounts whose balances are read, in addition to those that have sent before.
            index: opens the index's totals; yields None if there is no index.
        """
        self._deployment = deployment
        self._chains = chains
        self._store = store
        self._clock = clock
        self._settings = settings
        self._letters = dead_letters
        self._streams = streams
        self._accounts = frozenset(accounts)
        self._seen = Cached(store.outbox.seen, lasts=COUNTED, clock=clock.now)
        self._index = index
        self._totals = Cached(self._count_indexed, lasts=_FRESH, clock=clock.now)  # scans all messages
        self._exposition = AsyncCached(self._expose, lasts=_FRESH, clock=clock.now)

    async def exposition(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return (await self._exposition.look()).value

    async def _expose(self) -> bytes:
        return (await self.samples()).exposition()

    async def samples(self) -> Samples:
        """Returns all metrics. ``waybill_scrape_problem`` states the parts that could not be read."""
        samples = Samples()
        samples.add("waybill_build_info", 1, version=version("waybill"), network=self._deployment.network)
        now = self._clock.now()
        stored = partial(add_stored, samples, self._store, self._deployment, self._settings, now, seen=self._seen)
        accounts = await self._part(samples, "store", asyncio.to_thread(stored))
        letters = asyncio.to_thread(add_letters, samples, self._letters, self._deployment)
        await self._part(samples, "dead letters", letters)
        if self._streams is not None:
            streams = asyncio.to_thread(add_streams, samples, self._streams, now)
            await self._part(samples, "streams", streams)
        await self._part(samples, "index", asyncio.to_thread(self._add_indexed, samples))
        await asyncio.gather(
            *(
                self._part(samples, deployed.name, self._add_chain(samples, deployed, accounts or {}))
                for deployed in self._deployment.chains
            )
        )
        for deployed in self._deployment.chains:
            _add_endpoints(samples, deployed.name, self._chains[deployed.chain_id].endpoint_states)
        return samples

    async def _part(self, samples: Samples, part: str, reading: Awaitable[_Result]) -> _Result | None:
        try:
            return await reading
        except Exception as error:  # noqa: BLE001  # one part that fails must not hide the others
            _log.warning("metrics incomplete", part=part, error=str(error) or type(error).__name__)
            samples.add("waybill_scrape_problem", 1, part=part)
            return None

    def _add_indexed(self, samples: Samples) -> None:
        with self._index() as index:
            if index is None:
                return
            _add_chains(samples, self._deployment, index.chains())
        totals = self._totals.look()
        if totals is not None:
            messages, divergences = totals.value
            for status, count in messages.items():
                samples.add("waybill_messages", count, status=status.value)
            for severity, count in divergences.items():
                samples.add("waybill_divergences", count, severity=severity)

    def _count_indexed(self) -> tuple[Mapping[Status, int], Mapping[str, int]]:
        """Returns the numbers of messages by state and of divergences by severity."""
        with self._index() as index:
            if index is None:
                return {}, {}
            divergences = index.divergences()
            found = Counter(one.severity for one in divergences)
            return index.counts_by_status(divergences), {name: found[name] for name in _ALARMING}

    async def _add_chain(
        self, samples: Samples, deployed: ChainDeployment, senders: Mapping[int, frozenset[str]]
    ) -> None:
        chain, name = self._chains[deployed.chain_id], deployed.name
        try:
            async with asyncio.timeout(_CHAIN_SECONDS):
                head = await chain.head()
        except (TransientError, TimeoutError):
            samples.add("waybill_chain_up", 0, chain=name)
            raise
        samples.add("waybill_chain_up", 1, chain=name)
        samples.add("waybill_chain_head_age_seconds", max(0.0, self._clock.now() - head.timestamp), chain=name)
        cursor = await asyncio.to_thread(self._store.observations.final_height, deployed.chain_id)
        if cursor >= 0:
            samples.add("waybill_chain_read_lag_blocks", max(0, head.number - cursor), chain=name)
        for account in sorted(self._accounts | senders.get(deployed.chain_id, frozenset())):
            balance = await chain.balance(account)
            samples.add("waybill_account_balance_wei", balance, chain=name, account=account)


def _add_chains(samples: Samples, deployment: Deployment, chains: Sequence[ChainRecord]) -> None:
    names = {chain.chain_id: chain.name for chain in deployment.chains}
    for chain in chains:
        name = names.get(chain.chain_id, str(chain.chain_id))
        samples.add("waybill_index_lag_seconds", chain.lag_seconds, chain=name)
        if chain.halted is not None:
            samples.add("waybill_index_halted", 1, chain=name)


def _add_endpoints(samples: Samples, name: str, states: Sequence[EndpointState]) -> None:
    for endpoint in states:
        samples.add("waybill_endpoint_up", float(endpoint.is_up), chain=name, endpoint=endpoint.name)
