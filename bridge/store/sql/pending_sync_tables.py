"""The tables of the pending sync queue."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Index, Integer, LargeBinary, String, Table, Text

from bridge.records.pending_sync import SyncState
from bridge.store.sql.tables import METADATA

pending_syncs = Table(
    "pending_syncs",
    METADATA,
    # the primary finality record
    Column("message_id", LargeBinary, primary_key=True),
    Column("sequence", BigInteger, nullable=False),  # of the message
    Column("change_id", LargeBinary, nullable=False),
    Column("source_chain", BigInteger, nullable=False),
    Column("destination_chain", BigInteger, nullable=False),
    Column("block_number", BigInteger, nullable=False),
    Column("block_hash", LargeBinary, nullable=False),
    Column("transaction_hash", LargeBinary, nullable=False),
    Column("final_at", Double, nullable=False),
    # how far its application is
    Column("state", String, nullable=False),
    Column("seen_number", BigInteger),
    Column("seen_hash", LargeBinary),
    Column("resolved_at", Double),
    Column("propagations", Integer, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("lock_until", Double, nullable=False),
    Column("problem", Text, nullable=False),
    CheckConstraint(f"state IN ({', '.join(repr(str(state)) for state in SyncState)})", name="state"),
    Index(None, "state", "next_at"),
    Index(None, "source_chain", "destination_chain", "state", "final_at"),
    Index(None, "change_id"),
    Index(None, "sequence"),
    Index(None, "resolved_at"),
)

heartbeats = Table(
    "heartbeats",  # one row per lane: the latest
    METADATA,
    Column("source_chain", BigInteger, primary_key=True, autoincrement=False),
    Column("destination_chain", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("primary_final", BigInteger, nullable=False),
    Column("applied", BigInteger, nullable=False),
    Column("lag_seconds", Double, nullable=False),
    Column("signer", String, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

sync_segments = Table(
    "sync_segments",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("root", LargeBinary, nullable=False),
    Column("count", Integer, nullable=False),
    Column("archived_at", Double, nullable=False),
    Column("signer", String, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

archived_records = Table(
    "archived_records",
    METADATA,
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("message_id", LargeBinary, nullable=False, unique=True),
    Column("leaf", LargeBinary, nullable=False),
)
