"""What can go wrong with a store, whichever kind it is."""

from __future__ import annotations

from bridge.protocol.ports import TransientError


class StoreError(Exception):
    """A store that can't be used; the text says what to do."""


class StoreVersionError(StoreError):
    """A store that another version of Waybill made, and this one can't read."""


class StoreMismatchError(StoreError):
    """A store that belongs to other chains than those it is used with."""


class StoreBusyError(TransientError):
    """The database is locked, restarting or full: the same transaction may succeed later."""


class CursorMovedError(TransientError):
    """Somebody else recorded blocks of the chain since the cursor was read."""
