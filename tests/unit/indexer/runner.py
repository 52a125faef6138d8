"""An index that is started and stopped beside simulated chains, by its own code: only Spark's two parts run in this process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from indexer.jobs import backfill, index, stream, watch
from indexer.jobs.promotion import promote
from indexer.jobs.stream import where_to_begin
from indexer.jobs.watch import Watch
from indexer.model import schemas
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits, StallPolicy
from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.sources.tail import ChainTail
from indexer.store.blocks import Batch
from indexer.store.store import Store
from tests.unit.indexer.endpoint import WithRouter, no_wait, reader_of
from tests.unit.indexer.logs import EMITTERS
from tests.unit.indexer.world import START, SimulatedChain

LIMITS = SourceLimits(poll_interval=0.001, rollback_patience=0.0, failover_patience=0.0, hash_window=4)
"""With so few remembered hashes, a test's chains need not be long for the last final block to lie behind them."""


@dataclass
class Runner:
    """The index of some chains, in a folder.

    Attributes:
        final: by chain, the block that its node calls final.
        endpoints: by chain, what answers for it.
    """

    folder: Path
    chains: tuple[SimulatedChain, ...]
    backfill_blocks: int = 5
    keep_ended: int = 10**9
    final: dict[int, int] = field(default_factory=dict[int, int])
    endpoints: dict[int, WithRouter] = field(default_factory=dict[int, WithRouter])
    now: float = START + 10_000

    @property
    def settings(self) -> IndexSettings:
        return IndexSettings(
            folder=IndexFolder(path=self.folder),
            stall=StallPolicy(max_lag=30),
            limits=LIMITS,
            backfill_blocks=self.backfill_blocks,
            keep_ended=self.keep_ended,
        )

    @property
    def configs(self) -> list[ChainConfig]:
        return [
            ChainConfig(chain_id=chain.chain_id, urls=("http://x",), start_block=0, emitters=EMITTERS[chain.chain_id])
            for chain in self.chains
        ]

    @property
    def lake(self) -> Lake:
        return Lake(self.folder / "lake")

    def opened(self) -> Store:
        return Store(self.settings.folder.store_url)

    def reader(self, config: ChainConfig, limits: SourceLimits = LIMITS, **_: Any) -> ChainReader:
        chain = next(chain for chain in self.chains if chain.chain_id == config.chain_id)
        endpoint = self.endpoints.setdefault(chain.chain_id, WithRouter(chain))
        endpoint.chain, endpoint.final = chain, self.final.get(chain.chain_id)
        return reader_of(endpoint, limits)

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Runner:
        """Gives the jobs these chains instead of a network, and this process instead of Spark's."""
        for module in (backfill, index, stream, watch):
            monkeypatch.setattr(module, "ChainReader", self.reader)
        monkeypatch.setattr(backfill, "_read_into_lake", self._read)
        monkeypatch.setattr(index, "chain_config", lambda chain, _endpoints: chain)
        monkeypatch.setattr("bridge.evm.endpoints.sleep", no_wait)
        return self

    def _read(
        self, _spark: object, chain: ChainConfig, limits: SourceLimits, lake: Lake, blocks: FinalBlocks
    ) -> ChainConfig:
        """What Spark's tasks do, in this process."""
        with self.reader(chain, limits) as reader:
            reader.follow((blocks.last, blocks.last_hash))
            logs = list(reader.read_final_logs(blocks.first, blocks.last, blocks.last))
        lake.append(pa.concat_tables([schemas.LOGS.empty_table(), *logs]), {chain.chain_id: blocks})
        return chain

    def catch_up(self) -> None:
        """What a start does before the stream; raises what a start raises."""
        made = index.Index(
            cast("Any", SimpleNamespace(chains=self.configs)), self.settings, cast("Any", None), self._clock
        )
        try:
            made._catch_up()
        finally:
            made.close()

    def follow(self, rounds: int | None = None) -> None:
        """The stream: to the heads, or so many batches."""
        store, tail = self.opened(), ChainTail(self.configs, LIMITS)
        tail._readers = {config.chain_id: self.reader(config) for config in self.configs}
        tail._targets = {chain.chain_id: chain.head for chain in self.chains}
        try:
            positions = where_to_begin(self.configs, store)
            while rounds is None or rounds > 0:
                positions, batches = tail.read(positions)
                if not batches:
                    break
                batch = Batch.from_source(pa.Table.from_batches(batches, schemas.SOURCE))
                store.apply(batch.events, batch.ranges)
                store.halt(batch.halted)
                rounds = None if rounds is None else rounds - 1
            promote(store, self.lake, {chain.chain_id: 0 for chain in self.chains})
        finally:
            tail.close()
            store.close()

    def run(self) -> None:
        """A start, and the stream up to the heads."""
        self.catch_up()
        self.follow()

    def look(self) -> None:
        """One look of the running index's watch."""
        store = self.opened()
        try:
            Watch(self.configs, self.settings, store=store, lake=self.lake, clock=self._clock).look()
        finally:
            store.close()

    def finalise(self, depth: int = 0) -> None:
        """All but the newest `depth` blocks of each chain are final."""
        for chain in self.chains:
            if chain.head >= depth:
                self.final[chain.chain_id] = max(self.final.get(chain.chain_id, 0), chain.head - depth)

    def _clock(self) -> float:
        return self.now


def refused(run: Any) -> str:
    """The text of the error that something ends with; empty if it does not."""
    try:
        run()
    except IndexerError as error:
        return str(error)
    return ""


def naive(chains: Iterable[SimulatedChain]) -> list[tuple[int, int, int, bytes, str]]:
    """The chains' own logs, one by one: chain, block, log, block hash, event. Knows nothing of the index's code."""
    return [
        (chain.chain_id, number, position, block.hash, name)
        for chain in chains
        for number, block in enumerate(chain.blocks)
        for position, (name, _) in enumerate(block.events)
    ]


def naive_messages(chains: Iterable[SimulatedChain]) -> dict[bytes, tuple[bool, int, int, int]]:
    """By message: whether it was routed, and how many attempts, receipts of different GMPs and executions the logs show."""
    routed, attempts, receipts, executions = set[bytes](), dict[bytes, int](), set[tuple[bytes, int]](), list[bytes]()
    for chain in chains:
        for block in chain.blocks:
            for name, values in block.events:
                one = values.get("message_id", b"")
                if name == "MessageRouted":
                    routed.add(one)
                elif name == "MessageRetried":
                    attempts[one] = max(attempts.get(one, 0), values["attempt"])
                elif name == "MessageReceived":
                    receipts.add((one, values["gmp"]))
                elif name == "MessageExecuted":
                    executions.append(one)
    ids = routed | attempts.keys() | {one for one, _ in receipts} | set(executions)
    return {
        one: (one in routed, attempts.get(one, 0), sum(one == of for of, _ in receipts), executions.count(one))
        for one in ids
    }
