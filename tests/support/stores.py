"""The SQL stores on SQLite in memory: each is empty at first, and gone with its last reference."""

from __future__ import annotations

import weakref

from bridge.store import SqlStore
from bridge.store.dead_letters import SqlDeadLetterLog

IN_MEMORY = "sqlite://"


def memory_store() -> SqlStore:
    """An empty store, for one thread."""
    store = SqlStore(IN_MEMORY)
    database = store._database
    weakref.finalize(database, database.engine.dispose)
    return store


def memory_dead_letters() -> SqlDeadLetterLog:
    """An empty log of dead letters, for one thread."""
    log = SqlDeadLetterLog(IN_MEMORY)
    database = log._database
    weakref.finalize(database, database.engine.dispose)
    return log
