"""Numbers that only grow, in SQL."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select

from bridge.domain.figures import Counted, CounterKey, latency_place
from bridge.store.database import Database, insert_into
from bridge.store.tables import counters


class SqlCounters:
    """See `bridge.domain.figures.Counters`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, counts: Mapping[CounterKey, float]) -> None:
        with self._database.transaction() as connection:
            add_counts(connection, counts)

    def counted(self, what: Counted) -> dict[tuple[int | str, ...], float]:
        with self._database.reading() as connection:
            return counted(connection, what)


def counted(connection: Connection, what: Counted) -> dict[tuple[int | str, ...], float]:
    """See `Counters.counted`."""
    query = select(counters.c.labels, counters.c.value).where(counters.c.what == what).order_by(counters.c.labels)
    return {tuple(json.loads(labels)): value for labels, value in connection.execute(query)}


def add_counts(connection: Connection, counts: Mapping[CounterKey, float]) -> None:
    """See `Counters.add`. In one order, so that two transactions never wait for each other."""
    rows = sorted((what.value, json.dumps(labels), amount) for (what, labels), amount in counts.items() if amount)
    for what, labels, amount in rows:
        added = insert_into(connection, counters).values(what=what, labels=labels, value=amount)
        keys = [counters.c.what, counters.c.labels]
        connection.execute(added.on_conflict_do_update(index_elements=keys, set_={"value": counters.c.value + amount}))


def delivered_counts(rows: Iterable[tuple[int, int, int, float, float]]) -> Counter[CounterKey]:
    """What deliveries add to the counters that outlive them.

    Args:
        rows: source chain, destination chain, GMP, and when each was observed and delivered (Unix seconds).
    """
    counts: Counter[CounterKey] = Counter()
    for source, destination, gmp, created_at, delivered_at in rows:
        queue, took = (source, destination, gmp), delivered_at - created_at
        counts[Counted.DELIVERED, (*queue, latency_place(took))] += 1
        counts[Counted.DELIVERY_SECONDS, queue] += took  # type: ignore[assignment]  # seconds are no whole numbers
    return counts
