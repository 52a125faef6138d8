"""The source of the index's retry requests."""

from __future__ import annotations

from typing import Protocol

from bridge.protocol.gmps import Gmp
from bridge.protocol.retry_requests import RetryRequest


class RetryRequestSource(Protocol):
    """A read-only view of the index's retry requests."""

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """Returns requests with a higher sequence, in order; empty if there is no index yet."""

    async def highest_sequence(self) -> int:
        """Returns the last request's sequence, or 0."""

    async def ranking(self, sequence: int) -> tuple[Gmp, ...]:
        """Returns the GMPs by which the index would retry a request, best first; empty if it does not say."""
