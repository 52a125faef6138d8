"""Every table of the relayer's store.

Times are Unix seconds, hashes and ids are raw bytes, sets of GMPs are the bits of `docs/formats.md`. Only the triggers
that guard the outbox's transitions are specific to a database.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    literal_column,
    text,
)

from bridge.records.jobs import ExecutionJob, ExecutionState, RetryJob, RetryState, SyncJob, SyncState
from bridge.records.outbox import TRANSITIONS

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite assigns increasing row ids to INTEGER keys only.
_SERIAL = BigInteger().with_variant(Integer, "sqlite")


def _key(name: str, kind: type[Integer]) -> Column[int]:
    """Returns a primary key column without autoincrement."""
    return Column(name, kind, primary_key=True, autoincrement=False)


def _lane(*, primary_key: bool = False) -> tuple[Column[int], Column[int]]:
    """Returns the two columns of a lane."""
    source, destination = (
        _key(name, BigInteger) if primary_key else Column(name, BigInteger, nullable=False)
        for name in ("source_chain", "destination_chain")
    )
    return source, destination


schema_version = Table("schema_version", METADATA, Column("version", Integer, primary_key=True))

chains = Table(
    "chains",
    METADATA,
    _key("chain_id", BigInteger),
    Column("genesis", LargeBinary, nullable=False),
)

cursors = Table(
    "cursors",
    METADATA,
    _key("chain_id", BigInteger),
    Column("number", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("watched", String, nullable=False),
    Column("deferred_from", BigInteger),
)

cursor_ancestors = Table(
    "cursor_ancestors",
    METADATA,
    _key("chain_id", BigInteger),
    _key("number", BigInteger),
    Column("hash", LargeBinary, nullable=False),
)

messages = Table(
    "messages",
    METADATA,
    Column("sequence", _SERIAL, primary_key=True),
    Column("message_id", LargeBinary, nullable=False, unique=True),
    Column("envelope", LargeBinary),  # null once nothing needs it any more
    *_lane(),
    Column("sender", LargeBinary, nullable=False),
    Column("nonce", BigInteger, nullable=False),
    Column("observed_at", Double, nullable=False),
    Column("created_in", BigInteger),  # the source block with the router's event
    Index(None, "source_chain", "destination_chain", "created_in"),
)

HAS_ENVELOPE = messages.c.envelope.is_not(None)

Index("ix_messages_envelope", messages.c.observed_at, sqlite_where=HAS_ENVELOPE, postgresql_where=HAS_ENVELOPE)

attempts = Table(
    "attempts",
    METADATA,
    Column("message_id", LargeBinary, primary_key=True),
    _key("attempt", BigInteger),
    Column("retriable", Boolean),
    Column("gmps", Integer, nullable=False),
    Column("source_chain", BigInteger, nullable=False),
    Column("block_number", BigInteger, nullable=False),
    Column("block_hash", LargeBinary, nullable=False),
    Column("transaction_hash", LargeBinary, nullable=False),
    Index(None, "source_chain", "block_number"),
)

outbox = Table(
    "outbox",
    METADATA,
    Column("sequence", _SERIAL, primary_key=True),
    Column("event_id", String, nullable=False, unique=True),
    Column("message_id", LargeBinary, ForeignKey("messages.message_id"), nullable=False),
    Column("gmp", Integer, nullable=False),
    Column("attempt_number", BigInteger, nullable=False),
    Column("kind", Integer, nullable=False),
    *_lane(),
    Column("ordering_key", String, nullable=False),
    Column("created_at", Double, nullable=False),
    # position of the dispatch on the source chain
    Column("transport_id", String, nullable=False),
    Column("block_number", BigInteger, nullable=False),
    Column("block_hash", LargeBinary, nullable=False),
    Column("transaction_hash", LargeBinary, nullable=False),
    Column("log_index", Integer, nullable=False),
    Column("evidence", Text, nullable=False),
    # progress of its delivery
    Column("state", String, nullable=False),
    Column("available_at", Double, nullable=False),
    Column("failed_tries", Integer, nullable=False),
    Column("last_error", Text),
    Column("fence", BigInteger, nullable=False),
    Column("claimed_at", Double),
    Column("claimed_by", String),
    Column("lease_until", Double),
    Column("delivered_at", Double),
    Column("delivery_block_number", BigInteger),
    Column("delivery_block_hash", LargeBinary),
    Column("delivery_transaction_hash", LargeBinary),
    Column("confirmed_at", Double),
    Column("orphaned_at", Double),
    Column("setbacks", Integer, nullable=False),
    UniqueConstraint("message_id", "gmp", "attempt_number"),
    CheckConstraint("state IN ('PENDING', 'CLAIMED', 'DELIVERED', 'DEAD')", name="state"),
    CheckConstraint("(state = 'CLAIMED') = (claimed_at IS NOT NULL)", name="claimed_at_iff_claimed"),
    CheckConstraint("(state = 'CLAIMED') = (claimed_by IS NOT NULL)", name="claimed_by_iff_claimed"),
    CheckConstraint("(state = 'CLAIMED') = (lease_until IS NOT NULL)", name="lease_iff_claimed"),
    CheckConstraint("(state = 'DELIVERED') = (delivered_at IS NOT NULL)", name="delivered_at_iff_delivered"),
    Index(None, "destination_chain", "state", "available_at"),
    Index(None, "source_chain", "block_number"),
    Index(None, "created_at"),
    Index(None, "ordering_key", "sequence"),
    Index(None, "delivered_at"),
)

# Literal, since databases use a partial index only if the query contains its condition.
NEVER_CLAIMED = outbox.c.fence == literal_column("0")

Index(
    "ix_outbox_never_claimed",
    outbox.c.destination_chain,
    outbox.c.state,  # always PENDING; without it SQLite picks the other index, which covers all waiting entries
    outbox.c.available_at,
    sqlite_where=NEVER_CLAIMED,
    postgresql_where=NEVER_CLAIMED,
)

_IS_CONFIRMED = outbox.c.confirmed_at.is_not(None)

Index("ix_outbox_confirmed", outbox.c.confirmed_at, sqlite_where=_IS_CONFIRMED, postgresql_where=_IS_CONFIRMED)

# An entry that is still to be delivered and has failed before.
FAILING = text("failed_tries > 0 AND state IN ('PENDING', 'CLAIMED')")

Index(
    "ix_outbox_failing",
    outbox.c.source_chain,
    outbox.c.destination_chain,
    outbox.c.gmp,
    sqlite_where=FAILING,
    postgresql_where=FAILING,
)

outbox_failures = Table(
    "outbox_failures",
    METADATA,
    Column("event_id", String, ForeignKey("outbox.event_id"), primary_key=True),
    _key("number", Integer),
    Column("worker", String, nullable=False),
    Column("failed_at", Double, nullable=False),
    Column("kind", String, nullable=False),
    Column("code", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("delivery_snapshot", Text),  # JSON; null for an interruption
    Column("letter", Boolean),  # for the fatal failure: whether it has a letter
    Index(None, "failed_at"),
)

slots = Table(
    "slots",
    METADATA,
    Column("slot_id", _SERIAL, primary_key=True),
    Column("chain_id", BigInteger, nullable=False),
    Column("account", String, nullable=False),
    Column("nonce", BigInteger, nullable=False),
    # the call; null for a no-op
    Column("call_to", String),
    Column("call_data", LargeBinary),
    Column("call_value", String),  # wei, beyond 64 bits
    Column("call_gas", BigInteger),
    Column("state", String, nullable=False),
    Column("reserved_at", Double, nullable=False),
    Column("broadcast_at", Double),
    Column("included_hash", LargeBinary),
    Column("included_block_number", BigInteger),
    Column("included_block_hash", LargeBinary),
    Column("succeeded", Boolean),
    UniqueConstraint("chain_id", "account", "nonce"),
    Index(None, "chain_id", "account", "state"),
    Index(None, "reserved_at"),
    sqlite_autoincrement=True,
)

# The calls of each slot's transaction, with their costs: upper bounds until a block includes it.
slot_parts = Table(
    "slot_parts",
    METADATA,
    Column("slot_id", _SERIAL, ForeignKey("slots.slot_id"), primary_key=True, autoincrement=False),
    _key("position", Integer),
    Column("transaction_key", String, nullable=False),
    Column("gas", BigInteger, nullable=False),  # its share of the gas limit
    # the message that pays; null: the cost counts for the chain alone
    Column("message_id", LargeBinary),
    Column("sender", LargeBinary),
    Column("source_chain", BigInteger),
    Column("destination_chain", BigInteger),
    Column("gwei", BigInteger, nullable=False),
    Column("data_gwei", BigInteger, nullable=False),  # the rollup's data fee, which no receipt lowers
    Index(None, "transaction_key"),
)

signed_versions = Table(
    "signed_versions",
    METADATA,
    Column("slot_id", _SERIAL, ForeignKey("slots.slot_id"), primary_key=True, autoincrement=False),
    _key("number", Integer),
    Column("hash", LargeBinary, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("max_fee", BigInteger, nullable=False),
    Column("priority_fee", BigInteger, nullable=False),
    Column("signed_at", Double, nullable=False),
    Column("is_noop", Boolean, nullable=False),
)

spending_totals = Table(
    "spending_totals",
    METADATA,
    _key("chain_id", BigInteger),
    _key("day", Integer),
    Column("of", String, primary_key=True),
    Column("gwei", BigInteger, nullable=False),
    Index(None, "day"),
)

spending_blocked = Table(
    "spending_blocked",  # work that a spending bound blocks
    METADATA,
    Column("subject", String, primary_key=True),
    Column("message_id", LargeBinary, nullable=False),
    *_lane(),
    Column("bound", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("since", Double, nullable=False),
    Column("at", Double, nullable=False),
    Index(None, "message_id"),
)

# Monotonic counters of events, incremented in the transactions that record them.
counters = Table(
    "counters",
    METADATA,
    Column("what", String, primary_key=True),
    Column("labels", String, primary_key=True),  # JSON
    Column("value", Double, nullable=False),
)

positions = Table(
    "positions",  # positions of readers of ordered sequences; also in a separate dead-letter database
    METADATA,
    Column("reader", String, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", LargeBinary),  # of the record at that position, for the reader that compares it
)

jobs = Table(
    "jobs",
    METADATA,
    Column("job_id", _SERIAL, primary_key=True),
    Column("queue", String, nullable=False),
    Column("message_id", LargeBinary, nullable=False),
    Column("name", String, nullable=False),  # distinguishes jobs of one queue and message
    *_lane(),
    Column("state", String, nullable=False),
    Column("since", Double, nullable=False),
    Column("available_at", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("seen_number", BigInteger),
    Column("seen_hash", LargeBinary),
    Column("finished_at", Double),
    Column("source_block", BigInteger),  # the source block that it depends on
    Column("detail", Text, nullable=False),  # JSON: detail of its queue
    UniqueConstraint("queue", "message_id", "name"),
    CheckConstraint(
        " OR ".join(
            f"(queue = '{kind.QUEUE}' AND state IN ({', '.join(repr(str(state)) for state in states)}))"
            for kind, states in ((RetryJob, RetryState), (ExecutionJob, ExecutionState), (SyncJob, SyncState))
        ),
        name="state",
    ),
    Index(None, "queue", "state", "since"),
    Index(None, "queue", "source_chain", "destination_chain", "state"),
    Index(None, "destination_chain", "seen_number"),
)

_UNFINISHED = jobs.c.finished_at.is_(None)
_IN_BLOCK = jobs.c.source_block.is_not(None)
_SENDING = jobs.c.state == literal_column(f"'{RetryState.SENDING}'")

Index(
    "ix_jobs_due",
    jobs.c.queue,
    jobs.c.available_at,
    jobs.c.job_id,
    sqlite_where=_UNFINISHED,
    postgresql_where=_UNFINISHED,
)
Index(
    "ix_jobs_source_block",
    jobs.c.source_chain,
    jobs.c.source_block,
    sqlite_where=_IN_BLOCK,
    postgresql_where=_IN_BLOCK,
)
Index(
    "uq_jobs_one_sending",
    jobs.c.queue,
    jobs.c.message_id,
    unique=True,
    sqlite_where=_SENDING,
    postgresql_where=_SENDING,
)

heartbeats = Table(
    "heartbeats",  # one row per lane: the latest
    METADATA,
    *_lane(primary_key=True),
    Column("at", Double, nullable=False),
    Column("primary_final", BigInteger, nullable=False),
    Column("applied", BigInteger, nullable=False),
    Column("lag_seconds", Double, nullable=False),
    Column("signer", String, nullable=False),
    Column("signature", LargeBinary, nullable=False),
)

lane_changes = Table(
    "lane_changes",  # a lane is in the state of its last change; `Outbox.claim` skips those that are not running
    METADATA,
    Column("sequence", _SERIAL, primary_key=True),
    *_lane(),
    Column("state", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("changed_by", String, nullable=False),
    Column("changed_at", Double, nullable=False),
    CheckConstraint("state IN ('RUNNING', 'PAUSED', 'HALTED')", name="state"),
    Index(None, "source_chain", "destination_chain", "sequence"),
)

accusations = Table(
    "accusations",
    METADATA,
    _key("chain_id", BigInteger),
    _key("gmp", Integer),
    Column("message_id", LargeBinary, primary_key=True),
    Column("kind", String, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("found_at", Double, nullable=False),
    Column("state", String, nullable=False),
    Column("paused_until", BigInteger),
    Column("reason", String, nullable=False),
    Column("is_reported", Boolean, nullable=False),
)


def _guards() -> list[DDL]:
    """Returns the triggers with which the database rejects the same transitions as the records."""
    allowed = " OR ".join(
        f"(OLD.state = '{before}' AND NEW.state = '{after}')" for before, after in sorted(TRANSITIONS)
    )
    sqlite = (
        (
            "CREATE TRIGGER outbox_transitions BEFORE UPDATE OF state ON outbox"
            f" WHEN NEW.state <> OLD.state AND NOT ({allowed})"
            " BEGIN SELECT RAISE(ABORT, 'forbidden outbox transition'); END"
        ),
    )
    postgresql = (
        (
            "CREATE FUNCTION refuse_outbox_transition() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE integrity_constraint_violation USING MESSAGE = 'forbidden outbox transition'; END $$"
        ),
        (
            "CREATE TRIGGER outbox_transitions BEFORE UPDATE OF state ON outbox FOR EACH ROW"
            f" WHEN (NEW.state <> OLD.state AND NOT ({allowed})) EXECUTE FUNCTION refuse_outbox_transition()"
        ),
    )
    return [
        DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]  # SQLAlchemy's DDL has no types
        for dialect, statements in (("sqlite", sqlite), ("postgresql", postgresql))
        for statement in statements
    ]


for _guard in _guards():
    event.listen(outbox, "after_create", _guard)
