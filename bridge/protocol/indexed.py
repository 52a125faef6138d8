"""What the index answers its readers with. All times are of blocks, in Unix seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message as the index knows it; None where its source has not been read, or nothing has happened yet."""

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
    deadline: int | None  # when it counts as stalled unless enough receipts are there
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
    failed_time: int | None
    duplicates: int
    is_ended: bool = False  # a router says that it was executed, expired or cancelled; not a verdict about its time
    cancellation_id: bytes | None = None  # the message that is to cancel it
    arrived_late: int = 0  # deliveries after it had expired or been cancelled
    outcome: int | None = None  # how it ended, as reported to its source: 1 executed, 2 expired, 3 cancelled
    replaced_by: bytes | None = None  # of an ORPHANED message: the one that its transaction created when it came back


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRecord:
    """What one GMP did for one message."""

    message_id: bytes
    gmp: int
    dispatches: int  # attempts in which the GMP took it
    last_attempt: int | None
    dispatch_failures: int
    received_chain: int | None
    received_block: int | None
    received_time: int | None
    received_transaction: bytes | None
    duplicates: int
    last_duplicate_time: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateRecord:
    """A delivery that changed nothing."""

    message_id: bytes
    gmp: int
    chain_id: int
    block_number: int
    block_time: int
    transaction_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRecord:
    """How far a chain has been read."""

    chain_id: int
    block: int
    block_time: int
    head_block: int  # the newest block when it was last looked at
    final_block: int
    lake_block: int | None  # the block up to which its events are in the lake
    lag_seconds: int  # now less the block's time
    quarantined: int  # malformed logs kept
    halted: str | None  # why it is read no further


class PausedThing(StrEnum):
    """What a pause is of."""

    LANE = "lane"
    GMP = "gmp"
    CLOCK = "clock"  # the time of messages, which stands still while their lane or any GMP is paused


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRecord:
    """A pause that a chain's router told of. Of a GMP only the newest; clocks of one lane never overlap."""

    thing: PausedThing
    number: int  # the lane's other chain, or the GMP; of a clock 0 for all lanes
    begins: int
    ends: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceRecord:
    """Facts that contradict one another; without a message where it is the lane as a whole."""

    kind: str  # of `indexer.model.divergences`
    message_id: bytes | None
    source_chain: int | None
    destination_chain: int | None
    evidence: str
    severity: str  # critical, high, medium or low
    next_action: str

    @property
    def is_contradiction(self) -> bool:
        """Whether anything is wrong. A message that waits is not (medium), nor is an event that anyone may cause (low)."""
        return self.severity in ("critical", "high")

    @property
    def contradicts_message(self) -> bool:
        """Whether the message is DIVERGED because of it.

        A SILENT message contradicts nothing yet. The parts of a fan-out differ from one another, and each may be right.
        """
        return self.message_id is not None and self.is_contradiction and self.kind != "FAN_OUT_DIFFERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCheckRecord:
    """The last comparison of one total of a router with the index's own events; `waybill index verify` makes it."""

    chain_id: int  # of the router
    direction: str  # sent or executed
    other_chain: int
    verdict: str  # equal, different or unverified
    reason: str  # why it is not equal
    block_number: int | None  # up to which
    indexed_count: int | None
    router_count: int | None
    checked_at: float  # Unix seconds


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list of messages, which has the newest first."""

    seen: int  # Unix seconds: block time of the creation, or else of the first receipt
    message_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which messages to list; None where it does not matter."""

    status: Status | None = None
    source_chain: int | None = None
    destination_chain: int | None = None
    gmp: Gmp | None = None  # that took or delivered it
    kind: Kind | None = None
    account: bytes | None = None  # sender or recipient, 32 bytes
    since: int | None = None  # Unix seconds: created then or later; where that is unknown, its first receipt counts
    until: int | None = None  # Unix seconds: the same, before then
    retried: bool | None = None  # whether it was handed to GMPs again after its creation
    refused: bool | None = None  # whether its recipient has refused it, also if it was executed later
    among: frozenset[bytes] | None = None  # only messages with these ids; None: any


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """A part of the list."""

    messages: tuple[MessageRecord, ...]
    next: Position | None  # where the next part begins; None at the end of the list
    looked_at: int  # messages, of which those above were wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCount:
    """How many messages a choice has, as far as a bounded look tells."""

    number: int  # found
    looked_at: int  # messages, the newest that an index finds; of these the number is
    is_all: bool  # whether there are no more


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """Something that happened to a message, on one of its chains."""

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
    outcome: int | None  # how the message ended: 1 executed, 2 expired, 3 cancelled
    second_outcome: int | None  # what a later report says instead
    envelope: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLatency:
    """When a message was where, in Unix seconds of block time."""

    source_time: int
    received_time: int | None
    executed_time: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpDelivery:
    """What one GMP did for one message."""

    gmp: int
    dispatches: int  # attempts in which it took the message
    dispatch_failures: int
    seconds: (
        int | None
    )  # of block time, from the attempt in which it first took the message to the receipt; None while there is none
    was_late: bool  # the message had been executed before
    duplicates: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What the GMPs did that a message was sent over at once."""

    at: int  # Unix seconds, of the source's block
    seconds: Mapping[int, int | None]  # by GMP, from then to its receipt; None while there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The messages that were created in a stretch of time, on one lane or over one GMP; the other of the two is None.

    Attributes:
        lane: source and destination chain.
        gmp: its number.
        slot: which stretch, from 0.
        messages: created; of a GMP, those that it took.
        arrived: of these, executed; of a GMP, delivered by it.
        p50: seconds of block time until then, of those that arrived; None without any. Counted from the creation; of a GMP from
            the attempt in which it first took the message. From 32 s on, up to a sixteenth less.
        p95: likewise.
    """

    lane: tuple[int, int] | None
    gmp: int | None
    slot: int
    messages: int
    arrived: int
    p50: int | None
    p95: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The same messages over all stretches of time together.

    Attributes:
        lane: as in `Traffic`.
        gmp: the same.
        messages: the same.
        arrived: by seconds as `Traffic` counts and rounds them, ascending, how many arrived after so many.
    """

    lane: tuple[int, int] | None
    gmp: int | None
    messages: int
    arrived: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpCost:
    """What deliveries over one GMP cost on one lane's destination.

    Attributes:
        lane: source and destination chain.
        gmp: its number.
        deliveries: whose cost is known.
        late: of these, how many came when the message was executed already.
        gas_p50: units per delivery; the one that completes a quorum pays for the execution too.
        gas_paid: wei for all of them.
        late_gas_paid: wei for the late ones: the price of redundancy that was not needed in the end.
    """

    lane: tuple[int, int]
    gmp: int
    deliveries: int
    late: int
    gas_p50: int
    gas_paid: int
    late_gas_paid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeePaid:
    """What senders paid on one lane for one set of GMPs; sets differ by what a GMP more or less costs."""

    lane: tuple[int, int]
    gmps: tuple[int, ...]
    messages: int
    fees_p50: int  # wei per message
    fees: int  # wei, all messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """What one transaction cost, as its chain says.

    Attributes:
        payer: the address of the account that sent it.
        gas: units used.
        gas_paid: wei paid for them.
        value: wei sent along. What was refunded in the same transaction is in it.
    """

    payer: str
    gas: int
    gas_paid: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What the newest deliveries were paid for, as the chains say."""

    deliveries: int  # looked at
    gmps: tuple[GmpCost, ...]
    fees: tuple[FeePaid, ...]


