"""The job queues, in one table. Fields that only one queue uses are stored as JSON in one column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

import orjson
from sqlalchemy import (
    Connection,
    Double,
    Executable,
    RowMapping,
    Select,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    update,
)

from bridge.protocol.gmps import bits_from_gmps, gmps_from_bits
from bridge.protocol.lanes import Lane
from bridge.protocol.retry_requests import COLUMNS, RetryRequest
from bridge.records.finality_records import PrimaryRecord
from bridge.records.jobs import (
    FIRST_LOOK,
    ExecutionJob,
    ExecutionState,
    Job,
    JobT,
    Queue,
    RetryJob,
    RetryState,
    SyncJob,
    SyncState,
)
from bridge.records.observations import BlockRef
from bridge.store.database import Database, insert_into
from bridge.store.positions import RETRY_REQUESTS, move, position
from bridge.store.tables import attempts, jobs, messages, outbox

IS_THERE: Final = or_(jobs.c.source_block.is_(None), exists().where(attempts.c.message_id == jobs.c.message_id))
"""Whether the message is on its source, if the job depends on that: a reorg may have removed it."""

_OTHER = jobs.alias()
_DUE = (  # used by each poll and built once, since building costs more than running
    select(jobs)
    .where(
        jobs.c.queue == bindparam("queue"),
        jobs.c.finished_at.is_(None),
        jobs.c.available_at <= bindparam("now"),
        jobs.c.destination_chain.not_in(bindparam("without", expanding=True)),
        IS_THERE,
        ~exists().where(
            _OTHER.c.queue == jobs.c.queue,
            _OTHER.c.message_id == jobs.c.message_id,
            _OTHER.c.finished_at.is_(None),
            _OTHER.c.job_id < jobs.c.job_id,
        ),
    )
    .order_by(jobs.c.available_at, jobs.c.job_id)
    .limit(bindparam("most"))
)
_EXECUTIONS = (jobs.c.queue == Queue.EXECUTE) & jobs.c.message_id.in_(bindparam("message_ids", expanding=True))


class Jobs:
    """Stores jobs. Every method is one transaction.

    `Outbox.finish` and `FinalityRecords.collect` also add jobs, in their own transactions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self, kind: type[JobT], now: float, limit: int, *, without: Collection[int] = ()) -> list[JobT]:
        """Returns due jobs, most overdue first.

        A queue performs one job per message at a time, oldest first. A job that depends on a source block is
        skipped while its message is reorged away.
        """
        terms = {"queue": kind.QUEUE, "now": now, "most": limit, "without": sorted(without)}
        return read_jobs(self._database, kind, _DUE, terms)

    def add(self, job: Job) -> bool:
        """Adds a job; returns False if its queue already has a job with the same message and name."""
        with self._database.transaction() as connection:
            return add_job(connection, job)

    def save(self, changed: Job, *, fence: int) -> bool:
        """Writes a job, unless its fence has changed or another retry of its message is SENDING.

        Returns whether it was written.
        """
        same = (jobs.c.queue == changed.QUEUE) & (jobs.c.message_id == changed.message_id)
        mine = same & (jobs.c.name == changed.name) & (jobs.c.fence == fence)
        sends = changed.state is RetryState.SENDING
        if sends:
            mine &= ~exists().where(
                _OTHER.c.queue == jobs.c.queue,
                _OTHER.c.message_id == jobs.c.message_id,
                _OTHER.c.job_id != jobs.c.job_id,
                _OTHER.c.state == changed.state,
            )
        with self._database.transaction(exclusive="jobs that send" if sends else None) as connection:
            return connection.execute(update(jobs).where(mine).values(**_row(changed))).rowcount == 1

    def request_cursor(self) -> int:
        """Returns the sequence of the last retry request that was copied from the index, or 0."""
        with self._database.reading() as connection:
            return position(connection, RETRY_REQUESTS) or 0

    def copy_requests(self, requests: Sequence[RetryRequest], cursor: int, now: float) -> int:
        """Adds jobs for new retry requests, and moves the cursor; returns the number of new requests."""
        with self._database.transaction(exclusive=RETRY_REQUESTS) as connection:
            new = sum(add_job(connection, RetryJob.of(request, now)) for request in requests)
            move(connection, RETRY_REQUESTS, cursor)
        return new

    def forget_retries(self, before: float, limit: int) -> int:
        """Deletes at most `limit` retries that ended before `before` (Unix seconds).

        Returns the number of deleted retries.
        """
        ended = (jobs.c.queue == RetryJob.QUEUE) & (jobs.c.finished_at < before)
        oldest = select(jobs.c.job_id).where(ended).order_by(jobs.c.job_id).limit(limit)
        with self._database.transaction() as connection:
            return connection.execute(delete(jobs).where(jobs.c.job_id.in_(oldest))).rowcount

    def of_message(self, kind: type[JobT], message_id: bytes) -> list[JobT]:
        """Returns a message's jobs, oldest first."""
        query = select(jobs).where(jobs.c.queue == kind.QUEUE, jobs.c.message_id == message_id)
        return read_jobs(self._database, kind, query.order_by(jobs.c.job_id))

    def newest(self, kind: type[JobT], message_id: bytes) -> JobT | None:
        """Returns a message's newest job of one kind, or None."""
        found = self.of_message(kind, message_id)
        return found[-1] if found else None

    def of_change(self, record: PrimaryRecord) -> list[SyncJob]:
        """Returns the jobs of all messages that carry a record's state change, by destination."""
        query = select(jobs).where(
            jobs.c.source_chain == record.source_chain,
            jobs.c.source_block == record.block.number,  # empty for jobs of other queues
        )
        found = read_jobs(self._database, SyncJob, query.order_by(jobs.c.destination_chain, jobs.c.job_id))
        return [job for job in found if job.record.change_id == record.change_id]

    def listed(self, kind: type[JobT], states: Collection[StrEnum], limit: int) -> list[JobT]:
        """Returns jobs in the given states, longest waiting first."""
        query = select(jobs).where(jobs.c.queue == kind.QUEUE, jobs.c.state.in_(sorted(states)))
        return read_jobs(self._database, kind, query.order_by(jobs.c.since, jobs.c.job_id).limit(limit))

    def counts(self, kind: type[Job]) -> Mapping[Lane, Mapping[str, int]]:
        """Counts the jobs of each lane by state."""
        key = (jobs.c.source_chain, jobs.c.destination_chain, jobs.c.state)
        query = select(*key, func.count()).where(jobs.c.queue == kind.QUEUE).group_by(*key)
        found: dict[Lane, dict[str, int]] = {}
        for source, destination, state, count in self._database.rows(query):
            found.setdefault(Lane(source, destination), {})[state] = count
        return found

    def await_execution(self, message_id: bytes, now: float) -> None:
        """Adds a job for a message that was found to be executable. Ignores messages that were not observed."""
        source = select(messages.c.message_id, messages.c.source_chain, messages.c.destination_chain)
        with self._database.transaction() as connection:
            connection.execute(_await(connection, source.where(messages.c.message_id == message_id)), {"now": now})


