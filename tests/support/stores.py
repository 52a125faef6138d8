"""The SQL stores on SQLite in memory: each is empty at first, and gone with its last reference."""

from __future__ import annotations

import weakref

from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog

IN_MEMORY = "sqlite://"


def memory_store() -> Store:
    """An empty store."""
    store = Store(IN_MEMORY)
    database = store._database
    weakref.finalize(database, database.engine.dispose)
    return store


def memory_dead_letters() -> DeadLetterLog:
    """An empty log of dead letters."""
    log = DeadLetterLog(IN_MEMORY)
    database = log._database
    weakref.finalize(database, database.engine.dispose)
    return log
