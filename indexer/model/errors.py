"""Errors of the index that its user can do something about.

IndexerError
├── SettingsError           a setting that makes no sense
├── FinalityViolatedError   a chain took back what it had called final
├── NoIndexError            there is no store to read
├── QueryError              a user's query can't be answered
├── StoreVersionError       the store was written by a newer or an older Waybill
├── LakeVersionError        the lake was written by a newer Waybill
├── LakeDamagedError        a file of the lake is not there, or can't be read
├── LakeUnreachableError    the lake's bucket is not there, refuses, or does not answer
└── RangeGapError           a block range that does not follow what is stored

Faults of endpoints are `bridge.evm.rpc_answers.RpcError`.
"""

from __future__ import annotations


class IndexerError(Exception):
    """The index can't continue; the text says why and what to do."""


class SettingsError(IndexerError, ValueError):
    """A setting that makes no sense."""


class FinalityViolatedError(IndexerError):
    """A chain no longer has a block that it had called final."""


class QueryError(IndexerError):
    """A user's query can't be answered; the text says what is wrong with it."""


class NoIndexError(IndexerError):
    """No index has run yet: there is nothing to read."""


class StoreVersionError(IndexerError):
    """A store that another version of Waybill wrote."""


class LakeVersionError(IndexerError):
    """A lake that a newer Waybill wrote."""


class LakeDamagedError(IndexerError):
    """A file of the lake is not there, or can't be read."""


class LakeUnreachableError(IndexerError):
    """The bucket of the lake is not there, refuses, or does not answer."""


class RangeGapError(IndexerError):
    """A block range that does not follow what is stored: reading must start again from the store's own offsets."""
