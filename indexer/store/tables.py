"""The operational store's tables."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from bridge.protocol import retry_requests as format_
from bridge.protocol.message import Kind
from indexer.model import schemas

SCHEMA_VERSION: Final = 12


class Uint64(TypeDecorator[int]):
    """A ``uint64`` in a signed column. The databases have no unsigned columns, and a gas limit may have any value."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | Decimal | None, dialect: Dialect) -> int | None:  # noqa: ARG002  SQLAlchemy's signature
        """Converts to two's complement."""
        if value is None:
            return None
        number = int(value)
        return number - (1 << 64) if number >= 1 << 63 else number

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:  # noqa: ARG002  SQLAlchemy's signature
        """Converts from two's complement."""
        return None if value is None else value % (1 << 64)


_TYPES: Final[dict[pa.DataType, type[TypeEngine[Any]]]] = {
    pa.int64(): BigInteger,
    pa.int32(): Integer,
    pa.bool_(): Boolean,
    pa.string(): String,
    pa.binary(): LargeBinary,
    schemas.UINT64: Uint64,
}

metadata: Final = MetaData()


def _table(name: str, schema: pa.Schema, key: tuple[str, ...], *indexes: Index) -> Table:
    columns = [
        Column(field.name, _TYPES[field.type], primary_key=field.name in key, autoincrement=False) for field in schema
    ]
    return Table(name, metadata, *columns, *indexes, sqlite_with_rowid=False)


events: Final = _table(
    "events",
    schemas.EVENTS,
    ("chain_id", "block_number", "log_index"),
    Index("events_of_message", "message_id"),
    Index("events_of_transaction", "transaction_hash"),
)
Index(
    "events_about_no_message",  # pauses, adapters and policies: few rows, found by name
    events.c.event,
    sqlite_where=events.c.message_id.is_(None),
    postgresql_where=events.c.message_id.is_(None),
)

messages: Final = _table(
    "messages",
    schemas.MESSAGES,
    ("message_id",),
    Index("messages_by_time", "source_time"),
    Index("messages_of_transaction", "source_chain", "source_transaction"),
)
_waiting = messages.c.status.in_(("ROUTED", "RECEIVED", "EXECUTION_FAILED", "EXECUTION_DEFERRED"))
Index("messages_waiting", messages.c.attempted_time, sqlite_where=_waiting, postgresql_where=_waiting)

Index(
    "messages_by_nonce",
    messages.c.source_chain,
    messages.c.source_router,
    messages.c.destination_chain,
    messages.c.nonce,
    messages.c.source_block,  # never null here; included so that the index covers the query
    sqlite_where=messages.c.source_block.is_not(None),
    postgresql_where=messages.c.source_block.is_not(None),
)

_message = messages.c
Index(
    "messages_executed",  # covers the check of quorums
    *(
        _message[name]
        for name in ("message_id", "executions", "executed_block", "executed_log_index", "quorum", "asked_quorum")
    ),
    sqlite_where=_message.executions > 0,
    postgresql_where=_message.executions > 0,
)
for _name, _unexpected in {
    # Partial indexes with the conditions of `pipeline/divergences.py`, which match hardly any rows.
    "executed_twice": _message.executions > 1,
    "payload_differs": _message.payload_differs,
    "executed_early": (_message.executions > 0) & (_message.executed_time < _message.source_time),
    "executed_late": (_message.ttl > 0) & (_message.executed_time > _message.sent_at + _message.ttl),
    "never_created": _message.source_block.is_(None),
    "over_unused_gmp": text("(received & ~dispatched) <> 0"),
    "contradicted": _message.contradicted,
    "conflicting": _message.conflicts != 0,
    "expired": _message.expired_time.is_not(None),
    "cancelled_unasked": _message.cancelled_unasked,
}.items():
    Index(f"messages_{_name}", _message.message_id, sqlite_where=_unexpected, postgresql_where=_unexpected)

_is_report = messages.c.kind == int(Kind.REPORT)
Index("messages_reports", messages.c.replaces, sqlite_where=_is_report, postgresql_where=_is_report)

_absorbed = events.c.event == "DuplicateAbsorbed"
Index("events_absorbed", events.c.block_time, sqlite_where=_absorbed, postgresql_where=_absorbed)

SEEN: Final = "coalesce(source_time, received_time, 0)"
"""Unix seconds of block time at which a message was first seen. Lists of messages are ordered by it."""

for _name, _columns in {
    "messages_seen": "",
    "messages_of_status": "status, ",
    "messages_of_lane": "source_chain, destination_chain, ",
    "messages_of_sender": "sender, ",
    "messages_of_recipient": "recipient, ",
}.items():
    Index(_name, text(f"{_columns}{SEEN}, message_id"), _table=messages)

