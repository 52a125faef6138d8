"""Errors of the index that its user can do something about.

IndexerError
├── SettingsError           a setting has an invalid value
├── FinalityViolatedError   a chain reverted a final block
├── NoIndexError            there is no store to read
├── QueryError              a user's query can't be answered
├── StoreVersionError       the store was written by a newer or an older Waybill
├── LakeVersionError        the lake was written by a newer Waybill
├── LakeDamagedError        a file of the lake is missing or can't be read
├── LakeUnreachableError    the lake's bucket does not exist, denies access, or does not answer
└── RangeGapError           a block range does not follow the stored blocks

Faults of endpoints are `bridge.evm.rpc_answers.RpcError`.
"""

from __future__ import annotations


class IndexerError(Exception):
    """The index can't continue. The message says why and what to do."""


class SettingsError(IndexerError, ValueError):
    """A setting has an invalid value."""


class FinalityViolatedError(IndexerError):
    """A chain no longer has a block that it had reported as final."""


class QueryError(IndexerError):
    """A user's query can't be answered. The message says what is wrong with it."""


class NoIndexError(IndexerError):
    """There is no store to read, because no index has run yet."""


class StoreVersionError(IndexerError):
    """The store was written by another version of Waybill."""


class LakeVersionError(IndexerError):
    """The lake was written by a newer version of Waybill."""


class LakeDamagedError(IndexerError):
    """A file of the lake is missing or can't be read."""


class LakeUnreachableError(IndexerError):
    """The lake's bucket does not exist, denies access, or does not answer."""


class RangeGapError(IndexerError):
    """A block range does not follow the stored blocks. Reading must restart from the store's offsets."""
