"""Retry requests that were copied, in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select

from bridge.protocol.retry_requests import RetryRequest
from bridge.records.jobs import RetryJob, RetryState
from bridge.records.retries import BlockedRetries, RetryBudget
from bridge.store.database import Database
from bridge.store.jobs import add_job
from bridge.store.positions import RETRY_REQUESTS, move, position
from bridge.store.tables import jobs

_JOBS = "retry jobs"


class Retries:
    """Stores copied retry requests as jobs. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cursor(self) -> int:
        """Returns the sequence of the last copied request, or 0."""
        with self._database.reading() as connection:
            return position(connection, RETRY_REQUESTS) or 0

    def copy(self, requests: Sequence[RetryRequest], cursor: int, now: float) -> int:
        """Keeps requests that are new, and moves the cursor to that sequence; returns how many were new."""
        with self._database.transaction(exclusive=_JOBS) as connection:
            new = sum(add_job(connection, RetryJob.of(request, now)) for request in requests)
            move(connection, RETRY_REQUESTS, cursor)
        return new

    def blocked(self) -> list[BlockedRetries]:
        """Returns the retries that budgets block, for each lane that ever had a retry."""
        lane = (jobs.c.source_chain, jobs.c.destination_chain)
        query = select(
            *lane,
            func.count().filter(jobs.c.state == RetryState.DEAD).label("dead"),
            *(func.count().filter(jobs.c.blocked_by == budget).label(budget) for budget in RetryBudget),
        )
        query = query.where(jobs.c.queue == RetryJob.QUEUE)
        return [
            BlockedRetries(
                source_chain=row["source_chain"],
                destination_chain=row["destination_chain"],
                dead=row["dead"],
                blocked={budget: row[budget] for budget in RetryBudget},
            )
            for row in self._database.read(query.group_by(*lane).order_by(*lane))
        ]
