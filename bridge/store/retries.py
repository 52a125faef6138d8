"""Copied retry requests in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, exists, func, insert, select, update

from bridge.domain.retries import Exceeded, HeldRetries, RetryBudget, RetryJob, RetryLimits, RetryPayment, RetryState
from bridge.protocol.retry_requests import RetryRequest
from bridge.store import rows
from bridge.store.database import Database
from bridge.store.tables import retry_cursor, retry_jobs, retry_payments

_READER = "bridge"
_JOBS = "retry jobs"
_PAYMENTS = "retry payments"

_EARLIER = retry_jobs.alias()
_DUE = (  # asked with each look at the jobs: it is put together once, since that costs more than to run it
    select(retry_jobs)
    .where(
        (retry_jobs.c.state == RetryState.SENDING)
        | ((retry_jobs.c.state == RetryState.OPEN) & (retry_jobs.c.available_at <= bindparam("now"))),
        ~exists().where(
            _EARLIER.c.message_id == retry_jobs.c.message_id,
            _EARLIER.c.state.in_([RetryState.OPEN, RetryState.SENDING]),
            _EARLIER.c.job_id < retry_jobs.c.job_id,
        ),
    )
    .order_by(retry_jobs.c.job_id)
    .limit(bindparam("most"))
)


class SqlRetryJobs:
    """See `bridge.domain.retries.RetryJobs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cursor(self) -> int:
        with self._database.reading() as connection:
            return connection.execute(select(retry_cursor.c.sequence)).scalar() or 0

    def copy(self, requests: Sequence[RetryRequest], cursor: int, now: float) -> int:
        new = 0
        with self._database.transaction(exclusive=_JOBS) as connection:
            for request in requests:
                job = RetryJob(request=request, available_at=now)
                known = select(retry_jobs.c.job_id).where(
                    retry_jobs.c.message_id == request.message_id,
                    retry_jobs.c.attempt == request.attempt,
                    retry_jobs.c.generation == request.generation,
                )
                if connection.execute(known).first() is None:
                    connection.execute(insert(retry_jobs).values(**rows.job_row(job)))
                    new += 1
            if connection.execute(update(retry_cursor).values(sequence=cursor)).rowcount == 0:
                connection.execute(insert(retry_cursor).values(reader=_READER, sequence=cursor))
        return new

    def due(self, now: float, limit: int) -> list[RetryJob]:
        with self._database.reading() as connection:
            found = connection.execute(_DUE, {"now": now, "most": limit}).mappings()
            return [rows.job_from(row) for row in found]

    def save(self, job: RetryJob, *, expected: RetryState) -> bool:
        message_id, attempt, generation = job.key
        with self._database.transaction(exclusive=_JOBS) as connection:
            if job.state is RetryState.SENDING:
                sending = select(retry_jobs.c.attempt, retry_jobs.c.generation).where(
                    retry_jobs.c.message_id == message_id, retry_jobs.c.state == RetryState.SENDING
                )
                if any(tuple(row) != (attempt, generation) for row in connection.execute(sending)):
                    return False
            mine = (
                (retry_jobs.c.message_id == message_id)
                & (retry_jobs.c.attempt == attempt)
                & (retry_jobs.c.generation == generation)
                & (retry_jobs.c.state == expected)
            )
            return connection.execute(update(retry_jobs).where(mine).values(**rows.job_row(job))).rowcount == 1

    def jobs(self, message_id: bytes) -> list[RetryJob]:
        query = select(retry_jobs).where(retry_jobs.c.message_id == message_id).order_by(retry_jobs.c.job_id)
        with self._database.reading() as connection:
            return [rows.job_from(row) for row in connection.execute(query).mappings()]

    def counts(self) -> dict[RetryState, int]:
        query = select(retry_jobs.c.state, func.count()).group_by(retry_jobs.c.state)
        with self._database.reading() as connection:
            return {RetryState(state): count for state, count in connection.execute(query)}

    def reopen(self, message_id: bytes, attempt: int, why: str, now: float) -> None:
        of_attempt = (retry_jobs.c.message_id == message_id) & (retry_jobs.c.attempt == attempt)
        newest = select(retry_jobs).where(of_attempt).order_by(retry_jobs.c.job_id.desc()).limit(1).with_for_update()
        with self._database.transaction(exclusive=_JOBS) as connection:
            row = connection.execute(newest).mappings().first()
            if row is None:
                raise KeyError(attempt)
            job = rows.job_from(row)
            if job.state is RetryState.DEAD:
                mine = retry_jobs.c.job_id == row["job_id"]
                connection.execute(update(retry_jobs).where(mine).values(**rows.job_row(job.reopened(why, now))))

    def dead(self, limit: int) -> list[RetryJob]:
        query = select(retry_jobs).where(retry_jobs.c.state == RetryState.DEAD)
        with self._database.reading() as connection:
            found = connection.execute(query.order_by(retry_jobs.c.job_id.desc()).limit(limit)).mappings()
            return [rows.job_from(row) for row in found]

    def held(self) -> list[HeldRetries]:
        lane = (retry_jobs.c.source_chain, retry_jobs.c.destination_chain)
        query = select(
            *lane,
            func.count().filter(retry_jobs.c.state == RetryState.DEAD).label("dead"),
            *(func.count().filter(retry_jobs.c.held_by == budget).label(budget) for budget in RetryBudget),
        )
        with self._database.reading() as connection:
            return [
                HeldRetries(
                    source_chain=row["source_chain"],
                    destination_chain=row["destination_chain"],
                    dead=row["dead"],
                    held={budget: row[budget] for budget in RetryBudget},
                )
                for row in connection.execute(query.group_by(*lane).order_by(*lane)).mappings()
            ]

    def commit(self, payment: RetryPayment, limits: RetryLimits) -> Exceeded | None:
        same_message = retry_payments.c.message_id == payment.message_id
        same_attempt = same_message & (retry_payments.c.attempt == payment.attempt)
        same_lane = (retry_payments.c.source_chain == payment.source_chain) & (
            retry_payments.c.destination_chain == payment.destination_chain
        )
        wei = select(retry_payments.c.wei).where(~same_attempt)
        with self._database.transaction(exclusive=_PAYMENTS) as connection:
            of_message = map(int, connection.execute(wei.where(same_message)).scalars())
            today = wei.where(same_lane, retry_payments.c.at >= payment.day)
            of_lane = [] if limits.lane is None else map(int, connection.execute(today).scalars())
            exceeded = limits.exceeded_by(payment, list(of_message), list(of_lane))
            if exceeded is None:
                connection.execute(delete(retry_payments).where(same_attempt))
                connection.execute(insert(retry_payments).values(**rows.payment_row(payment)))
        return exceeded

    def withdraw(self, message_id: bytes, attempt: int) -> None:
        paid = (retry_payments.c.message_id == message_id) & (retry_payments.c.attempt == attempt)
        with self._database.transaction(exclusive=_PAYMENTS) as connection:
            connection.execute(delete(retry_payments).where(paid))