def add_job(connection: Connection, job: Job) -> bool:
    """Adds a job unless its queue already has one with the same message and name. Returns whether it was added."""
    lane = {"source_chain": job.lane.source_chain, "destination_chain": job.lane.destination_chain}
    key = {"queue": job.QUEUE, "message_id": job.message_id, "name": job.name}
    added = insert_into(connection, jobs).values(**key, **lane, **_row(job)).on_conflict_do_nothing()
    return connection.execute(added.returning(jobs.c.job_id)).first() is not None


def await_executions(connection: Connection, event_ids: Sequence[str], now: float) -> None:
    """Adds execution jobs for deliveries that did not execute their messages, in a fixed order to avoid deadlocks."""
    if event_ids:
        source = select(outbox.c.message_id, outbox.c.source_chain, outbox.c.destination_chain).distinct()
        these = source.where(outbox.c.event_id.in_(bindparam("event_ids", expanding=True)))
        statement = _await(connection, these.order_by(outbox.c.message_id))
        connection.execute(statement, {"event_ids": list(event_ids), "now": now})


def end_executions(connection: Connection, message_ids: Collection[bytes], now: float) -> None:
    """Settles execution jobs whose message was executed by a delivery; the delivery's finality is tracked elsewhere."""
    if message_ids:
        ended = {"state": ExecutionState.ENDED.value, "outcome": "", "finished_at": now, "fence": jobs.c.fence + 1}
        statement = update(jobs).where(_EXECUTIONS).values(seen_number=null(), seen_hash=null(), **ended)
        connection.execute(statement, {"message_ids": sorted(message_ids)})


def forget_executions(connection: Connection, message_ids: Collection[bytes]) -> None:
    """Deletes execution jobs that have ended."""
    ended = _EXECUTIONS & jobs.c.finished_at.is_not(None)
    connection.execute(delete(jobs).where(ended), {"message_ids": sorted(message_ids)})


def take_back_jobs(connection: Connection, chain_id: int, last_good: int, now: float) -> None:
    """Reopens the jobs that depended on blocks above `last_good` of a chain, and increments their fences."""
    lost = (jobs.c.source_chain == chain_id) & (jobs.c.source_block > last_good)
    gone = (jobs.c.destination_chain == chain_id) & (jobs.c.seen_number > last_good)
    connection.execute(
        update(jobs)
        .where(lost | gone)
        .values(
            state=case(
                (jobs.c.finished_at.is_(None), jobs.c.state),
                (jobs.c.queue == Queue.EXECUTE, ExecutionState.WAITING.value),
                else_=SyncState.PENDING.value,
            ),
            seen_number=None,
            seen_hash=None,
            finished_at=None,
            available_at=now,
            fence=jobs.c.fence + 1,
        )
    )


