"""The relayer's durable state: SQLite by default, or PostgreSQL, which several relayers share."""

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
