"""Webhooks: records of the streams on their way to HTTP targets, one delivery for each target that wants a record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bridge.domain.lanes import Lane
from bridge.domain.streams import Stream, StreamRecord
from bridge.protocol.message import Kind, Message


class WebhookState(StrEnum):
    """Where a delivery is."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"  # the target answered 2xx
    DEAD = "DEAD"  # all tries failed; it can be delivered again by hand


class StillPendingError(Exception):
    """A delivery can't be made pending, since it is."""

    def __init__(self, delivery_id: str) -> None:
        super().__init__(f"webhook delivery {delivery_id} is PENDING: it is tried until it ends")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFilter:
    """Which records a target wants. An empty set is every one; a record must pass all."""

    streams: frozenset[Stream] = frozenset()
    events: frozenset[str] = frozenset()
    lanes: frozenset[Lane] = frozenset()
    senders: frozenset[bytes] = frozenset()  # 32 bytes each
    recipients: frozenset[bytes] = frozenset()
    kinds: frozenset[Kind] = frozenset()

    @property
    def asks_for_message(self) -> bool:
        """Whether a record's message must be known to judge it."""
        return bool(self.lanes or self.senders or self.recipients or self.kinds)

    def passes(self, record: StreamRecord, message: Message | None) -> bool:
        """Whether the target wants a record.

        Args:
            record: which one.
            message: that it is about; None: it is about a lane, or the message is not known.
        """
        if (self.streams and record.stream not in self.streams) or (self.events and record.event not in self.events):
            return False
        if message is None:
            ends = (record.data.get("sourceChainId"), record.data.get("destinationChainId"))
            in_lane = not self.lanes or ends in {(lane.source_chain, lane.destination_chain) for lane in self.lanes}
            return in_lane and not (self.senders or self.recipients or self.kinds)
        return (
            (not self.lanes or Lane(message.source_chain, message.destination_chain) in self.lanes)
            and (not self.senders or message.sender in self.senders)
            and (not self.recipients or message.recipient in self.recipients)
            and (not self.kinds or message.kind in self.kinds)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """One record on its way to one target. Times are Unix seconds."""

    id: str  # the same for every try: a target drops by it what comes twice
    target: str
    key: str  # as the record's
    version: int
    event: str
    body: str  # JSON, as it is sent
    created_at: float
    state: WebhookState = WebhookState.PENDING
    tries: int = 0  # that failed
    next_at: float = 0.0
    claimed_until: float = 0.0
    ended_at: float | None = None
    error: str = ""  # of the last try that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFigures:
    """How the deliveries of one target are."""

    pending: int
    oldest: float | None  # when the oldest pending one was created, Unix seconds
    dead: int