def _await(connection: Connection, source: Select[Any]) -> Executable:
    """Inserts jobs for the selected messages.

    An existing job becomes due, and its fence is incremented so that a worker's pending write fails.
    """
    now = bindparam("now", type_=Double)
    values = {
        "queue": literal(Queue.EXECUTE.value),
        "name": literal(""),
        "state": literal(ExecutionState.WAITING.value),
        "since": now,
        "available_at": now + FIRST_LOOK,
        "tries": literal(0),
        "fence": literal(0),
        "outcome": literal(""),
        "detail": literal('{"round":0,"was_sent":false}'),
    }
    names = [jobs.c.message_id, jobs.c.source_chain, jobs.c.destination_chain, *(jobs.c[name] for name in values)]
    goes_on = jobs.c.finished_at.is_(None)
    changes = {
        "state": case((goes_on, jobs.c.state), else_=ExecutionState.WAITING.value),
        "since": case((goes_on, jobs.c.since), else_=now),
        "available_at": now + FIRST_LOOK,
        "fence": jobs.c.fence + 1,
        "seen_number": case((goes_on, jobs.c.seen_number)),
        "seen_hash": case((goes_on, jobs.c.seen_hash)),
        "finished_at": null(),
    }
    added = insert_into(connection, jobs).from_select(names, source.add_columns(*values.values()))
    return added.on_conflict_do_update(index_elements=[jobs.c.queue, jobs.c.message_id, jobs.c.name], set_=changes)


def read_jobs(
    database: Database, kind: type[JobT], query: Select[Any], values: Mapping[str, Any] | None = None
) -> list[JobT]:
    """Returns the jobs selected by a query of all columns of `jobs`."""
    return [cast(JobT, _JOBS[kind.QUEUE](row)) for row in database.read(query, values)]


def _row(job: Job) -> dict[str, Any]:
    """Returns a job's mutable columns."""
    return {
        "state": job.state.value,
        "since": job.since,
        "available_at": job.available_at,
        "tries": job.tries,
        "fence": job.fence,
        "outcome": job.outcome,
        "seen_number": job.seen and job.seen.number,
        "seen_hash": job.seen and job.seen.hash,
        "finished_at": job.finished_at,
        "source_block": job.record.block.number if isinstance(job, SyncJob) else None,
        "detail": orjson.dumps(_detail(job), default=bytes.hex).decode(),
    }


def _detail(job: Job) -> dict[str, Any]:
    match job:
        case RetryJob(request=request):
            return {
                **{column: getattr(request, column) for column in COLUMNS},
                "missing_gmps": bits_from_gmps(request.missing_gmps),
                "received_gmps": bits_from_gmps(request.received_gmps),
                "gmps": bits_from_gmps(job.gmps),
                "wanted": bits_from_gmps(job.wanted),
                "transaction_hash": job.transaction_hash,
            }
        case ExecutionJob():
            return {"round": job.round, "was_sent": job.was_sent}
        case SyncJob(record=record):
            return {
                "change_id": record.change_id,
                "block_hash": record.block.hash,
                "transaction_hash": record.transaction_hash,
                "signer": record.signer,
                "signature": record.signature,
                "lock_until": job.lock_until,
            }
    raise TypeError(f"{job!r} has no job queue")


def _common(row: RowMapping) -> dict[str, Any]:
    """Reads the fields that all jobs have."""
    same = ("message_id", "since", "available_at", "tries", "fence", "outcome", "finished_at")
    return {
        **{name: row[name] for name in same},
        "lane": Lane(row["source_chain"], row["destination_chain"]),
        "seen": None if row["seen_hash"] is None else BlockRef(row["seen_number"], row["seen_hash"]),
    }


def _retry(row: RowMapping) -> RetryJob:
    detail = orjson.loads(row["detail"])
    sent = detail["transaction_hash"]
    return RetryJob(
        **_common(row),
        state=RetryState(row["state"]),
        request=RetryRequest.from_row({**detail, "message_id": row["message_id"]}),
        gmps=gmps_from_bits(detail["gmps"]),
        wanted=gmps_from_bits(detail["wanted"]),
        transaction_hash=bytes.fromhex(sent) if sent else None,
    )


def _execution(row: RowMapping) -> ExecutionJob:
    return ExecutionJob(**_common(row), state=ExecutionState(row["state"]), **orjson.loads(row["detail"]))


def _sync(row: RowMapping) -> SyncJob:
    detail = orjson.loads(row["detail"])
    record = PrimaryRecord(
        message_id=row["message_id"],
        change_id=bytes.fromhex(detail["change_id"]),
        source_chain=row["source_chain"],
        destination_chain=row["destination_chain"],
        block=BlockRef(row["source_block"], bytes.fromhex(detail["block_hash"])),
        transaction_hash=bytes.fromhex(detail["transaction_hash"]),
        final_at=row["since"],
        signer=detail["signer"],
        signature=bytes.fromhex(detail["signature"]),
    )
    return SyncJob(**_common(row), state=SyncState(row["state"]), record=record, lock_until=detail["lock_until"])


_JOBS: Final = {Queue.RETRY: _retry, Queue.EXECUTE: _execution, Queue.PROPAGATE: _sync}
