"""Comments of the lake's tables and columns, for readers of the Delta tables and for the documentation.

Times are Unix seconds of block time. Sets of GMPs are integers in which bit n - 1 stands for GMP n. Addresses and ids are binary;
`waybill index sql` shows them in hexadecimal.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from indexer.model import schemas

NAME_COLUMNS: Final[dict[str, str]] = {
    "chain_id": "chain_name",
    "source_chain": "source_name",
    "destination_chain": "destination_name",
    "gmp": "gmp_name",
}
"""By a column of gold that holds the number of a chain or GMP, the column beside it that holds its name."""


def _with_names(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with a name beside each number of a chain or GMP."""
    columns: list[pa.Field] = []
    for field in schema:
        columns.append(field)
        if field.name in NAME_COLUMNS:
            columns.append(pa.field(NAME_COLUMNS[field.name], pa.string()))
    return pa.schema(columns)


TABLES: Final[dict[str, tuple[pa.Schema, str]]] = {
    "bronze.logs": (schemas.LOGS, "raw logs of Waybill's contracts as nodes give them; final blocks only"),
    "silver.events": (schemas.EVENTS, "one row for each log, decoded; a column that an event lacks is null"),
    "silver.messages": (schemas.MESSAGES, "one row for each message: where it came from, how it stands, how it ended"),
    "silver.receipts": (schemas.RECEIPTS, "one row for each message and GMP that took or delivered it"),
    "silver.attempts": (
        schemas.ATTEMPTS,
        "one row for each dispatch of a message; attempt 0 is the route, later ones are retries",
    ),
    "gold.duplicates": (_with_names(schemas.DUPLICATES), "one row for each repeated delivery that an adapter absorbed"),
    "gold.lanes": (
        _with_names(schemas.LANES),
        "one row for each lane and day (UTC) of the messages that were created on it",
    ),
    "gold.latencies": (_with_names(schemas.LATENCIES), "one row for each lane and stage that its messages reached"),
    "gold.redundancy": (_with_names(schemas.REDUNDANCY), "one row for each GMP: what it contributed"),
    "gold.costs": (
        _with_names(schemas.COSTS),
        "one row for each lane and GMP: what this machine's relayer paid for its deliveries",
    ),
    "gold.divergences": (
        _with_names(schemas.DIVERGENCES),
        "one row for each contradiction between the chains, or between their events",
    ),
}
"""By name of the table, its schema and what it holds, in the order in which one is made of the others."""

