"""Follows real chains into store and lake with the index's own steps, in one process and without Spark between them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import wait
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.transport import HttpExchange
from indexer.jobs.history import History
from indexer.jobs.promotion import promote
from indexer.model import schemas
from indexer.model.settings import SourceLimits, StallPolicy
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainReader, chain_config
from indexer.sources.position import ChainPosition
from indexer.sources.tail import ChainTail
from indexer.store import tables
from indexer.store.blocks import Batch
from indexer.store.reader import IndexReader
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.spark.chain import AnvilChain
from tests.spark.story import World
from tests.waiting import PATIENCE

LIMITS: Final = SourceLimits(rollback_patience=0.05, poll_interval=0.02)
POLICY: Final = StallPolicy(stall_after=60, max_lag=10_000_000, requests_per_lane_minute=1_000_000)


class Follower:
    """What `indexer.jobs.stream` does with every batch."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chains = [chain_config(chain) for chain in world.deployment.chains]
        self.open()

    def open(self) -> None:
        """Begins where store and lake are."""
        world = self._world
        self.lake = Lake(world.settings().folder.lake)
        self.store = Store(world.settings().folder.store_url)
        self.tail = ChainTail(self._chains, LIMITS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.tail.close()
        self.store.close()

    def step(self) -> None:
        start = {chain.chain_id: ChainPosition.before(chain.start_block) for chain in self._chains}
        _, batches = self.tail.read(start | self.store.positions())
        if batches:
            batch = Batch.from_source(pa.Table.from_batches(batches, schemas.SOURCE))
            assert batch.halted == {}
            self.store.apply(batch.events, batch.ranges)
            promote(self.store, self.lake, {chain.chain_id: chain.start_block for chain in self._chains})
        request_retries(self.store.engine, POLICY, time.time())

    def follow(self) -> None:
        """Until the index has the heads, and exactly the logs, that the chains have."""
        deadline = time.monotonic() + PATIENCE
        while not self.agrees():
            assert time.monotonic() < deadline, f"after {PATIENCE} s index and chains still differ"
            self.step()

    def agrees(self) -> bool:
        positions = self.store.positions()
        for chain in (self._world.alpha, self._world.beta):
            head = chain.head()
            position = positions.get(chain.chain_id)
            if position is None or position.block != int(head["number"], 16):
                return False
            if position.hash_at(position.block) != bytes.fromhex(head["hash"][2:])[:16]:
                return False
        return self._world.equals_chains() and self._lake_agrees()

    def _lake_agrees(self) -> bool:
        """Lake ∪ store are the store's events: nothing final was ever taken back."""
        history = History(self.store.engine, self.lake)
        return all(
            history.events(chain, 0, position.block) == self.store.events_between(chain, 0, position.block)
            for chain, position in self.store.positions().items()
        )

    def interrupt(self, chain: AnvilChain, request: int, action: Callable[[], None]) -> None:
        """Does something right before one of the next requests to a chain is sent."""
        config = next(one for one in self._chains if one.chain_id == chain.chain_id)
        wait(self.tail._looks.values())  # one may be under way, and needs its connection
        self.tail._readers[chain.chain_id].close()
        self.tail._readers[chain.chain_id] = ChainReader(
            config, LIMITS, connect=lambda url, policy: _Interrupting(url, policy, request, action)
        )

    def wrong_requests(self) -> list[str]:
        """Stalled messages without exactly one standing request for what the chain has now."""
        self.step()
        requests: dict[tuple[bytes, int, bytes], int] = {}
        with self.store.engine.connect() as connection:
            closed = set(connection.scalars(tables.retry_closures.select()))
            for one in connection.execute(tables.retry_requests.select()):
                if one.sequence not in closed:
                    key = one.message_id, one.attempt, one.cause_hash
                    requests[key] = requests.get(key, 0) + 1
        with IndexReader(self._world.settings().folder.store_url, POLICY) as reader:
            stalled = [one for one in reader.messages(limit=1_000_000) if one.status == "STALLED"]
        hashes = self._attempted_hashes()
        found = {
            one.message_id.hex(): requests.get((one.message_id, (one.attempts or 0) + 1, hashes[one.message_id]), 0)
            for one in stalled
        }
        return [f"0x{message_id} has {count} requests" for message_id, count in found.items() if count != 1]

    def _attempted_hashes(self) -> dict[bytes, bytes]:
        message = tables.messages.c
        with self.store.engine.connect() as connection:
            return {
                row.message_id: row.attempted_hash
                for row in connection.execute(tables.messages.select().where(message.attempted_hash.is_not(None)))
            }


class _Interrupting(HttpExchange):
    """Does something before one of its HTTP requests."""

    def __init__(self, url: str, policy: EndpointPolicy, request: int, action: Callable[[], None]) -> None:
        super().__init__(url, policy)
        self._left = request
        self._action = action

    async def _fetch(self, body: bytes) -> tuple[int, str | None, bytes]:
        self._left -= 1
        if self._left == 0:
            await asyncio.to_thread(self._action)
        return await super()._fetch(body)
