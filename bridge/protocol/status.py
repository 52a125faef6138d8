"""The states of a message: one vocabulary for events, CLI, web, store and Spark."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The state of a message."""

    ROUTED = "ROUTED"
    RECEIVED = "RECEIVED"
    EXECUTED = "EXECUTED"
    UNFUNDED = "UNFUNDED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    EXECUTION_DEFERRED = "EXECUTION_DEFERRED"
    STALLED = "STALLED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"
    DIVERGED = "DIVERGED"
    ORPHANED = "ORPHANED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """Whether the state stays the same unless somebody acts on the message."""
        return self in _FINAL


_FINAL = frozenset({Status.EXECUTED, Status.EXPIRED, Status.CANCELLED, Status.DEAD, Status.ORPHANED})
