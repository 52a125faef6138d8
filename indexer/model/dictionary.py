"""Comments on the lake's tables and columns, for users of the Delta tables and for the documentation.

Times are Unix seconds of block time. Sets of GMPs are integers in which bit n - 1 stands for GMP n. Addresses
and ids are binary; `waybill index sql` shows them in hexadecimal.
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
"""For each gold column with the number of a chain or GMP, the column beside it with the name."""


def _with_names(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with a name column beside each column of chain or GMP numbers."""
    columns: list[pa.Field] = []
    for field in schema:
        columns.append(field)
        if field.name in NAME_COLUMNS:
            columns.append(pa.field(NAME_COLUMNS[field.name], pa.string()))
    return pa.schema(columns)


TABLES: Final[dict[str, tuple[pa.Schema, str]]] = {
    "bronze.logs": (schemas.LOGS, "raw logs of Waybill's contracts in final blocks, as returned by nodes"),
    "silver.events": (schemas.EVENTS, "one row per log, decoded; columns that an event lacks are null"),
    "silver.messages": (schemas.MESSAGES, "one row per message: its origin, state and outcome"),
    "silver.receipts": (schemas.RECEIPTS, "one row per message and GMP that accepted or delivered it"),
    "silver.attempts": (
        schemas.ATTEMPTS,
        "one row per dispatch of a message; attempt 0 is the route, later ones are retries",
    ),
    "gold.duplicates": (_with_names(schemas.DUPLICATES), "one row per repeated delivery that an adapter absorbed"),
    "gold.lanes": (
        _with_names(schemas.LANES),
        "one row per lane and day (UTC) on which messages were created",
    ),
    "gold.latencies": (_with_names(schemas.LATENCIES), "one row per lane and stage that its messages reached"),
    "gold.redundancy": (_with_names(schemas.REDUNDANCY), "one row per GMP: its deliveries and latencies"),
    "gold.costs": (
        _with_names(schemas.COSTS),
        "one row per lane and GMP: what this machine's relayer paid for deliveries",
    ),
    "gold.divergences": (
        _with_names(schemas.DIVERGENCES),
        "one row per contradiction between chains or between their events",
    ),
}
"""Schema and comment of each table by name, in the order in which they are computed."""