_COLUMNS: Final[dict[str, str]] = {
    "address": "contract that emitted the event, 20 bytes",
    "adapter": "adapter of a GMP, 32 bytes",
    "arrived_late": "deliveries after the message had expired or been cancelled",
    "asked_quorum": "quorum that the sender asked for",
    "attempt": "number of the dispatch; 0 is the route",
    "attempted_block": "block of the last dispatch",
    "attempted_hash": "hash of that block",
    "attempted_time": "time of the last dispatch",
    "attempts": "number of the last dispatch; 0 if the message was never retried",
    "block_hash": "hash of the block, 32 bytes",
    "block_number": "height of the block",
    "block_time": "time of the block",
    "cancellation_id": "the message that cancels this one",
    "cancelled": "messages of that day that were cancelled",
    "cancelled_block": "block in which the destination marked the cancellation",
    "cancelled_time": "time of that block",
    "cancelled_unasked": "whether no request to cancel it was seen on its source",
    "came_first": "receipts of messages that no other GMP had delivered before",
    "chain": "the lane's other chain, of events about lanes",
    "chain_id": "EIP-155 id of the chain that the event is on",
    "chain_name": "name of that chain, as in the deployments file",
    "conflicts": "set of what the message's own events contradict; 0 if nothing",
    "contradicted": "whether a later report says something else than `outcome`",
    "data": "data of the log",
    "delivered_p50": "seconds from the route to the first receipt, median",
    "delivered_p95": "the same, 95th percentile",
    "delivered_p99": "the same, 99th percentile",
    "destination_chain": "EIP-155 id of the destination",
    "destination_name": "name of the destination, as in the deployments file",
    "destination_router": "router of the destination, 32 bytes",
    "dispatch_failures": "dispatches that the GMP refused",
    "dispatched": "set of the GMPs that took it",
    "dispatched_time": "time of the first dispatch that the GMP took: its latency counts from it",
    "dispatches": "dispatches in which the GMP took the message",
    "diverged": "messages of that day about which the chains contradict each other",
    "duplicates": "repeated deliveries that were absorbed",
    "day": "day (UTC) on which the messages were created",
    "envelope": "the message as it travels, as the source emitted it",
    "epoch": "how often the GMP's adapter was revoked",
    "error": "why the log could not be read; null for one that could",
    "event": "name of the event; null for one that Waybill does not know",
    "evidence": "both facts, with chains, blocks and transactions",
    "executed": "messages of that day that were executed",
    "executed_block": "block of the execution",
    "executed_chain": "EIP-155 id of the chain of the execution",
    "executed_log_index": "index of its log in that block",
    "executed_p50": "seconds from the route to the execution, median",
    "executed_p95": "the same, 95th percentile",
    "executed_p99": "the same, 99th percentile",
    "executed_time": "time of the execution",
    "executed_transaction": "transaction of the execution",
    "executions": "executions; more than 1 is a divergence",
    "expired": "messages of that day that expired",
    "expired_block": "block in which the destination marked the expiry",
    "expired_time": "time of that block",
    "failed_time": "time of the last failed execution",
    "failure_reason": "what the recipient reverted with last, at most 256 bytes",
    "failures": "executions that failed or were deferred",
    "gas_limit": "gas that the recipient's call gets",
    "gmp": "number of the GMP",
    "gmp_name": "name of the GMP, such as hyperlane",
    "gmps": "set of the GMPs that the event is about",
    "gwei": "paid on the destination, in billionths of its currency, failed transactions included",
    "gwei_p50": "the same for one message, median",
    "gwei_p95": "the same for one message, 95th percentile",
    "kind": "kind of message, a number; of divergences its name",
    "last_attempt": "number of the last dispatch that the GMP took",
    "last_duplicate_time": "time of the last repeated delivery",
    "last_received_block": "block of the last receipt; a GMP delivers again after its adapter was revoked",
    "last_received_log_index": "index of its log in that block",
    "latency_p50": "seconds from the first dispatch that the GMP took to its receipt, median",
    "latency_p95": "the same, 95th percentile",
    "lead_p50": "seconds by which the GMP was first, where another one followed, median",
    "late_receipts": "receipts that came when the message was executed already",
    "late_gwei": "of it, for receipts that came when the message was executed already",
    "log_index": "index of the log in its block",
    "message_id": "id of the message, 32 bytes; null for what is about a lane or a GMP",
    "messages": "messages that the row counts",
    "nonce": "number of the message on its lane",
    "outcome": "how it ended, as reported to its source: 1 executed, 2 expired, 3 cancelled",
    "outcome_time": "time of that report",
    "p50": "seconds from the route to the stage, median",
    "p95": "the same, 95th percentile",
    "p99": "the same, 99th percentile",
    "payload_differs": "whether the payload hashes on the two chains differ",
    "payload_hash": "Keccak-256 of the payload",
    "previous": "what the event replaces, such as the adapter before",
    "quorum": "GMPs that had to deliver, as the router said",
    "reason": "what a GMP or a recipient reverted with, at most 256 bytes",
    "receipts": "GMPs that had delivered, as the router counted",
    "received": "set of the GMPs whose receipt is there",
    "received_block": "block of the first receipt",
    "received_chain": "EIP-155 id of the chain of the receipt",
    "received_log_index": "index of its log in that block",
    "received_time": "time of the first receipt",
    "received_transaction": "transaction of the first receipt",
    "recipient": "contract that gets the message, 32 bytes",
    "refused": "set of the GMPs that did not take it",
    "replaces": "the message that this one stands in for; zeros if none",
    "retriable": "whether the sender may retry it",
    "retried": "messages of that day that were retried",
    "retries": "dispatches after the first",
    "router": "router of the chain, 20 bytes",
    "second_outcome": "what a report says that contradicts `outcome`",
    "sender": "who sent the message, 32 bytes",
    "sent_at": "time of the route, as the message has it",
    "source_block": "block of the route",
    "source_chain": "EIP-155 id of the source",
    "source_name": "name of the source, as in the deployments file",
    "source_router": "router of the source, 32 bytes",
    "source_time": "time of the route's block",
    "source_transaction": "transaction of the route",
    "stage": "how far: attested, delivered, quorum, executed or final",
    "status": "state by the message's own events (docs/concepts.md)",
    "topics": "topics of the log, 32 bytes each, one after the other",
    "transaction_hash": "hash of the transaction, 32 bytes",
    "ttl": "seconds after `sent_at` for which the message may be executed; 0 is for ever",
    "until": "until when a pause lasts",
}
"""What each column means; one name means the same in every table."""


def described(name: str) -> pa.Schema:
    """Returns the schema of a table, with comments."""
    schema, _ = TABLES[name]
    return pa.schema([field.with_metadata({"comment": _COLUMNS[field.name]}) for field in schema])


def description(name: str) -> str:
    """Returns a table's comment."""
    return TABLES[name][1]


def shown_columns(name: str) -> str:
    """Returns a table's columns in DuckDB's SQL, binary ones as text: `0x` and lower-case hexadecimal digits."""
    schema, _ = TABLES[name]
    return ", ".join(
        f"'0x' || lower(hex({field.name})) as {field.name}" if pa.types.is_binary(field.type) else field.name
        for field in schema
    )
