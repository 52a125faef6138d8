"""Errors of a store."""

from __future__ import annotations

from bridge.protocol.ports import TransientError


class StoreError(Exception):
    """The store can't be used. The message states what to do."""


class StoreVersionError(StoreError):
    """A different version of Waybill created the store, and this version can't read it."""


class StoreMismatchError(StoreError):
    """The store belongs to the chains of a different network."""


class StoreBusyError(TransientError):
    """The database is locked, restarting or full. The same transaction may succeed later."""


class CursorMovedError(TransientError):
    """Another worker has recorded blocks of the chain since the cursor was read."""