_COLUMNS: Final[dict[str, str]] = {
    "address": "20-byte address of the contract that emitted the event",
    "adapter": "32-byte address of a GMP's adapter",
    "arrived_late": "deliveries after the message had expired or been cancelled",
    "asked_quorum": "quorum that the sender requested",
    "attempt": "number of the dispatch; 0 is the route",
    "attempted_block": "block of the last dispatch",
    "attempted_hash": "hash of that block",
    "attempted_time": "time of the last dispatch",
    "attempts": "number of the last dispatch; 0 if the message was never retried",
    "block_hash": "32-byte hash of the block",
    "block_number": "height of the block",
    "block_time": "time of the block",
    "cancellation_id": "the message that cancels this one",
    "cancelled": "messages of that day that were cancelled",
    "cancelled_block": "block in which the destination marked the cancellation",
    "cancelled_time": "time of that block",
    "cancelled_unasked": "whether the message was cancelled without a request on its source",
    "came_first": "receipts of messages that the GMP was the first to deliver",
    "chain": "for events about lanes: the lane's other chain",
    "chain_id": "EIP-155 id of the event's chain",
    "chain_name": "name of that chain, as in the deployments file",
    "conflicts": "set of contradictions among the message's own events; 0 if none",
    "contradicted": "whether a later report differs from `outcome`",
    "data": "data of the log",
    "delivered_p50": "seconds from the route to the first receipt, median",
    "delivered_p95": "the same, 95th percentile",
    "delivered_p99": "the same, 99th percentile",
    "destination_chain": "EIP-155 id of the destination",
    "destination_name": "name of the destination, as in the deployments file",
    "destination_router": "32-byte address of the destination's router",
    "dispatch_failures": "dispatches that the GMP rejected",
    "dispatched": "set of GMPs that accepted it",
    "dispatched_time": "time of the first dispatch that the GMP accepted, from which its latency is measured",
    "dispatches": "dispatches that the GMP accepted",
    "diverged": "messages of that day for which the chains contradict each other",
    "duplicates": "repeated deliveries that were absorbed",
    "day": "day (UTC) on which the messages were created",
    "envelope": "the message's envelope, as emitted on the source",
    "epoch": "how often the GMP's adapter was revoked",
    "error": "why the log could not be decoded; null if it was",
    "event": "name of the event; null if Waybill does not know it",
    "evidence": "the contradicting events, with chains, blocks and transactions",
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
    "failure_reason": "the recipient's last revert reason, at most 256 bytes",
    "failures": "executions that failed or were deferred",
    "gas_limit": "minimum gas of the call to the recipient",
    "gmp": "number of the GMP",
    "gmp_name": "name of the GMP, such as hyperlane",
    "gmps": "set of GMPs to which the event refers",
    "gwei": "cost on the destination in billionths of its currency, including failed transactions",
    "gwei_p50": "the same for one message, median",
    "gwei_p95": "the same for one message, 95th percentile",
    "kind": "number of the message's kind; for divergences, the name of their kind",
    "last_attempt": "number of the last dispatch that the GMP accepted",
    "last_duplicate_time": "time of the last repeated delivery",
    "last_received_block": "block of the last receipt; a GMP delivers again after its adapter was revoked",
    "last_received_log_index": "index of its log in that block",
    "latency_p50": "median seconds from the first dispatch that the GMP accepted to its receipt",
    "latency_p95": "the same, 95th percentile",
    "lead_p50": "median lead of the GMP in seconds, where another one followed",
    "late_receipts": "receipts that arrived after the execution",
    "late_gwei": "share of `gwei` for receipts that arrived after the execution",
    "log_index": "index of the log in its block",
    "message_id": "32-byte id of the message; null for events about a lane or a GMP",
    "messages": "number of messages",
    "nonce": "number of the message on its lane",
    "outcome": "outcome reported to the source: 1 executed, 2 expired, 3 cancelled",
    "outcome_time": "time of that report",
    "p50": "seconds from the route to the stage, median",
    "p95": "the same, 95th percentile",
    "p99": "the same, 99th percentile",
    "payload_differs": "whether the payload hashes on the two chains differ",
    "payload_hash": "Keccak-256 of the payload",
    "previous": "what the event replaces, such as the previous adapter",
    "quorum": "number of GMPs that had to deliver, according to the router",
    "reason": "revert reason of a GMP or recipient, at most 256 bytes",
    "receipts": "number of GMPs that had delivered, according to the router",
    "received": "set of GMPs with a receipt",
    "received_block": "block of the first receipt",
    "received_chain": "EIP-155 id of the chain of the receipt",
    "received_log_index": "index of its log in that block",
    "received_time": "time of the first receipt",
    "received_transaction": "transaction of the first receipt",
    "recipient": "32-byte address of the recipient",
    "refused": "set of GMPs that rejected it",
    "replaces": "id of the message that this one replaces; zeros if none",
    "retriable": "whether the sender may retry it",
    "retried": "messages of that day that were retried",
    "retries": "dispatches after the first",
    "router": "20-byte address of the chain's router",
    "second_outcome": "outcome in a report that contradicts `outcome`",
    "sender": "32-byte address of the sender",
    "sent_at": "time of the route, from the message",
    "source_block": "block of the route",
    "source_chain": "EIP-155 id of the source",
    "source_name": "name of the source, as in the deployments file",
    "source_router": "32-byte address of the source's router",
    "source_time": "time of the route's block",
    "source_transaction": "transaction of the route",
    "stage": "attested, delivered, quorum or executed",
    "status": "state by the message's own events (docs/concepts.md)",
    "topics": "concatenated 32-byte topics of the log",
    "transaction_hash": "32-byte hash of the transaction",
    "ttl": "seconds after `sent_at` until the message expires; 0 means never",
    "until": "end of the pause",
}
"""Comments of the columns by name; a name has the same meaning in every table."""


def described(name: str) -> pa.Schema:
    """Returns a table's schema with comments."""
    schema, _ = TABLES[name]
    return pa.schema([field.with_metadata({"comment": _COLUMNS[field.name]}) for field in schema])


def description(name: str) -> str:
    """Returns a table's comment."""
    return TABLES[name][1]


def shown_columns(name: str) -> str:
    """Returns a table's columns as DuckDB SQL.

    Binary columns are converted to text: `0x` and lower-case hexadecimal digits.
    """
    schema, _ = TABLES[name]
    return ", ".join(
        f"'0x' || lower(hex({field.name})) as {field.name}" if pa.types.is_binary(field.type) else field.name
        for field in schema
    )