_reported = messages.c.outcome.is_not(None)  # also a condition of `pipeline/divergences.py`
Index(
    "messages_reported",
    text(f"{SEEN}, message_id"),
    _table=messages,
    sqlite_where=_reported,
    postgresql_where=_reported,
)

receipts: Final = _table("receipts", schemas.RECEIPTS, ("message_id", "gmp"))

pauses: Final = _table("pauses", schemas.PAUSES, ("chain_id", "other_chain", "kind", "begins"))

stall_limits: Final = _table("stall_limits", schemas.LIMITS, ("source_chain", "destination_chain", "kind"))

pruned_lanes: Final = Table(
    "pruned_lanes",  # number of pruned messages per lane, which are only in the lake
    metadata,
    Column("source_chain", BigInteger, primary_key=True, autoincrement=False),
    Column("source_router", LargeBinary, primary_key=True),
    Column("destination_chain", BigInteger, primary_key=True, autoincrement=False),
    Column("messages", BigInteger, nullable=False),
)

pruned_messages: Final = Table(
    "pruned_messages",  # kept of each pruned message, so that a late receipt is not mistaken for a forgery
    metadata,
    Column("message_id", LargeBinary, primary_key=True),
    Column("status", String, nullable=False),
    Column("source_chain", BigInteger, nullable=False),
    Column("source_router", LargeBinary, nullable=False),
    Column("destination_chain", BigInteger, nullable=False),
    Column("payload_hash", LargeBinary, nullable=False),
    Column("source_block", BigInteger, nullable=False),
    Column("source_time", BigInteger, nullable=False),
    Column("dispatched", Integer, nullable=False),
    sqlite_with_rowid=False,
)

lane_checks: Final = Table(
    "lane_checks",  # last comparison of each lane with the router's own totals
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("direction", String, primary_key=True),
    Column("other_chain", BigInteger, primary_key=True, autoincrement=False),
    Column("block_number", BigInteger),
    Column("block_hash", LargeBinary),
    Column("indexed_count", BigInteger),
    Column("indexed_sum", LargeBinary),  # 24 bytes
    Column("router_count", BigInteger),
    Column("router_sum", LargeBinary),
    Column("verdict", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("checked_at", Float, nullable=False),
)

marks: Final = Table(
    "marks",  # messages that the running index has marked as DIVERGED, which their own rows do not show
    metadata,
    Column("message_id", LargeBinary, primary_key=True),
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String, primary_key=True),  # always FINALITY_VIOLATED: a chain reverted final events of the message
    Column("block_number", BigInteger, nullable=False),  # the lowest affected block
    Column("evidence", String, nullable=False),
    Column("noted_at", Float, nullable=False),
    Column("repaired_at", Float),
)

orphans: Final = Table(
    "orphans",  # messages whose MessageRouted was removed by a reorg and has not been included again
    metadata,
    Column("message_id", LargeBinary, primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("block_number", BigInteger, nullable=False),
    Column("block_hash", LargeBinary, nullable=False),
    Column("block_time", BigInteger, nullable=False),
    Column("transaction_hash", LargeBinary, nullable=False),
    Column("destination_chain", BigInteger, nullable=False),
    Column("sender", LargeBinary, nullable=False),
    Column("recipient", LargeBinary, nullable=False),
    Column("payload_hash", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

chains: Final = Table(
    "chains",  # how far each chain has been read, and how far it is in the lake
    metadata,
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("block", BigInteger, nullable=False),
    Column("block_hash", LargeBinary, nullable=False),
    Column("block_time", BigInteger, nullable=False),
    Column("hashes", LargeBinary, nullable=False),
    Column("final_block", BigInteger, nullable=False),
    Column("final_hash", LargeBinary, nullable=False),
    Column("head_block", BigInteger, nullable=False),
    Column("lake_block", BigInteger),
    Column("halted", String),
)

retry_requests: Final = Table(
    format_.TABLE,  # append-only; docs/formats.md
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("message_id", LargeBinary, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("source_chain", BigInteger, nullable=False),
    Column("destination_chain", BigInteger, nullable=False),
    Column("missing_gmps", Integer, nullable=False),
    Column("received_gmps", Integer, nullable=False),
    Column("reason", String, nullable=False),
    Column("cause_block", BigInteger, nullable=False),
    Column("cause_hash", LargeBinary, nullable=False),
    Column("requested_at", Float, nullable=False),
    UniqueConstraint("message_id", "attempt", "generation"),
    Index("retry_requests_of_lane", "source_chain", "destination_chain", "requested_at"),
)

retry_closures: Final = Table(
    "retry_closures",  # requests that a retry or an execution has answered
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
)

facts: Final = Table(
    "store",  # one row per fact about the store itself
    metadata,
    Column("name", String, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
