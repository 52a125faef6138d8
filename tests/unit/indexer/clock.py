"""Two chains and their index, in simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridge.protocol.message import Message
from bridge.protocol.retry_requests import RetryRequest
from bridge.protocol.status import Status
from indexer.model.settings import StallPolicy
from indexer.store.reader import IndexReader
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.unit.indexer.world import START, SimulatedChain, apply, new_world, routed

POLICY = StallPolicy(stall_after=100, max_lag=30, max_message_retries=3, requests_per_lane_minute=5)


class World:
    """Two chains, their index, and a clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = Store(url)
        self.alpha, self.beta = new_world()
        self.now = START

    def let_pass(self, seconds: int, *chains: SimulatedChain) -> None:
        """Time passes; only `chains` (all if none is named) have a block at its end."""
        self.now += seconds
        for chain in chains or (self.alpha, self.beta):
            chain.mine(time=self.now)
            self.read(chain)

    def send(self, sent: Message, **options: Any) -> Message:
        self.alpha.mine(routed(sent, **options), time=self.now)
        self.read(self.alpha)
        return sent

    def happens(self, chain: SimulatedChain, *events: Any) -> None:
        chain.mine(*events, time=self.now)
        self.read(chain)

    def read(self, chain: SimulatedChain) -> None:
        known = self.store.positions().get(chain.chain_id)
        first = 0 if known is None else min(known.block, chain.head) + 1
        while known and first and known.hash_at(first - 1) != chain.blocks[first - 1].hash[:16]:
            first -= 1
        apply(self.store, chain, first)

    def ask(self, policy: StallPolicy = POLICY) -> int:
        return request_retries(self.store.engine, policy, self.now)

    def requests(self) -> list[RetryRequest]:
        with self.reader() as reader:
            return reader.retry_requests()

    def status(self, sent: Message) -> Status:
        with self.reader() as reader:
            found = reader.message(sent.id)
        assert found is not None
        return found.status

    def reader(self) -> IndexReader:
        return IndexReader(self.url, POLICY, clock=lambda: self.now)


@contextmanager
def indexed_world(folder: Path) -> Iterator[World]:
    """A world whose index has read both chains' first blocks."""
    made = World(f"sqlite:///{folder / 'index.db'}")
    for chain in (made.alpha, made.beta):
        made.read(chain)
    yield made
    made.store.close()
