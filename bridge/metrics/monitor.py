"""Reads chains, store and index for one scrape."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Final, Protocol, TypeVar

import structlog

from bridge.chains import EvmChain
from bridge.metrics.rarely import Rarely
from bridge.metrics.samples import Samples
from bridge.metrics.stored import add_letters, add_stored
from bridge.ports import Block, Clock, TransientError
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.indexed import ChainRecord, DivergenceRecord
from bridge.protocol.status import Status
from bridge.records import Store
from bridge.records.dead_letters import DeadLetterLog
from bridge.settings import Settings

_log = structlog.get_logger(__name__)
_Result = TypeVar("_Result")

_FRESH: Final = 1.0  # seconds for which an exposition is given out again: scrapers that come together cost one reading
_CHAIN_SECONDS: Final = 5.0  # that a chain may take to answer before it counts as down


class IndexFigures(Protocol):
    """What the indexer knows in sums."""

    def chains(self) -> Sequence[ChainRecord]:
        """How far each chain is indexed."""

    def counts_by_status(self, divergences: Sequence[DivergenceRecord]) -> Mapping[Status, int]:
        """How many messages are in each state, those that the divergences contradict as DIVERGED."""

    def divergences(self) -> Sequence[DivergenceRecord]:
        """Facts that contradict each other."""


class Monitor:
    """Reads everything anew for each scrape; nothing is remembered in between, so that a restart loses nothing."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, EvmChain],
        store: Store,
        clock: Clock,
        settings: Settings,
        *,
        letters: DeadLetterLog,
        accounts: Collection[str] = (),
        commits: Callable[[], Mapping[int, Mapping[str, int]]] = dict,
        undercuts: Callable[[], Mapping[str, int]] = dict,
        index: Callable[[], AbstractContextManager[IndexFigures | None]] = nullcontext,
    ) -> None:
        """Watches one network.

        Args:
            deployment: the network.
            chains: its chains by id, connected.
            store: the relayer's.
            clock: time.
            settings: the relayer's.
            letters: the log of dead letters, which may be in another database.
            accounts: whose balances are read, beside those of accounts that have sent before.
            commits: how many commits this process made towards each destination, by its id and by result.
            undercuts: how many messages this process observed that live shorter than their class of assets demands, by class.
            index: opens the index's figures, or None while there is no index.
        """
        self._deployment = deployment
        self._chains = chains
        self._store = store
        self._clock = clock
        self._settings = settings
        self._letters = letters
        self._accounts = frozenset(accounts)
        self._commits = commits
        self._undercuts = undercuts
        self._seen = Rarely(store.outbox.seen, clock)
        self._index = index
        self._lock = asyncio.Lock()
        self._last: tuple[float, bytes] | None = None

    async def exposition(self) -> bytes:
        """Everything, in Prometheus' text format."""
        async with self._lock:
            now = self._clock.now()
            if self._last is None or not 0 <= now - self._last[0] < _FRESH:
                self._last = (now, (await self.samples()).exposition())
            return self._last[1]

    async def samples(self) -> Samples:
        """Everything. A part that can't be read is named in ``waybill_scrape_problem``; the others are there."""
        samples = Samples()
        samples.add("waybill_build_info", 1, version=version("waybill"), network=self._deployment.network)
        for gmp in sorted(self._settings.paused_gmps):
            samples.add("waybill_gmp_paused", 1, gmp=gmp.label)
        names = {chain.chain_id: chain.name for chain in self._deployment.chains}
        for chain_id, results in self._commits().items():
            for result in ("success", "failure"):
                count = results.get(result, 0)
                samples.add("waybill_commits_total", count, destination=names[chain_id], result=result)
        for asset_class, count in self._undercuts().items():
            samples.add("waybill_undercut_messages_total", count, asset_class=asset_class)
        accounts = await self._part(samples, "store", asyncio.to_thread(self._add_stored, samples))
        await self._part(samples, "dead letters", asyncio.to_thread(self._add_letters, samples))
        await self._part(samples, "index", asyncio.to_thread(self._add_indexed, samples))
        await asyncio.gather(
            *(
                self._part(samples, deployed.name, self._add_chain(samples, deployed, accounts or {}))
                for deployed in self._deployment.chains
            )
        )
        return samples

    async def problems(self) -> list[str]:
        """Why the relayer can't work now: chains that do not answer, a store that can't be read. Empty if it can."""
        found = []
        try:
            await asyncio.to_thread(self._store.lanes.held)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the answer
            found.append(f"store: {error}")
        heads = await asyncio.gather(*map(self._head, self._deployment.chains), return_exceptions=True)
        for deployed, head in zip(self._deployment.chains, heads, strict=True):
            if isinstance(head, BaseException):
                found.append(f"chain {deployed.name}: {str(head) or 'no answer in time'}")
        return found

    async def _part(self, samples: Samples, part: str, reading: Awaitable[_Result]) -> _Result | None:
        try:
            return await reading
        except Exception as error:  # noqa: BLE001  # one part that fails must not hide the others
            _log.warning("metrics incomplete", part=part, error=str(error) or type(error).__name__)
            samples.add("waybill_scrape_problem", 1, part=part)
            return None

    def _add_stored(self, samples: Samples) -> Mapping[int, frozenset[str]]:
        return add_stored(samples, self._store, self._deployment, self._settings, self._clock.now(), seen=self._seen)

    def _add_letters(self, samples: Samples) -> None:
        add_letters(samples, self._letters, self._deployment)

    def _add_indexed(self, samples: Samples) -> None:
        with self._index() as index:
            if index is not None:
                _add_index(samples, self._deployment, index)

    async def _head(self, deployed: ChainDeployment) -> Block:
        async with asyncio.timeout(_CHAIN_SECONDS):
            return await self._chains[deployed.chain_id].head()

    async def _add_chain(
        self, samples: Samples, deployed: ChainDeployment, senders: Mapping[int, frozenset[str]]
    ) -> None:
        chain, name = self._chains[deployed.chain_id], deployed.name
        try:
            head = await self._head(deployed)
        except (TransientError, TimeoutError):
            samples.add("waybill_chain_up", 0, chain=name)
            raise
        finally:
            _add_endpoints(samples, name, chain)
        samples.add("waybill_chain_up", 1, chain=name)
        samples.add("waybill_chain_head_block", head.number, chain=name)
        samples.add("waybill_chain_head_age_seconds", max(0.0, self._clock.now() - head.timestamp), chain=name)
        cursor = await asyncio.to_thread(self._store.observations.final_height, deployed.chain_id)
        if cursor >= 0:
            samples.add("waybill_chain_read_block", cursor, chain=name)
            samples.add("waybill_chain_read_lag_blocks", max(0, head.number - cursor), chain=name)
        for account in sorted(self._accounts | senders.get(deployed.chain_id, frozenset())):
            balance = await chain.balance(account)
            samples.add("waybill_account_balance_wei", balance, chain=name, account=account)


def _add_index(samples: Samples, deployment: Deployment, index: IndexFigures) -> None:
    names = {chain.chain_id: chain.name for chain in deployment.chains}
    for chain in index.chains():
        name = names.get(chain.chain_id, str(chain.chain_id))
        samples.add("waybill_index_block", chain.block, chain=name)
        samples.add("waybill_index_lag_seconds", chain.lag_seconds, chain=name)
        if chain.halted is not None:
            samples.add("waybill_index_halted", 1, chain=name)
    divergences = index.divergences()
    for status, count in index.counts_by_status(divergences).items():
        samples.add("waybill_messages", count, status=status.value)
    samples.add("waybill_divergences", len(divergences))


def _add_endpoints(samples: Samples, name: str, chain: EvmChain) -> None:
    for endpoint in chain.endpoint_states:
        samples.add("waybill_endpoint_up", float(endpoint.is_up), chain=name, endpoint=endpoint.name)
        for result, count in endpoint.requests.items():
            labels = {"chain": name, "endpoint": endpoint.name, "result": result}
            samples.add("waybill_endpoint_requests_total", count, **labels)
