"""What retries may cost, and where the index asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from eth_utils import decode_hex

from bridge.protocol.gmps import Gmp
from bridge.protocol.retry_requests import RetryRequest

_DAY: Final = 86_400  # seconds

RETRY_ROUTE: Final = "retryRoute"
"""Stands where other dead letters name a GMP."""


class RetryBudget(StrEnum):
    """What may have no room for a retry."""

    MESSAGE = "message"  # all retries of its message: spent for good, unless an operator decides otherwise
    LANE = "lane"  # all retries of its lane today: there is room again tomorrow
    SPENDING = "spending"  # the gate that all spending passes: its filters, consent or bounds


def spent_id(message_id: bytes, attempt: int) -> str:
    """The name of the dead letter about a retry for which its message's budget has no room."""
    return f"0x{message_id.hex()}/{RETRY_ROUTE}/{attempt}"


def retry_of(event_id: str) -> tuple[bytes, int] | None:
    """The message and attempt that a dead letter of that name is about; None if it is about a delivery."""
    message_id, is_retry, attempt = event_id.partition(f"/{RETRY_ROUTE}/")
    return (decode_hex(message_id), int(attempt)) if is_retry else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPayment:
    """What one retry pays its GMPs, without gas. Known before it is sent, so that no crash forgets it."""

    message_id: bytes
    attempt: int
    source_chain: int
    destination_chain: int
    wei: int
    at: float  # Unix seconds

    @property
    def day(self) -> float:
        """When its day (UTC) began."""
        return self.at - self.at % _DAY

    @property
    def next_day(self) -> float:
        """When the day after begins."""
        return self.day + _DAY


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A budget that has no room for a payment."""

    budget: RetryBudget
    why: str  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedRetries:
    """How many retries of a lane its budgets keep from being made; 0 where all that were are not any more."""

    source_chain: int
    destination_chain: int
    dead: int  # their message's budget is spent
    blocked: Mapping[RetryBudget, int]  # that wait for room


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudgets:
    """What retries may cost and how many there may be; None is no limit."""

    retries: int | None = None  # of one message
    message: int | None = None  # wei that all of them pay
    lane: int | None = None  # wei that all retries of a lane pay in one day

    @property
    def of_lane_alone(self) -> RetryBudgets:
        """What counts for a retry that an operator let through although its message's budget is spent."""
        return RetryBudgets(lane=self.lane)

    def exceeded_by(self, payment: RetryPayment, of_message: Sequence[int], of_lane: Sequence[int]) -> Exceeded | None:
        """Which budget has no room for a payment; None if all have.

        Args:
            payment: the one to be made.
            of_message: wei of each other payment for the same message.
            of_lane: wei of each other payment on the same lane and day.
        """
        if self.retries is not None and len(of_message) >= self.retries:
            why = f"it was retried {len(of_message)} times, and max_message_retries is {self.retries}"
            return Exceeded(RetryBudget.MESSAGE, why)
        total = sum(of_message) + payment.wei
        if self.message is not None and total > self.message:
            why = f"all its retries would cost {total} wei, and max_message_retry_fee is {self.message}"
            return Exceeded(RetryBudget.MESSAGE, why)
        today = sum(of_lane) + payment.wei
        if self.lane is not None and today > self.lane:
            why = f"retries of its lane would cost {today} wei today, and retry_budgets allows {self.lane}"
            return Exceeded(RetryBudget.LANE, why)
        return None


class RetryRequestSource(Protocol):
    """Where the indexer leaves its requests; only read."""

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """Requests with a higher sequence, in order; none if there is no index yet."""

    async def highest_sequence(self) -> int:
        """The last request's sequence, 0 if there is none."""

    async def ranking(self, sequence: int) -> tuple[Gmp, ...]:
        """The GMPs that the index would retry over for a request, the best first; empty if it does not say."""
