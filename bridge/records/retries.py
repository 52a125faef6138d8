"""Retry budgets, and the source of the index's retry requests."""

from __future__ import annotations

from typing import Final, Protocol

from eth_utils import decode_hex

from bridge.protocol.gmps import Gmp
from bridge.protocol.retry_requests import RetryRequest

RETRY_ROUTE: Final = "retryRoute"
"""Stands where other dead letters name a GMP."""


def spent_id(message_id: bytes, attempt: int) -> str:
    """Returns the id of the dead letter about a retry that exceeds its message's budget."""
    return f"0x{message_id.hex()}/{RETRY_ROUTE}/{attempt}"


def retry_of(event_id: str) -> tuple[bytes, int] | None:
    """Parses a dead letter's id into message and attempt; None if the letter is about a delivery."""
    message_id, is_retry, attempt = event_id.partition(f"/{RETRY_ROUTE}/")
    return (decode_hex(message_id), int(attempt)) if is_retry else None


class RetryRequestSource(Protocol):
    """A read-only view of the index's retry requests."""

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """Returns the requests with a sequence above `sequence`, in order; empty if there is no index yet."""

    async def highest_sequence(self) -> int:
        """Returns the last request's sequence, or 0."""

    async def ranking(self, sequence: int) -> tuple[Gmp, ...]:
        """Returns the index's ranking of GMPs for a request, best first; empty if it has none."""
