"""Errors of a store."""

from __future__ import annotations

from bridge.protocol.ports import TransientError


class StoreError(Exception):
    """The store can't be used; the message says what to do."""


class StoreVersionError(StoreError):
    """Another version of Waybill created the store, and this one can't read it."""


class StoreMismatchError(StoreError):
    """The store belongs to chains of another network."""


class StoreBusyError(TransientError):
    """The database is locked, restarting or full: the same transaction may succeed later."""


class CursorMovedError(TransientError):
    """Another worker recorded blocks of the chain since the cursor was read."""
