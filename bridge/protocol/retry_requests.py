"""Retry requests, through which the index asks the relayer to act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.protocol.gmps import Gmp, gmps_from_bits

TABLE = "retry_requests"

COLUMNS = (
    "sequence",
    "message_id",
    "attempt",
    "generation",
    "source_chain",
    "destination_chain",
    "missing_gmps",
    "received_gmps",
    "reason",
    "cause_block",
    "requested_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequest:
    """An overdue message, and the retry that the index requests for it."""

    sequence: int  # increasing, possibly with gaps; the reader's cursor
    message_id: bytes
    attempt: int  # the requested attempt: last attempt seen + 1
    generation: int  # incremented when a reorg orphaned the cause or the closure of an earlier request
    source_chain: int
    destination_chain: int
    missing_gmps: frozenset[Gmp]  # GMPs that have been tried and have not delivered
    received_gmps: frozenset[Gmp]
    reason: str
    cause_block: int  # source block where the relayer looks for the message first
    requested_at: float  # Unix seconds, the index's clock

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> RetryRequest:
        """Builds a request from a row with the columns `COLUMNS`."""
        values = {column: row[column] for column in COLUMNS}
        values["missing_gmps"] = gmps_from_bits(values["missing_gmps"])
        values["received_gmps"] = gmps_from_bits(values["received_gmps"])
        values["message_id"] = bytes(values["message_id"])
        return cls(**values)


class RetryRequestSource(Protocol):
    """A read-only view of the index's retry requests."""

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """Returns the requests with a sequence above `sequence`, in order; empty if there is no index yet."""

    async def highest_sequence(self) -> int:
        """Returns the last request's sequence, or 0."""
