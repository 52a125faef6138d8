"""How the endpoints of one chain are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHANGING: Final = frozenset({"eth_sendRawTransaction"})
"""Requests that are not asked again of another endpoint because the first is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPolicy:
    """Times are in seconds.

    Attributes:
        request_seconds: how long one request may take.
        retry_seconds: how long a request is tried again while nobody answers.
        agreement: how many endpoints must say the same before anything counts: an answer, a refusal, that a transaction was
            taken; a number in which they may differ is what so many have reached.
        branch_seconds: for how long an endpoint is refused that has another block where our last one is, while no other answers.
        hedge_after: until a read that is slow is asked of another endpoint too; None never.
        requests_per_second: to each endpoint; None is as many as there are.
        batch: requests that travel to an endpoint together at most, see `Transport`.
    """

    request_seconds: float = 10.0
    retry_seconds: float = 15.0
    agreement: int = 1
    branch_seconds: float = 30.0
    hedge_after: float | None = None
    requests_per_second: float | None = None
    batch: int = 50


class Pace:
    """Spaces requests out evenly."""

    def __init__(self, requests_per_second: float | None) -> None:
        self._interval = 0.0 if requests_per_second is None else 1 / requests_per_second
        self._next = 0.0

    def wait_from(self, now: float) -> float:
        """Takes the next place in line; returns how many seconds it is away."""
        if not self._interval:
            return 0.0
        place = max(now, self._next)
        self._next = place + self._interval
        return place - now
