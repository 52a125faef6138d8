"""Primary finality records and heartbeats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from sqlalchemy import Connection, RowMapping, bindparam, exists, func, select

from bridge.protocol.lanes import Lane
from bridge.protocol.message import EnvelopeError, Kind, decode_envelope
from bridge.records.finality_records import LOOKED_BACK, Heartbeat, PrimaryRecord, SyncProgress
from bridge.records.jobs import UNRESOLVED, SyncJob
from bridge.store.database import Database, insert_into
from bridge.store.jobs import IS_THERE, add_job
from bridge.store.observations import attempt_from
from bridge.store.tables import attempts, heartbeats, jobs, messages, outbox

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
    )
    .order_by(messages.c.sequence)
)

# Records are kept for ever: an index of the jobs by lane and state answers the first query, one of unfinished jobs the second.
_LANE = (jobs.c.source_chain, jobs.c.destination_chain)
_RESOLVED = (
    select(*_LANE, func.count().filter(jobs.c.state.not_in(sorted(UNRESOLVED))).label("count"))
    .where(jobs.c.queue == SyncJob.QUEUE)
    .group_by(*_LANE)
    .order_by(*_LANE)
)
_WAITING = select(*_LANE, jobs.c.since).where(  # grouped by lane, SQLite would read all jobs
    jobs.c.queue == SyncJob.QUEUE, jobs.c.finished_at.is_(None), IS_THERE
)


class FinalityRecords:
    """Stores primary finality records and heartbeats. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self, kinds: frozenset[Kind], after: int) -> int:
        """Adds a `SyncJob` for each observed message of these kinds.

        This is correct because the relayer observes messages only once they are final.

        Args:
            kinds: Message kinds to follow.
            after: Result of the last call, initially 0. Earlier messages are skipped, except for the last few,
                since a reorg may have restored some.
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
        """Returns the progress of each lane that has ever had a record.

        Pending records whose message was reorged away on its source chain do not count.
        """
        rows = self._database.rows(_RESOLVED)
        resolved = {Lane(row.source_chain, row.destination_chain): row.count for row in rows}
        waiting: dict[Lane, list[float]] = defaultdict(list)
        for source, destination, since in self._database.rows(_WAITING):
            waiting[Lane(source, destination)].append(since)
        return {
            lane: SyncProgress(
                primary_final=applied + len(waiting[lane]),
                applied=applied,
                lag_seconds=max(0.0, now - min(waiting[lane], default=now)),
            )
            for lane, applied in resolved.items()
        }

    def beat(self, heartbeat: Heartbeat) -> bool:
        """Replaces the lane's heartbeat unless the given one is older. Returns whether it was replaced."""
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
        with self._database.transaction() as connection:
            written = insert_into(connection, heartbeats).values(**values)
            statement = written.on_conflict_do_update(
                index_elements=[heartbeats.c.source_chain, heartbeats.c.destination_chain],
                set_=values,
                where=heartbeats.c.at < heartbeat.at,
            )
            return connection.execute(statement.returning(heartbeats.c.at)).first() is not None

    def heartbeats(self) -> list[Heartbeat]:
        """Returns each lane's latest heartbeat."""
        query = select(heartbeats).order_by(heartbeats.c.source_chain, heartbeats.c.destination_chain)
        return [_heartbeat(row) for row in self._database.read(query)]


def _add(connection: Connection, row: RowMapping) -> None:
    """Adds a message's job unless another worker has done so, or the message was reorged away.

    A message that can't be decoded is skipped, so that it does not block others; its deliveries end with that error.
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
