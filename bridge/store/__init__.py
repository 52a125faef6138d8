"""Where the bridge keeps what it remembers: SQLite by default, or PostgreSQL, which several relayers share."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url

from bridge.domain.dead_letters import DeadLetterLog
from bridge.store.backup import Copied, back_up, restore
from bridge.store.dead_letters import SqlDeadLetterLog
from bridge.store.lock import WorkingLock, working_on
from bridge.store.sql_store import SqlStore

__all__ = [
    "Copied",
    "SqlStore",
    "WorkingLock",
    "back_up",
    "may_exist",
    "open_dead_letters",
    "open_store",
    "restore",
    "working_on",
]


def open_store(url: str) -> SqlStore:
    """The store at a SQLAlchemy URL such as ``sqlite:///bridge.db`` or ``postgresql://user@host/database``.

    Raises:
        StoreVersionError: a newer version of Waybill made it.
        StoreError: there is no database behind that URL.
        StoreBusyError: the database does not answer.
    """
    return SqlStore(url)


def may_exist(url: str) -> bool:
    """Whether there can be a store: a SQLite file that is not there has none, and reading must not make one."""
    parsed = make_url(url)
    return parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").exists()


def open_dead_letters(url: str) -> DeadLetterLog:
    """The dead letters at a SQLAlchemy URL, the store's own or another one's.

    The database is opened when it is first needed: a relayer whose dead letters are away for now can start.
    """
    return SqlDeadLetterLog(url)
