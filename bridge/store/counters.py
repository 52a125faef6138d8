"""Monotonic counters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from bridge.records.figures import Counted, CounterKey, latency_place
from bridge.store.database import Database, insert_into
from bridge.store.tables import counters


class Counters:
    """Stores counters that never decrease, and that outlive both the process and the counted rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, counts: Mapping[CounterKey, float]) -> None:
        """Adds to counters, all in one transaction."""
        with self._database.transaction() as connection:
            add_counts(connection, counts)

    def counted(self, what: Counted) -> dict[tuple[int | str, ...], float]:
        """Returns every counter of one kind, by label values."""
        with self._database.reading() as connection:
            return counted(connection, what)


def counted(connection: Connection, what: Counted) -> dict[tuple[int | str, ...], float]:
    """See `Counters.counted`."""
    query = select(counters.c.labels, counters.c.value).where(counters.c.what == what).order_by(counters.c.labels)
    return {tuple(json.loads(labels)): value for labels, value in connection.execute(query)}


def add_counts(connection: Connection, counts: Mapping[CounterKey, float]) -> None:
    """See `Counters.add`. Updates in a fixed order, so that transactions cannot deadlock."""
    rows = sorted((what.value, json.dumps(labels), amount) for (what, labels), amount in counts.items() if amount)
    for what, labels, amount in rows:
        added = insert_into(connection, counters).values(what=what, labels=labels, value=amount)
        keys = [counters.c.what, counters.c.labels]
        connection.execute(added.on_conflict_do_update(index_elements=keys, set_={"value": counters.c.value + amount}))


def delivered_counts(rows: Iterable[tuple[int, int, int, float, float]]) -> Counter[CounterKey]:
    """Returns the counter increments for deliveries whose rows are about to be deleted.

    Args:
        rows: Source chain, destination chain, GMP, observation time and delivery time (Unix seconds) of each delivery.
    """
    counts: Counter[CounterKey] = Counter()
    for source, destination, gmp, created_at, delivered_at in rows:
        queue, took = (source, destination, gmp), delivered_at - created_at
        counts[Counted.DELIVERED, (*queue, latency_place(took))] += 1
        counts[Counted.DELIVERY_SECONDS, queue] += took  # type: ignore[assignment]  # seconds are fractional
    return counts
