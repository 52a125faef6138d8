"""Messages between two anvil chains, and an index of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from sqlalchemy import Table, create_engine, select

from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Message
from indexer.jobs.index import Index
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits, StallPolicy
from indexer.store import tables
from indexer.store.engine import may_exist
from indexer.store.reader import IndexReader
from tests.spark.chain import AnvilChain, Log, network
from tests.unit.indexer.logs import message, topics_and_data
from tests.unit.indexer.world import absorbed, executed, failed, received, retried, routed
from tests.waiting import eventually

FACTS = (tables.events, tables.messages, tables.receipts)
"""The tables that follow from the chains alone."""


@dataclass
class World:
    alpha: AnvilChain
    beta: AnvilChain
    folder: Path
    nonce: int = 0
    store: str | None = None  # URL; SQLite in the folder if None

    @property
    def deployment(self) -> Deployment:
        return network(self.alpha.deployment("alpha"), self.beta.deployment("beta"))

    def settings(self, **changes: Any) -> IndexSettings:
        values: dict[str, Any] = {
            "folder": IndexFolder(path=self.folder, store=self.store),
            # Anvil's clock moves when the tests move it, so a chain may be far ahead of the wall, or behind.
            "stall": StallPolicy(stall_after=60, max_lag=100_000),
            "limits": SourceLimits(rollback_patience=0.5, poll_interval=0.05),
        }
        return IndexSettings(**(values | changes))

    def new_message(self, **changes: Any) -> Message:
        self.nonce += 1
        return message(
            self.nonce,
            source_router=_padded(self.alpha.router),
            destination_router=_padded(self.beta.router),
            **({"quorum": 1, "sent_at": self.alpha.time()} | changes),
        )

    def send(self, *sent: Message, gmps: int = 0b1) -> None:
        self.alpha.emit(*[log_of(routed(one, gmps=gmps)) for one in sent])

    def deliver(self, sent: Message, gmp: int = 1) -> None:
        self.beta.emit(log_of(received(sent, gmp)), log_of(executed(sent)))

    def tell_a_story(self, messages: int = 6) -> list[Message]:
        """A message of every fate: executed, failed, retried, delivered twice, malformed, unknown."""
        sent = [self.new_message() for _ in range(messages)]
        for one in sent:
            self.send(one, gmps=0b11)
        for position, one in enumerate(sent):
            fate = position % 6
            if fate in {0, 1}:
                self.deliver(one)
            if fate == 1:
                self.beta.emit(log_of(absorbed(one, 1)), by_adapter=True)
            if fate == 2:
                self.beta.emit(log_of(received(one, 2)), log_of(failed(one)))
            if fate == 3:
                self.alpha.emit(log_of(retried(one, 1, 0b10)))
                self.deliver(one, 2)
            if fate == 4:
                self.beta.emit(([topics_and_data("MessageReceived", **received(one, 1)[1])[0][0]], b"cut off"))
                self.alpha.emit(([b"\x77" * 32], b"of no interest"))
        return sent

    def index_once(self, spark: SparkSession, **changes: Any) -> None:
        index = Index(self.deployment, self.settings(**changes), spark)
        try:
            index.run_once()
        finally:
            index.close()

    @contextmanager
    def indexing(
        self,
        spark: SparkSession,
        deployment: Deployment | None = None,
        *,
        clock: Callable[[], float] = time.time,
        **changes: Any,
    ) -> Iterator[None]:
        """The stream runs for as long as the block does."""
        index = Index(deployment or self.deployment, self.settings(**changes), spark, clock)
        stop = threading.Event()
        failures: list[BaseException] = []

        def run() -> None:
            try:
                index.run(stop)
            except BaseException as error:  # noqa: BLE001  told to the test below
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(timeout=60)
            index.close()
        if failures:
            raise failures[0]

    def reader(self) -> IndexReader:
        return IndexReader(self.settings().folder.store_url)

    def contents(self, *chosen: Table) -> dict[str, list[tuple[Any, ...]]]:
        engine = create_engine(self.settings().folder.store_url)
        try:
            with engine.connect() as connection:
                return {
                    table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
                    for table in chosen or FACTS
                }
        finally:
            engine.dispose()

    def places(self, chain: AnvilChain) -> set[tuple[Any, ...]]:
        """What the index has of a chain, to compare with `AnvilChain.log_places`."""
        event = tables.events.c
        engine = create_engine(self.settings().folder.store_url)
        try:
            with engine.connect() as connection:
                rows = connection.execute(
                    select(event.block_number, event.log_index, event.block_hash, event.transaction_hash).where(
                        event.chain_id == chain.chain_id
                    )
                )
                return {tuple(row) for row in rows}
        finally:
            engine.dispose()

    def equals_chains(self) -> bool:
        return all(self.places(chain) == chain.log_places() for chain in (self.alpha, self.beta))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        eventually(lambda: self.store_is_there() and holds(), what)

    def store_is_there(self) -> bool:
        if not may_exist(self.settings().folder.store_url):
            return False
        engine = create_engine(self.settings().folder.store_url)
        try:
            with engine.connect() as connection:
                return connection.dialect.has_table(connection, tables.facts.name)
        finally:
            engine.dispose()


def log_of(event: tuple[str, dict[str, Any]]) -> Log:
    name, values = event
    return topics_and_data(name, **values)


def _padded(address: str) -> bytes:
    return bytes.fromhex(address[2:]).rjust(32, b"\0")
