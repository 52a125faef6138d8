"""Copied retry requests in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import exists, func, insert, select, update

from bridge.protocol.retry_requests import RetryRequest
from bridge.records.retries import RetryJob, RetryState
from bridge.store.sql import rows
from bridge.store.sql.database import Database
from bridge.store.sql.tables import retry_cursor, retry_jobs

_READER = "bridge"
_JOBS = "retry jobs"


class SqlRetryJobs:
    """See `bridge.records.retries.RetryJobs`."""

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
        ready = (retry_jobs.c.state == RetryState.SENDING) | (
            (retry_jobs.c.state == RetryState.OPEN) & (retry_jobs.c.available_at <= now)
        )
        earlier = retry_jobs.alias()
        has_earlier = exists().where(
            earlier.c.message_id == retry_jobs.c.message_id,
            earlier.c.state.in_([RetryState.OPEN, RetryState.SENDING]),
            earlier.c.job_id < retry_jobs.c.job_id,
        )
        query = select(retry_jobs).where(ready, ~has_earlier).order_by(retry_jobs.c.job_id).limit(limit)
        with self._database.reading() as connection:
            return [rows.job_from(row) for row in connection.execute(query).mappings()]

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
