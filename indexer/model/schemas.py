"""The Arrow schema of every table.

`indexer.model.spark_types` and `indexer.store.tables` derive their schemas from these.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

UINT64: Final = pa.decimal128(20, 0)
"""The type of values that a sender may set to anything up to 2^64 - 1, since Spark and Delta have no unsigned types."""


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


EVENTS: Final = _schema(
    # The log's location. (chain_id, block_number, log_index) is the key.
    chain_id=pa.int64(),
    block_number=pa.int64(),
    log_index=pa.int64(),
    block_hash=pa.binary(),
    block_time=pa.int64(),  # Unix seconds
    transaction_hash=pa.binary(),
    router=pa.binary(),  # 20 bytes: the chain's router; contracts of other deployments are not read
    address=pa.binary(),  # 20 bytes: the router or one of its adapters
    topics=pa.binary(),  # 32 bytes each, one after the other
    data=pa.binary(),
    # The decoded event: its name (docs/formats.md), or null if Waybill does not know it.
    event=pa.string(),
    message_id=pa.binary(),
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    gmp=pa.int32(),
    gmps=pa.int32(),  # set: bit n - 1 stands for GMP n
    attempt=pa.int64(),
    retriable=pa.bool_(),
    receipts=pa.int32(),
    quorum=pa.int32(),
    payload_hash=pa.binary(),
    reason=pa.binary(),
    cancellation_id=pa.binary(),  # the message that cancelled this one
    outcome=pa.int32(),  # how a message ended: 1 executed, 2 expired, 3 cancelled
    second_outcome=pa.int32(),  # the outcome in a report that contradicts `outcome`
    # For events about lanes, GMPs and recipients instead of one message; `chain` is the lane's other chain.
    chain=pa.int64(),
    until=pa.int64(),  # Unix seconds
    adapter=pa.binary(),  # 32 bytes
    previous=pa.binary(),
    epoch=pa.int32(),
    # From the envelope of MessageRouted; `sender`, `nonce`, `recipient` and `gas_limit` also from other events.
    source_router=pa.binary(),  # 32 bytes, as all addresses below
    sender=pa.binary(),
    nonce=pa.int64(),
    destination_router=pa.binary(),
    recipient=pa.binary(),
    gas_limit=UINT64,
    sent_at=pa.int64(),  # Unix seconds
    ttl=pa.int64(),  # seconds
    kind=pa.int32(),
    replaces=pa.binary(),
    envelope=pa.binary(),
    error=pa.string(),  # what is wrong with a log that can't be decoded (quarantine)
)

LOGS: Final = pa.schema([EVENTS.field(number) for number in range(EVENTS.get_field_index("event"))])
"""Logs as returned by nodes: the columns of `EVENTS` that are not decoded from other columns."""

RANGE: Final = _schema(
    range_first=pa.int64(),  # not null: this row is not an event, but records that blocks first…block_number were read
    range_hashes=pa.binary(),  # of the last blocks, up to block_number (`indexer.sources.position`)
    parent_hash=pa.binary(),  # prefix of the hash of block range_first - 1, null if nothing is read before range_first
    final_block=pa.int64(),
    final_hash=pa.binary(),
    head_block=pa.int64(),
    halted=pa.string(),  # why reading of the chain has halted
)

SOURCE: Final = pa.schema([*EVENTS, *RANGE])
"""Rows of the `evm` data source: events, and one row per chain and batch with the block range of the events."""

MESSAGES: Final = _schema(
    message_id=pa.binary(),
    status=pa.string(),  # from the message's own events; `pipeline/sql/effective_status.sql` adds states that depend on time
    source_chain=pa.int64(),
    source_router=pa.binary(),
    source_block=pa.int64(),
    source_time=pa.int64(),  # Unix seconds, as all times here: of the block
    source_transaction=pa.binary(),
    destination_chain=pa.int64(),
    destination_router=pa.binary(),
    sender=pa.binary(),
    recipient=pa.binary(),
    nonce=pa.int64(),
    gas_limit=UINT64,
    sent_at=pa.int64(),
    ttl=pa.int64(),
    kind=pa.int32(),
    quorum=pa.int32(),  # from the last receipt, else the message's own; `pipeline/sql/effective_status.sql` applies later rules
    asked_quorum=pa.int32(),  # by the sender
    replaces=pa.binary(),
    payload_hash=pa.binary(),
    payload_differs=pa.bool_(),  # the payload hashes on the two chains are not all the same
    retriable=pa.bool_(),
    attempts=pa.int64(),  # number of the last attempt; 0 is the route
    attempted_block=pa.int64(),
    attempted_hash=pa.binary(),
    attempted_time=pa.int64(),
    dispatched=pa.int32(),  # set of GMPs that accepted it, in all attempts
    received=pa.int32(),  # set of GMPs with a receipt
    receipts=pa.int32(),  # how many of those counted, according to the last receipt
    received_time=pa.int64(),  # of the first receipt
    executions=pa.int64(),
    executed_chain=pa.int64(),
    executed_block=pa.int64(),
    executed_log_index=pa.int64(),
    executed_time=pa.int64(),
    executed_transaction=pa.binary(),
    failures=pa.int64(),  # of the recipient, deferrals included
    failure_reason=pa.binary(),  # of the last one
    failed_time=pa.int64(),
    expired_block=pa.int64(),
    expired_time=pa.int64(),
    cancelled_block=pa.int64(),
    cancelled_time=pa.int64(),
    cancelled_unasked=pa.bool_(),  # cancelled, but no request to cancel it was read on its source
    duplicates=pa.int64(),
    cancellation_id=pa.binary(),  # the cancellation that the sender has requested
    arrived_late=pa.int64(),  # deliveries after it had expired or been cancelled
    outcome=pa.int32(),  # how it ended, as reported to its source: 1 executed, 2 expired, 3 cancelled
    outcome_time=pa.int64(),  # of that report, on the source
    contradicted=pa.bool_(),  # a later report differs
    conflicts=pa.int32(),  # set of contradictions among its own events (`pipeline/queries.py`); 0 if none
)

RECEIPTS: Final = _schema(
    message_id=pa.binary(),
    gmp=pa.int32(),
    dispatches=pa.int64(),  # attempts in which the GMP accepted the message
    dispatched_time=pa.int64(),  # time of the first of them, from which its latency is measured
    last_attempt=pa.int64(),
    dispatch_failures=pa.int64(),
    received_chain=pa.int64(),
    received_block=pa.int64(),
    received_log_index=pa.int64(),
    received_time=pa.int64(),
    received_transaction=pa.binary(),
    last_received_block=pa.int64(),  # a GMP delivers again after its adapter was revoked
    last_received_log_index=pa.int64(),
    quorum=pa.int32(),  # according to that receipt
    duplicates=pa.int64(),
    last_duplicate_time=pa.int64(),
)

ATTEMPTS: Final = _schema(
    message_id=pa.binary(),
    attempt=pa.int64(),  # 0 is the route
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    block_number=pa.int64(),
    log_index=pa.int64(),
    block_time=pa.int64(),
    transaction_hash=pa.binary(),
    dispatched=pa.int32(),  # set of GMPs that accepted it
    refused=pa.int32(),  # set of GMPs that did not
)

DUPLICATES: Final = _schema(
    message_id=pa.binary(),
    gmp=pa.int32(),
    chain_id=pa.int64(),  # where its adapter absorbed the delivery
    block_number=pa.int64(),
    log_index=pa.int64(),
    block_time=pa.int64(),
    transaction_hash=pa.binary(),
)

LANES: Final = _schema(
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    day=pa.date32(),  # UTC, on which the messages were created, by block time; all that follows is of these
    messages=pa.int64(),
    executed=pa.int64(),
    expired=pa.int64(),
    cancelled=pa.int64(),
    diverged=pa.int64(),
    retried=pa.int64(),  # messages
    retries=pa.int64(),  # attempts after the first
    failures=pa.int64(),  # of recipients, deferrals included
    receipts=pa.int64(),
    late_receipts=pa.int64(),  # when the message was executed already
    duplicates=pa.int64(),
    delivered_p50=pa.int64(),  # seconds from the route to the first receipt, nearest rank
    delivered_p95=pa.int64(),
    delivered_p99=pa.int64(),
    executed_p50=pa.int64(),  # the same to the execution
    executed_p95=pa.int64(),
    executed_p99=pa.int64(),
)

LATENCIES: Final = _schema(
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    stage=pa.string(),  # attested, delivered, quorum or executed
    messages=pa.int64(),  # messages for which it is known
    p50=pa.int64(),  # seconds from the route, nearest rank; null if it is known of none
    p95=pa.int64(),
    p99=pa.int64(),
)

REDUNDANCY: Final = _schema(
    gmp=pa.int32(),
    receipts=pa.int64(),  # messages that the GMP delivered
    came_first=pa.int64(),  # of these, how many it delivered first
    lead_p50=pa.float64(),  # median lead in seconds, where another GMP followed
    late_receipts=pa.int64(),  # of these, how many arrived after the execution
    latency_p50=pa.int64(),  # seconds from the first attempt in which it accepted the message to its receipt, nearest rank
    latency_p95=pa.int64(),
)

CHAINS: Final = _schema(
    chain_id=pa.int64(),
    block_time=pa.int64(),  # of the last block read, Unix seconds
    final_block=pa.int64(),
)

ATTESTED: Final = _schema(message_id=pa.binary(), gmp=pa.int32(), attested_at=pa.int64())
"""Unix seconds, by the relayer's clock, at which it had the attestation of each delivery."""

