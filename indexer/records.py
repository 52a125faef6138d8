"""What the index answers with. All times are of blocks, in Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceRecord:
    """Facts that contradict one another; without a message where it is the lane as a whole."""

    kind: str
    message_id: bytes | None
    source_chain: int | None
    destination_chain: int | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedLog:
    """A log with one of Waybill's events that can't be right."""

    chain_id: int
    block_number: int
    log_index: int
    transaction_hash: bytes
    address: bytes
    event: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpCounts:
    """What one GMP did, over all messages."""

    dispatched: int
    dispatch_failures: int
    received: int
    duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryCounts:
    """Retries: requests written, retries seen on chain, retried messages that were executed."""

    requested: int
    sent: int
    executed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole index in figures.

    Attributes:
        messages: routed, and not taken back by a reorg.
        executed_twice: must be 0.
        lost: neither executed, nor ended, nor waiting within the deadline, nor executable.
        execution_failures_recovered: executed after the recipient had failed.
        late_receipts: of GMPs that delivered when the message was executed already.
        latency_p50_ms: from the block of the route to the block of the execution, by block time: whole seconds.
        latency_p95_ms: the same.
    """

    chains: tuple[ChainRecord, ...]
    messages: int
    executed: int
    executed_twice: int
    lost: int
    by_status: dict[Status, int]
    retries: RetryCounts
    duplicates_absorbed: int
    late_receipts: int
    execution_failures_recovered: int
    divergences: tuple[DivergenceRecord, ...]
    per_gmp: dict[Gmp, GmpCounts]
    latency_p50_ms: float | None
    latency_p95_ms: float | None
