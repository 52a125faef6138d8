"""Measures durable state changes per second of the outbox, of the same writes by hand, and of a comparable queue."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import procrastinate

from bridge.protocol.gmps import Gmp
from bridge.records.outbox import Delivered, ObservedDelivery, OutboxEntry
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.store import Store
from tests.builders import BETA, block, message, observed_range, word
from tests.postgresql import Server

BATCH: Final = 100
ENTRIES: Final = 4_000
PEER_JOBS: Final = 600
COMMITTED_AT_ONCE: Final = {
    CommitStrategy.BATCH: 100,
    CommitStrategy.MESSAGE: 1,
    CommitStrategy.AT_MOST_ONCE: 1,
    CommitStrategy.AUTO: 100,
    CommitStrategy.TIME: 1_000,
}
"""Deliveries per commit at full load: `time` and `auto` take what their timer finds, here as many as fit."""

_DELIVERY = ObservedDelivery(block(5, "beta"), word("tx"))
_CLAIM = (
    "UPDATE outbox SET state='CLAIMED', fence=fence+1, claimed_at=?, claimed_by='w', lease_until=? WHERE event_id=?"
)
_DELIVER = (
    "UPDATE outbox SET state='DELIVERED', claimed_at=NULL, claimed_by=NULL, lease_until=NULL, delivered_at=?,"
    " delivery_block_number=5, delivery_block_hash=?, delivery_transaction_hash=? WHERE event_id=?"
)
_DUE = (
    "SELECT event_id, outbox.*, envelope FROM outbox JOIN messages USING (message_id) WHERE state='PENDING'"
    " ORDER BY available_at, sequence LIMIT ?"
)
_HELD = "SELECT event_id, claimed_by, fence FROM outbox WHERE state='CLAIMED' AND event_id = ?"


def filled(url: str, entries: int = ENTRIES) -> Store:
    """Returns a store with a backlog of deliveries."""
    store = Store(url)
    store.observations.record(observed_range(*(message(nonce) for nonce in range(1, entries + 1)), now=100))
    return store


def claimed(store: Store, limit: int = BATCH) -> list[OutboxEntry]:
    return store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=limit, now=200, lease=60)


def ends(entries: list[OutboxEntry]) -> list[Delivered]:
    return [Delivered(entry.current_claim, _DELIVERY, executed=True) for entry in entries]  # a quorum of one


def seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def transitions(url: str) -> float:
    """Returns the store's claims and commits per second, in batches of 100."""
    store = filled(url)

    def work() -> None:
        while found := claimed(store):
            store.outbox.finish(ends(found), 201)

    took = seconds(work)
    store.close()
    return 2 * ENTRIES / took


def bare_transitions(path: Path) -> float:
    """Returns the same reads and writes per second with the sqlite3 module alone and full sync."""
    filled(f"sqlite:///{path}").close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")

        def work() -> None:
            while True:
                database.execute("BEGIN IMMEDIATE")
                ids = [row[0] for row in database.execute(_DUE, [BATCH]).fetchall()]
                database.executemany(_CLAIM, [(200, 260, event_id) for event_id in ids])
                database.execute("COMMIT")
                if not ids:
                    return
                database.execute("BEGIN IMMEDIATE")
                assert all(database.execute(_HELD, [event_id]).fetchone() for event_id in ids)
                database.executemany(
                    _DELIVER, [(201, _DELIVERY.block.hash, _DELIVERY.transaction_hash, event_id) for event_id in ids]
                )
                database.execute("COMMIT")

        return 2 * ENTRIES / seconds(work)


def strategies(folder: Path) -> dict[str, float]:
    """Returns deliveries per second under each commit strategy, on SQLite."""
    found = {}
    for strategy, size in COMMITTED_AT_ONCE.items():
        entries = 2_000 if size > 1 else 400
        store = filled(f"sqlite:///{folder}/{strategy}.db", entries)

        def work(store: Store = store, size: int = size) -> None:
            while batch := claimed(store, max(size, BATCH)):
                for start in range(0, len(batch), size):
                    store.outbox.finish(ends(batch[start : start + size]), 201)

        found[strategy.value] = entries / seconds(work)
        store.close()
    return found


def peer_transitions(server: Server) -> float:
    """Returns procrastinate's empty jobs per second on the same server, fetched and finished one by one."""
    return asyncio.run(_peer(server))


async def _peer(server: Server) -> float:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=server.conninfo))

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.configure().batch_defer_async(*(dict[str, Any](number=number) for number in range(PEER_JOBS)))
        started = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=20, listen_notify=False, install_signal_handlers=False)
        return 2 * PEER_JOBS / (time.perf_counter() - started)
