"""Errors of the index that its user can fix.

IndexerError
├── SettingsError           a setting has an invalid value
├── FinalityViolatedError   a chain reverted a final block
├── NoIndexError            there is no store to read
├── QueryError              a user's query is invalid or fails
├── StoreVersionError       a newer or an older version of Waybill wrote the store
├── LakeVersionError        a newer version of Waybill wrote the lake
├── LakeDamagedError        a file of the lake is missing or can't be read
├── LakeUnreachableError    the lake's bucket does not exist, denies access, or does not respond
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
    """A user's query is invalid or fails. The message states the reason."""


class NoIndexError(IndexerError):
    """There is no store to read, because no index has run yet."""


class StoreVersionError(IndexerError):
    """A different version of Waybill wrote the store."""


class LakeVersionError(IndexerError):
    """A newer version of Waybill wrote the lake."""


class LakeDamagedError(IndexerError):
    """A file of the lake is missing or can't be read."""


class LakeUnreachableError(IndexerError):
    """The lake's bucket does not exist, denies access, or does not respond."""


class RangeGapError(IndexerError):
    """A block range does not follow the stored blocks. Reading must restart from the store's offsets."""
