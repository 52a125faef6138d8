"""The relayer's durable state, in SQLite by default, or in PostgreSQL, which several relayers can share."""

from bridge.store.backup import Copied, back_up, restore
from bridge.store.lock import working_on
from bridge.store.sql_store import Store, is_store, open_dead_letters, open_store

__all__ = [
    "Copied",
    "Store",
    "back_up",
    "is_store",
    "open_dead_letters",
    "open_store",
    "restore",
    "working_on",
]
