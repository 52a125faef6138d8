"""The pending sync queue in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    RowMapping,
    String,
    Table,
    Text,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from bridge.domain.lanes import Lane
from bridge.domain.merkle import prove
from bridge.domain.observations import BlockRef
from bridge.domain.pending_sync import (
    LOOKED_BACK,
    UNRESOLVED,
    ArchivedRecord,
    Heartbeat,
    PendingSync,
    PrimaryRecord,
    Segment,
    SyncProgress,
    SyncState,
)
from bridge.protocol.message import Kind, decode_envelope
from bridge.store import rows
from bridge.store.database import Database
from bridge.store.tables import METADATA, attempts, messages, outbox

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

# What is asked with each look at the queue is put together once: that costs more than to run it.
_NEWEST = select(func.max(messages.c.sequence))
_FRESH = (
    select(
        messages,
        select(func.min(attempts.c.attempt))
        .where(attempts.c.message_id == messages.c.message_id)
        .scalar_subquery()
        .label("attempt"),
    )
    .where(
        messages.c.sequence > bindparam("after"),
        exists().where(
            outbox.c.message_id == messages.c.message_id, outbox.c.kind.in_(bindparam("kinds", expanding=True))
        ),
        exists().where(attempts.c.message_id == messages.c.message_id),
        ~exists().where(pending_syncs.c.message_id == messages.c.message_id),
        ~exists().where(archived_records.c.message_id == messages.c.message_id),
    )
    .order_by(messages.c.sequence)
)
_DUE = (
    select(pending_syncs)
    .where(
        pending_syncs.c.state.in_(sorted(UNRESOLVED)),
        pending_syncs.c.next_at <= bindparam("now"),
        exists().where(attempts.c.message_id == pending_syncs.c.message_id),
    )
    .order_by(pending_syncs.c.final_at, pending_syncs.c.message_id)
    .limit(bindparam("most"))
)


class SqlPendingSyncs:
    """See `bridge.domain.pending_sync.PendingSyncs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self, kinds: frozenset[Kind], after: int) -> int:
        wanted = {"after": after - LOOKED_BACK, "kinds": sorted(map(int, kinds))}
        with self._database.reading() as connection:
            newest = connection.execute(_NEWEST).scalar() or 0
            found = connection.execute(_FRESH, wanted).mappings().all()
        if found:
            with self._database.transaction(exclusive="pending syncs") as connection:
                for row in found:
                    _add(connection, row)
        return int(newest)

    def due(self, now: float, limit: int) -> list[PendingSync]:
        with self._database.reading() as connection:
            return [_from(row) for row in connection.execute(_DUE, {"now": now, "most": limit}).mappings()]

    def save(self, changed: PendingSync, *, fence: int) -> bool:
        mine = (pending_syncs.c.message_id == changed.record.message_id) & (pending_syncs.c.fence == fence)
        with self._database.transaction() as connection:
            return connection.execute(update(pending_syncs).where(mine).values(**_row(changed))).rowcount == 1

    def of_message(self, message_id: bytes) -> PendingSync | None:
        found = self._read(select(pending_syncs).where(pending_syncs.c.message_id == message_id))
        return found[0] if found else None

    def unresolved(self, state: SyncState | None = None, limit: int = 100) -> list[PendingSync]:
        wanted = sorted(UNRESOLVED) if state is None else [state]
        return self._read(select(pending_syncs).where(pending_syncs.c.state.in_(wanted)), limit)

    def progress(self, now: float) -> Mapping[Lane, SyncProgress]:
        resolved = pending_syncs.c.state.not_in(sorted(UNRESOLVED))
        waits = ~resolved & exists().where(attempts.c.message_id == pending_syncs.c.message_id)
        key = (pending_syncs.c.source_chain, pending_syncs.c.destination_chain)
        query = select(
            *key,
            func.count().filter(resolved | waits).label("total"),
            func.count().filter(resolved).label("applied"),
            func.min(case((waits, pending_syncs.c.final_at))).label("oldest"),
        )
        with self._database.reading() as connection:
            found = connection.execute(query.group_by(*key).order_by(*key)).all()
        return {
            Lane(row.source_chain, row.destination_chain): SyncProgress(
                primary_final=row.total,
                applied=row.applied,
                lag_seconds=0.0 if row.oldest is None else max(0.0, now - row.oldest),
            )
            for row in found
        }

    def counts(self) -> Mapping[Lane, Mapping[SyncState, int]]:
        key = (pending_syncs.c.source_chain, pending_syncs.c.destination_chain, pending_syncs.c.state)
        found: dict[Lane, dict[SyncState, int]] = {}
        with self._database.reading() as connection:
            for source, destination, state, count in connection.execute(select(*key, func.count()).group_by(*key)):
                found.setdefault(Lane(source, destination), {})[SyncState(state)] = count
        return found

    def beat(self, heartbeat: Heartbeat) -> bool:
        lane, said = heartbeat.lane, heartbeat.progress
        values = {
            "source_chain": lane.source_chain,
            "destination_chain": lane.destination_chain,
            "at": heartbeat.at,
            "primary_final": said.primary_final,
            "applied": said.applied,
            "lag_seconds": said.lag_seconds,
            "signer": heartbeat.signer,
            "signature": heartbeat.signature,
        }
        mine = (heartbeats.c.source_chain == lane.source_chain) & (
            heartbeats.c.destination_chain == lane.destination_chain
        )
        with self._database.transaction(exclusive="heartbeats") as connection:
            last = connection.execute(select(heartbeats.c.at).where(mine)).scalar()
            if last is not None and last >= heartbeat.at:
                return False
            connection.execute(delete(heartbeats).where(mine))
            connection.execute(insert(heartbeats).values(**values))
        return True

    def heartbeats(self) -> list[Heartbeat]:
        query = select(heartbeats).order_by(heartbeats.c.source_chain, heartbeats.c.destination_chain)
        with self._database.reading() as connection:
            return [_heartbeat(row) for row in connection.execute(query).mappings()]

    def resolved(self, before: float, limit: int) -> list[PrimaryRecord]:
        return [
            one.record for one in self._read(select(pending_syncs).where(pending_syncs.c.resolved_at < before), limit)
        ]

    def archive(self, records: Sequence[PrimaryRecord], segment: Segment) -> None:
        with self._database.transaction(exclusive="pending syncs") as connection:
            connection.execute(
                insert(sync_segments).values(
                    number=segment.number,
                    root=segment.root,
                    count=segment.count,
                    archived_at=segment.archived_at,
                    signer=segment.signer,
                    signature=segment.signature,
                )
            )
            connection.execute(
                insert(archived_records),
                [
                    {"segment": segment.number, "position": place, "message_id": record.message_id, "leaf": record.leaf}
                    for place, record in enumerate(records)
                ],
            )
            ids = [record.message_id for record in records]
            connection.execute(delete(pending_syncs).where(pending_syncs.c.message_id.in_(ids)))

    def segments(self) -> list[Segment]:
        with self._database.reading() as connection:
            found = connection.execute(select(sync_segments).order_by(sync_segments.c.number))
            return [Segment(**row) for row in found.mappings()]

    def archived(self, message_id: bytes) -> ArchivedRecord | None:
        with self._database.reading() as connection:
            mine = select(archived_records).where(archived_records.c.message_id == message_id)
            row = connection.execute(mine).mappings().first()
            if row is None:
                return None
            number = row["segment"]
            segment = connection.execute(select(sync_segments).where(sync_segments.c.number == number)).mappings().one()
            query = select(archived_records.c.leaf).where(archived_records.c.segment == number)
            leaves = list(connection.execute(query.order_by(archived_records.c.position)).scalars())
        return ArchivedRecord(row["leaf"], prove(leaves, row["position"]), Segment(**segment))

    def _read(self, query: Any, limit: int | None = None) -> list[PendingSync]:
        ordered = query.order_by(pending_syncs.c.final_at, pending_syncs.c.message_id).limit(limit)
        with self._database.reading() as connection:
            return [_from(row) for row in connection.execute(ordered).mappings()]


def take_back(connection: Connection, chain_id: int, last_good: int, now: float) -> None:
    """Has looked at again what rested on blocks of that chain above the highest that stands; nobody who looks now writes it."""
    table = pending_syncs.c
    lost = (table.source_chain == chain_id) & (table.block_number > last_good)
    gone = (table.destination_chain == chain_id) & (table.seen_number > last_good)
    connection.execute(
        update(pending_syncs)
        .where(lost | gone)
        .values(
            state=case((table.state.in_(sorted(UNRESOLVED)), table.state), else_=SyncState.PENDING.value),
            seen_number=None,
            seen_hash=None,
            resolved_at=None,
            next_at=now,
            fence=table.fence + 1,
        )
    )


def _add(connection: Connection, row: RowMapping) -> None:
    """Adds a message's record, unless another worker was faster or the message was reorged away meanwhile."""
    known = select(pending_syncs.c.sequence).where(pending_syncs.c.message_id == row["message_id"])
    mine = (attempts.c.message_id == row["message_id"]) & (attempts.c.attempt == row["attempt"])
    attempt = connection.execute(select(attempts).where(mine)).mappings().first()
    if attempt is None or connection.execute(known).first() is not None:
        return
    record = PrimaryRecord.of(decode_envelope(row["envelope"]).message, rows.attempt_from(attempt), row["observed_at"])
    one = PendingSync(record=record, next_at=row["observed_at"])
    connection.execute(insert(pending_syncs).values(sequence=row["sequence"], **_row(one)))


def _row(one: PendingSync) -> dict[str, Any]:
    record = one.record
    return {
        "message_id": record.message_id,
        "change_id": record.change_id,
        "source_chain": record.source_chain,
        "destination_chain": record.destination_chain,
        "block_number": record.block.number,
        "block_hash": record.block.hash,
        "transaction_hash": record.transaction_hash,
        "final_at": record.final_at,
        "state": one.state.value,
        "seen_number": one.seen and one.seen.number,
        "seen_hash": one.seen and one.seen.hash,
        "resolved_at": one.resolved_at,
        "propagations": one.propagations,
        "next_at": one.next_at,
        "fence": one.fence,
        "lock_until": one.lock_until,
        "problem": one.problem,
    }


def _from(row: RowMapping) -> PendingSync:
    return PendingSync(
        record=PrimaryRecord(
            message_id=row["message_id"],
            change_id=row["change_id"],
            source_chain=row["source_chain"],
            destination_chain=row["destination_chain"],
            block=BlockRef(row["block_number"], row["block_hash"]),
            transaction_hash=row["transaction_hash"],
            final_at=row["final_at"],
        ),
        state=SyncState(row["state"]),
        seen=None if row["seen_hash"] is None else BlockRef(row["seen_number"], row["seen_hash"]),
        resolved_at=row["resolved_at"],
        propagations=row["propagations"],
        next_at=row["next_at"],
        fence=row["fence"],
        lock_until=row["lock_until"],
        problem=row["problem"],
    )


def _heartbeat(row: RowMapping) -> Heartbeat:
    return Heartbeat(
        lane=Lane(row["source_chain"], row["destination_chain"]),
        at=row["at"],
        progress=SyncProgress(
            primary_final=row["primary_final"], applied=row["applied"], lag_seconds=row["lag_seconds"]
        ),
        signer=row["signer"],
        signature=row["signature"],
    )