def with_diverged(counts: Mapping[Status, int], contradicted: Mapping[bytes, Status]) -> dict[Status, int]:
    """How many messages are in each state, with those that facts about them contradict as DIVERGED.

    Args:
        counts: messages by state.
        contradicted: messages that facts contradict, and the state in which each of them was counted.
    """
    found = Counter(counts)
    found.subtract(contradicted.values())
    found[Status.DIVERGED] += len(contradicted)
    return {status: number for status, number in found.items() if number > 0}


class Index(Protocol):
    """The index, as an explorer reads it."""

    def page(self, wanted: MessageFilter, *, after: Position | None = None, limit: int = 50) -> MessagePage:
        """Messages, the newest first."""

    def count(self, wanted: MessageFilter, *, contradicted: Collection[bytes]) -> MessageCount:
        """How many messages there are, up to a bound; `contradicted` are those that facts about them contradict."""

    def message(self, message_id: bytes) -> MessageRecord | None:
        """One message, or None if the index has never seen it."""

    def receipts(self, message_id: bytes) -> list[ReceiptRecord]:
        """What each GMP did for a message, by GMP number."""

    def events(self, message_id: bytes) -> list[EventRecord]:
        """What happened to a message, in the order of time."""

    def of_transaction(self, transaction_hash: bytes, limit: int = 100) -> list[bytes]:
        """The ids of the messages that a transaction on any chain is about."""

    def chains(self) -> list[ChainRecord]:
        """How far each chain has been read, by chain id."""

    def pauses(self, chain_id: int) -> list[PauseRecord]:
        """The pauses that a chain's router told of, by their beginning."""

    def by_status(self) -> dict[Status, int]:
        """How many messages are in each state, before what contradicts about them is looked at."""

    def counts_by_status(self) -> dict[Status, int]:
        """How many messages are in each state. Takes as long as there are messages."""

    def statuses_of(self, message_ids: Collection[bytes]) -> dict[bytes, Status]:
        """The states of messages, as far as the store has them, before what contradicts about them is looked at."""

    def lane_size(self, source_chain: int, destination_chain: int) -> int:
        """How many messages the index knows of a lane."""

    def message_latencies(self, source_chain: int, destination_chain: int, limit: int) -> list[MessageLatency]:
        """The newest messages of a lane, as far as they have come."""

    def gmp_deliveries(
        self, limit: int, lane: tuple[int, int] | None = None, since: int | None = None
    ) -> list[GmpDelivery]:
        """What GMPs did for the newest messages of a lane (source and destination chain), or of all, seen since a time."""

    def observations(self, source_chain: int, destination_chain: int, limit: int) -> list[Observation]:
        """How long the GMPs took that a lane's newest messages were sent over at once; the oldest first."""

    def traffic(self, since: int, step: int, slots: int, lane: tuple[int, int] | None = None) -> list[Traffic]:
        """What happened on each lane, or on one, and over each GMP in so many stretches of `step` seconds from `since` on.

        Both are multiples of 150 s, of an hour or of a day.
        """

    def tallies(self, since: int, step: int, slots: int, lane: tuple[int, int] | None = None) -> list[Tally]:
        """What `traffic` says of each stretch of time, of all of them together."""

    def lane_checks(self) -> list[LaneCheckRecord]:
        """The last comparison of each lane with its routers' own totals."""

    def duplicates(self, *, limit: int = 1_000) -> list[DuplicateRecord]:
        """Deliveries that changed nothing, the newest first."""

    def divergences_of(self, message_id: bytes) -> list[DivergenceRecord]:
        """What contradicts what about one message, or about the fan-out that it is a part of."""

    def divergences(self) -> list[DivergenceRecord]:
        """Facts that contradict one another: none is to be expected. Takes as long as there are messages."""