PAID: Final = _schema(message_id=pa.binary(), gmp=pa.int32(), gwei=pa.int64())
"""The relayer's costs of deliveries, from its store."""

COSTS: Final = _schema(
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    gmp=pa.int32(),
    messages=pa.int64(),  # whose delivery over the GMP the relayer paid for
    gwei=pa.int64(),  # of the destination's currency, paid for all of them
    gwei_p50=pa.int64(),  # for one message, nearest rank
    gwei_p95=pa.int64(),
    late_gwei=pa.int64(),  # of it, for receipts that came when the message was executed already
)

PAUSES: Final = _schema(
    chain_id=pa.int64(),  # of the router that is paused
    other_chain=pa.int64(),  # the lane's other chain
    kind=pa.string(),  # always `lane`
    begins=pa.int64(),  # Unix seconds
    ends=pa.int64(),
)

LIMITS: Final = _schema(
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    kind=pa.int32(),
    seconds=pa.int64(),  # after which a message of that kind on that lane counts as stalled
)

DIVERGENCES: Final = _schema(
    kind=pa.string(),
    message_id=pa.binary(),  # null: the lane as a whole
    source_chain=pa.int64(),
    destination_chain=pa.int64(),
    evidence=pa.string(),
)


def as_source(events: pa.Table) -> pa.Table:
    """Returns events as rows of the data source."""
    nulls = [pa.nulls(len(events), field.type) for field in RANGE]
    return pa.table([*events.combine_chunks().columns, *nulls], schema=SOURCE)
