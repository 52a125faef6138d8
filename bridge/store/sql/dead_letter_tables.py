"""The tables of dead letters. They may be in another database than those of the store."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Index, LargeBinary, String, Table, Text

from bridge.records.dead_letters import LetterStatus, RecordKind
from bridge.store.sql.tables import METADATA

dead_letter_log = Table(
    "dead_letter_log",
    METADATA,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("key", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("event_id", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("document_hash", LargeBinary, nullable=False),
    Column("document", Text),  # JSON; none once it is archived
    Column("signer", String, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    CheckConstraint(f"kind IN ({', '.join(repr(str(kind)) for kind in RecordKind)})", name="kind"),
    Index(None, "event_id", "sequence"),
)

dead_letters = Table(
    "dead_letters",
    METADATA,
    Column("event_id", String, primary_key=True),
    Column("message_id", LargeBinary, nullable=False),
    Column("kind", String, nullable=False),
    Column("source_chain", BigInteger, nullable=False),
    Column("destination_chain", BigInteger, nullable=False),
    Column("gmp", String, nullable=False),
    Column("error_code", String, nullable=False),
    Column("status", String, nullable=False),
    Column("entered_at", Double, nullable=False),
    Column("retention_until", Double, nullable=False),
    Column("first_sequence", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    CheckConstraint(f"status IN ({', '.join(repr(str(status)) for status in LetterStatus)})", name="status"),
    Index(None, "status", "first_sequence"),
    Index(None, "message_id"),
    Index(None, "entered_at"),
)

dead_letter_readers = Table(
    "dead_letter_readers",  # how far each channel of alerts has been told
    METADATA,
    Column("reader", String, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
)

DEAD_LETTER_TABLES = (dead_letter_log, dead_letters, dead_letter_readers)
