"""Where the bridge keeps what it remembers: SQLite by default, or PostgreSQL, which several relayers share."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

from bridge.records.dead_letters import DeadLetterLog
from bridge.store.backup import Copied, back_up, restore
from bridge.store.lock import WorkingLock, working_on
from bridge.store.memory import MemoryStore
from bridge.store.memory.dead_letters import MemoryDeadLetterLog
from bridge.store.sql import SqlStore
from bridge.store.sql.dead_letters import SqlDeadLetterLog

__all__ = [
    "Copied",
    "MemoryStore",
    "SqlStore",
    "WorkingLock",
    "back_up",
    "may_exist",
    "open_dead_letters",
    "open_store",
    "restore",
    "working_on",
]

IN_MEMORY = "memory"


def open_store(url: str) -> SqlStore | MemoryStore:
    """The store at a SQLAlchemy URL such as ``sqlite:///bridge.db`` or ``postgresql://user@host/database``, or ``memory``.

    Raises:
        StoreVersionError: a newer version of Waybill made it.
        StoreError: there is no database behind that URL.
        StoreBusyError: the database does not answer.
    """
    return MemoryStore() if url == IN_MEMORY else SqlStore(url)


def may_exist(url: str) -> bool:
    """Whether there can be a store: a SQLite file that is not there has none, and reading must not make one."""
    parsed = make_url(url)
    return parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").exists()


def open_dead_letters(url: str) -> DeadLetterLog:
    """The dead letters at a SQLAlchemy URL, the store's own or another one's, or in ``memory``.

    The database is opened when it is first needed: a relayer whose dead letters are away for now can start.
    """
    return MemoryDeadLetterLog() if url == IN_MEMORY else SqlDeadLetterLog(url)
