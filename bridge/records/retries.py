"""Which budgets retries have, and where the index asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from eth_utils import decode_hex

from bridge.protocol.gmps import Gmp
from bridge.protocol.retry_requests import RetryRequest

RETRY_ROUTE: Final = "retryRoute"
"""Stands where other dead letters name a GMP."""


class RetryBudget(StrEnum):
    """What may have no room for a retry."""

    MESSAGE = "message"  # all retries of its message: spent for good, unless an operator decides otherwise
    SPENDING = "spending"  # the gate that all spending passes: its filters, consent or bounds


def spent_id(message_id: bytes, attempt: int) -> str:
    """The name of the dead letter about a retry for which its message's budget has no room."""
    return f"0x{message_id.hex()}/{RETRY_ROUTE}/{attempt}"


def retry_of(event_id: str) -> tuple[bytes, int] | None:
    """The message and attempt that a dead letter of that name is about; None if it is about a delivery."""
    message_id, is_retry, attempt = event_id.partition(f"/{RETRY_ROUTE}/")
    return (decode_hex(message_id), int(attempt)) if is_retry else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRetries:
    """How many retries of a lane its budgets keep from being made; 0 where all that were are not any more."""

    source_chain: int
    destination_chain: int
    dead: int  # their message's budget is spent
    blocked: Mapping[RetryBudget, int]  # that wait for room


class RetryRequestSource(Protocol):
    """Where the indexer leaves its requests; only read."""

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """Requests with a higher sequence, in order; none if there is no index yet."""

    async def highest_sequence(self) -> int:
        """The last request's sequence, 0 if there is none."""

    async def ranking(self, sequence: int) -> tuple[Gmp, ...]:
        """The GMPs that the index would retry over for a request, the best first; empty if it does not say."""
