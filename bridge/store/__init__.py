"""Where the bridge keeps what it remembers: SQLite by default."""

from __future__ import annotations

from bridge.store.memory import MemoryStore
from bridge.store.sql import SqlStore

__all__ = ["MemoryStore", "SqlStore", "open_store"]

IN_MEMORY = "memory"


def open_store(url: str) -> SqlStore | MemoryStore:
    """The store at a SQLAlchemy URL such as ``sqlite:///bridge.db``, or ``memory``.

    Raises:
        StoreVersionError: a newer version of Waybill made it.
        StoreError: there is no database behind that URL.
    """
    return MemoryStore() if url == IN_MEMORY else SqlStore(url)
