"""Primary finality records, heartbeats and the archive in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from sqlalchemy import Connection, RowMapping, bindparam, case, delete, exists, func, insert, select

from bridge.domain.finality_records import (
    LOOKED_BACK,
    ArchivedRecord,
    Heartbeat,
    PrimaryRecord,
    Segment,
    SyncProgress,
)
from bridge.domain.jobs import SyncJob
from bridge.domain.lanes import Lane
from bridge.domain.merkle import prove
from bridge.protocol.message import EnvelopeError, Kind, decode_envelope
from bridge.store.database import Database
from bridge.store.jobs import IS_THERE, add_job, read_jobs
from bridge.store.observations import attempt_from
from bridge.store.tables import archived_records, attempts, heartbeats, jobs, messages, outbox, sync_segments

# Statements of every poll of the queue are built once: building them costs more than running them.
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
        ~exists().where(jobs.c.queue == SyncJob.QUEUE, jobs.c.message_id == messages.c.message_id),
        ~exists().where(archived_records.c.message_id == messages.c.message_id),
    )
    .order_by(messages.c.sequence)
)


class FinalityRecords:
    """Where they are kept. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self, kinds: frozenset[Kind], after: int) -> int:
        """Adds a `SyncJob` for each observed message of these kinds. The relayer observes messages only once they are final.

        Args:
            kinds: those that are followed.
            after: what the last call returned, 0 at first: messages that were looked at then are not looked at again, but for
                the last of them, some of which may have come back after a reorg.
        """
        wanted = {"after": after - LOOKED_BACK, "kinds": sorted(map(int, kinds))}
        with self._database.reading() as connection:
            newest = connection.execute(_NEWEST).scalar() or 0
            found = connection.execute(_FRESH, wanted).mappings().all()
        if found:
            with self._database.transaction(exclusive="finality records") as connection:
                for row in found:
                    _add(connection, row)
        return int(newest)

    def progress(self, now: float) -> Mapping[Lane, SyncProgress]:
        """How far each lane is that ever had a message; what waits, and was reorged away on its source, is no part of it."""
        resolved = jobs.c.finished_at.is_not(None)
        waits = ~resolved & IS_THERE
        key = (jobs.c.source_chain, jobs.c.destination_chain)
        query = select(
            *key,
            func.count().filter(resolved | waits).label("total"),
            func.count().filter(resolved).label("applied"),
            func.min(case((waits, jobs.c.since))).label("oldest"),
        )
        query = query.where(jobs.c.queue == SyncJob.QUEUE)
        found = self._database.rows(query.group_by(*key).order_by(*key))
        return {
            Lane(row.source_chain, row.destination_chain): SyncProgress(
                primary_final=row.total,
                applied=row.applied,
                lag_seconds=0.0 if row.oldest is None else max(0.0, now - row.oldest),
            )
            for row in found
        }

    def beat(self, heartbeat: Heartbeat) -> bool:
        """Keeps a heartbeat instead of the lane's last one; an older one changes nothing."""
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
        """The latest of each lane."""
        query = select(heartbeats).order_by(heartbeats.c.source_chain, heartbeats.c.destination_chain)
        return [_heartbeat(row) for row in self._database.read(query)]

    def resolved(self, before: float, limit: int) -> list[PrimaryRecord]:
        """Records that were resolved before that moment (Unix seconds), in the order of their finality."""
        query = select(jobs).where(jobs.c.queue == SyncJob.QUEUE, jobs.c.finished_at < before)
        found = read_jobs(self._database, SyncJob, query.order_by(jobs.c.since, jobs.c.message_id).limit(limit))
        return [job.record for job in found]

    def archive(self, records: Sequence[PrimaryRecord], segment: Segment) -> None:
        """Moves records into a segment of the archive, in that order; their jobs go."""
        with self._database.transaction(exclusive="finality records") as connection:
            connection.execute(insert(sync_segments).values(**asdict(segment)))
            connection.execute(
                insert(archived_records),
                [
                    {"segment": segment.number, "position": place, "message_id": record.message_id, "leaf": record.leaf}
                    for place, record in enumerate(records)
                ],
            )
            ids = [record.message_id for record in records]
            connection.execute(delete(jobs).where(jobs.c.queue == SyncJob.QUEUE, jobs.c.message_id.in_(ids)))

    def segments(self) -> list[Segment]:
        """All segments, oldest first."""
        query = select(sync_segments).order_by(sync_segments.c.number)
        return [Segment(**row) for row in self._database.read(query)]

    def archived(self, message_id: bytes) -> ArchivedRecord | None:
        """A record in the archive."""
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


def _add(connection: Connection, row: RowMapping) -> None:
    """Adds a message's job unless another worker did, or the message was reorged away.

    A message that can't be decoded is not followed and does not hold up others; its deliveries end with that error.
    """
    mine = (attempts.c.message_id == row["message_id"]) & (attempts.c.attempt == row["attempt"])
    found = connection.execute(select(attempts).where(mine)).mappings().first()
    if found is not None:
        with suppress(EnvelopeError):
            message = decode_envelope(row["envelope"]).message
            add_job(connection, SyncJob.of(PrimaryRecord.of(message, attempt_from(found), row["observed_at"])))


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
