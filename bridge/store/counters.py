"""Monotonic counters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from bridge.records.figures import Counted, CounterKey
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

    def counted(self, what: Counted) -> dict[tuple[Any, ...], float]:
        """Returns every counter of one kind, by label values."""
        with self._database.reading() as connection:
            return counted(connection, what)


def counted(connection: Connection, what: Counted) -> dict[tuple[Any, ...], float]:
    """See `Counters.counted`."""
    query = select(counters.c.labels, counters.c.value).where(counters.c.what == what).order_by(counters.c.labels)
    return {tuple(json.loads(labels)): value for labels, value in connection.execute(query)}


def add_counts(connection: Connection, counts: Mapping[CounterKey, float]) -> None:
    """See `Counters.add`. Updates in a fixed order, so that transactions cannot deadlock."""
    amounts = sorted((what.value, json.dumps(labels), amount) for (what, labels), amount in counts.items() if amount)
    if amounts:
        added = insert_into(connection, counters)
        summed = {"value": counters.c.value + added.excluded.value}
        statement = added.on_conflict_do_update(index_elements=["what", "labels"], set_=summed)
        connection.execute(
            statement, [{"what": what, "labels": labels, "value": amount} for what, labels, amount in amounts]
        )
