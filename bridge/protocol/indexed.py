"""The records that the index returns to its readers. All times are block times in Unix seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message as the index knows it.

    A field is None if its source has not been read, or the event has not happened yet.
    """

    message_id: bytes
    status: Status
    source_chain: int
    destination_chain: int | None
    source_router: bytes | None
    destination_router: bytes | None
    sender: bytes | None
    recipient: bytes | None
    nonce: int | None
    gas_limit: int | None  # gas
    sent_at: int | None
    ttl: int | None  # seconds; 0 = never expires
    kind: Kind | None
    quorum: int | None
    replaces: bytes | None
    payload_hash: bytes | None
    retriable: bool
    source_block: int | None
    source_time: int | None
    source_transaction: bytes | None
    attempts: int | None  # number of the last attempt; 0 is the route
    attempted_time: int | None
    dispatched: frozenset[Gmp]
    received: frozenset[Gmp]
    receipts: int
    received_time: int | None
    executions: int
    executed_block: int | None
    executed_time: int | None
    executed_transaction: bytes | None
    failures: int
    failure_reason: bytes | None
    duplicates: int
    is_ended: bool = False  # a router reported it as executed, expired or cancelled; says nothing about the TTL
    cancellation_id: bytes | None = None  # the message that cancels it
    outcome: int | None = None  # how it ended, as reported to its source: 1 executed, 2 expired, 3 cancelled
    replaced_by: bytes | None = (
        None  # for an ORPHANED message: the message that its transaction created when it was included again
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRecord:
    """The progress of one message over one GMP."""

    message_id: bytes
    gmp: int
    dispatches: int  # attempts in which the GMP accepted it
    dispatch_failures: int
    received_chain: int | None
    received_block: int | None
    received_time: int | None
    received_transaction: bytes | None
    duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateRecord:
    """A repeated delivery that an adapter absorbed."""

    message_id: bytes
    gmp: int
    chain_id: int
    block_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRecord:
    """The index's progress in reading a chain."""

    chain_id: int
    block: int
    block_time: int
    head_block: int  # the head at the last poll
    final_block: int
    lake_block: int | None  # the last block whose events are in the lake
    lag_seconds: int  # seconds from the block's time until now
    halted: str | None  # reason why reading has stopped


class PausedThing(StrEnum):
    """The kind of thing that is paused."""

    LANE = "lane"
    GMP = "gmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRecord:
    """A pause according to a router's events. For a GMP, only the newest pause is kept."""

    thing: PausedThing
    number: int  # the lane's other chain, or the GMP
    begins: int
    ends: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceRecord:
    """Facts that contradict each other. It has no message if it concerns a lane as a whole."""

    kind: str  # see `indexer.model.divergences`
    message_id: bytes | None
    source_chain: int | None
    destination_chain: int | None
    evidence: str
    severity: str  # critical, high, medium or low
    next_action: str

    @property
    def is_contradiction(self) -> bool:
        """Whether an operator should look at the divergence.

        A waiting message (medium) and an event that anyone can cause (low) need no attention.
        """
        return self.severity in ("critical", "high")

    @property
    def contradicts_message(self) -> bool:
        """Whether the divergence makes the message DIVERGED.

        A SILENT message is late but not contradictory, and the parts of a fan-out may each be correct.
        """
        return self.message_id is not None and self.is_contradiction and self.kind != "FAN_OUT_DIFFERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCheckRecord:
    """The last comparison of a router's total with the index's events by `waybill index verify`."""

    chain_id: int  # of the router
    direction: str  # sent or executed
    other_chain: int
    verdict: str  # equal, different or unverified
    reason: str  # reason of the difference
    block_number: int | None  # the last block that was compared


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the list of messages, newest first."""

    seen: int  # Unix seconds: block time of the creation, or else of the first receipt
    message_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """A filter for messages. A field that is None matches everything."""

    status: Status | None = None
    source_chain: int | None = None
    destination_chain: int | None = None
    gmp: Gmp | None = None  # GMP that accepted or delivered it
    kind: Kind | None = None
    account: bytes | None = None  # sender or recipient, 32 bytes
    among: frozenset[bytes] | None = None  # only messages with these ids; None: any


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """A page of the list of messages."""

    messages: tuple[MessageRecord, ...]
    next: Position | None  # position of the next page; None at the end
    looked_at: int  # messages examined to find those above


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event of a message on one of its chains."""

    event: str
    chain_id: int
    block_number: int
    log_index: int
    block_time: int  # Unix seconds
    transaction_hash: bytes
    gmp: int | None
    gmps: int | None  # set: bit n - 1 stands for GMP n
    attempt: int | None
    receipts: int | None
    quorum: int | None
    reason: bytes | None
    outcome: int | None  # outcome of the message: 1 executed, 2 expired, 3 cancelled
    second_outcome: int | None  # outcome in a later, contradicting report
    envelope: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts of the messages created in a period, for one lane or one GMP; the other field is None.

    Attributes:
        lane: source and destination chain.
        gmp: number of the GMP.
        messages: number of messages created or, for a GMP, of messages that it accepted.
        arrived: seconds of block time until each message was executed or, for a GMP, delivered, in ascending
            order. They are counted from the creation or, for a GMP, from the attempt in which it first accepted the
            message.
        overtaken: number of messages that the GMP has not delivered and that were retried since; 0 for a lane.
    """

    lane: tuple[int, int] | None
    gmp: int | None
    messages: int
    arrived: tuple[int, ...]
    overtaken: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """The cost of one transaction, read from its chain.

    Attributes:
        payer: Address of the account that sent the transaction.
        gas: Gas used.
        gas_paid: Cost of that gas in wei.
        value: Wei sent with the transaction, such as the GMPs' fees, including amounts refunded in the same
            transaction.
    """

    payer: str
    gas: int
    gas_paid: int
    value: int


def with_diverged(counts: Mapping[Status, int], contradicted: Mapping[bytes, Status]) -> dict[Status, int]:
    """Returns the number of messages in each state, with contradicted messages counted as DIVERGED.

    Args:
        counts: number of messages by state.
        contradicted: contradicted messages, with the state in which each was counted.
    """
    found = Counter(counts)
    found.subtract(contradicted.values())
    found[Status.DIVERGED] += len(contradicted)
    return {status: number for status, number in found.items() if number > 0}


class Index(Protocol):
    """Read access to the index."""

    def page(self, wanted: MessageFilter, *, after: Position | None = None, limit: int = 50) -> MessagePage:
        """Returns a page of messages, newest first."""

    def message(self, message_id: bytes) -> MessageRecord | None:
        """Returns a message, or None if the index has never seen it."""

    def receipts(self, message_id: bytes) -> list[ReceiptRecord]:
        """Returns a message's progress over each GMP, ordered by GMP number."""

    def events(self, message_id: bytes) -> list[EventRecord]:
        """Returns a message's events, in chronological order."""

    def of_transaction(self, transaction_hash: bytes, limit: int = 100) -> list[bytes]:
        """Returns the ids of the messages that a transaction concerns, on any chain."""

    def chains(self) -> list[ChainRecord]:
        """Returns the progress of reading each chain, by chain id."""

    def pauses(self, chain_id: int) -> list[PauseRecord]:
        """Returns the pauses in a router's events, ordered by their start."""

    def by_status(self) -> dict[Status, int]:
        """Returns the number of messages in each state, ignoring divergences."""

    def counts_by_status(self, divergences: Sequence[DivergenceRecord] | None = None) -> dict[Status, int]:
        """Returns the number of messages in each state, with contradicted messages as DIVERGED. Scans all messages.

        `divergences` are the current ones, if the caller has read them already.
        """

    def created_up_to(self, source_chain: int, source_router: bytes, destination_chain: int, block: int) -> int:
        """Returns the number of messages that the lane's router created up to a block."""

    def statuses_of(self, message_ids: Collection[bytes]) -> dict[bytes, Status]:
        """Returns the states of the given messages that are in the store, ignoring divergences."""

    def tallies(self, since: int, until: int) -> list[Tally]:
        """Returns tallies of the messages created in [`since`, `until`) (Unix seconds), for each lane and each GMP."""

    def lane_checks(self) -> list[LaneCheckRecord]:
        """Returns the last comparison of each lane with its routers' own totals."""

    def duplicates(self, *, limit: int = 1_000) -> list[DuplicateRecord]:
        """Returns repeated deliveries, newest first."""

    def divergences_of(self, message_id: bytes) -> list[DivergenceRecord]:
        """Returns the divergences of one message, or of the fan-out that it belongs to."""

    def divergences(self) -> list[DivergenceRecord]:
        """Returns all divergences; normally there are none. Scans all messages."""


IndexSource = Callable[[], AbstractContextManager[Index | None]]
"""Opens the index. Yields None while there is no index."""
