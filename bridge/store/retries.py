"""Retry requests that were copied, and what retries pay, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import delete, func, insert, select, update

from bridge.protocol.retry_requests import RetryRequest
from bridge.records.jobs import RetryJob, RetryState
from bridge.records.retries import BlockedRetries, Exceeded, RetryBudget, RetryBudgets, RetryPayment
from bridge.store.database import Database
from bridge.store.jobs import add_job
from bridge.store.tables import jobs, retry_cursor, retry_payments

_READER = "bridge"
_JOBS = "retry jobs"
_PAYMENTS = "retry payments"


class Retries:
    """Where requests are copied to, as jobs, and what retries pay. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cursor(self) -> int:
        """The sequence of the last request copied, 0 before the first."""
        return self._database.scalar(select(retry_cursor.c.sequence)) or 0

    def copy(self, requests: Sequence[RetryRequest], cursor: int, now: float) -> int:
        """Keeps requests that are new, and moves the cursor to that sequence; returns how many were new."""
        with self._database.transaction(exclusive=_JOBS) as connection:
            new = sum(add_job(connection, RetryJob.of(request, now)) for request in requests)
            if connection.execute(update(retry_cursor).values(sequence=cursor)).rowcount == 0:
                connection.execute(insert(retry_cursor).values(reader=_READER, sequence=cursor))
        return new

    def blocked(self) -> list[BlockedRetries]:
        """What budgets keep from being made, for each lane that ever had a retry."""
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

    def reserve(self, payment: RetryPayment, budgets: RetryBudgets) -> Exceeded | None:
        """Keeps what a retry is to pay, unless a budget has no room for it: then says which.

        The same attempt reserved again, after a crash or at another price, takes the place of what it was.
        """
        same_message = retry_payments.c.message_id == payment.message_id
        same_attempt = same_message & (retry_payments.c.attempt == payment.attempt)
        same_lane = (retry_payments.c.source_chain == payment.source_chain) & (
            retry_payments.c.destination_chain == payment.destination_chain
        )
        wei = select(retry_payments.c.wei).where(~same_attempt)
        with self._database.transaction(exclusive=_PAYMENTS) as connection:
            of_message = map(int, connection.execute(wei.where(same_message)).scalars())
            today = wei.where(same_lane, retry_payments.c.at >= payment.day)
            of_lane = [] if budgets.lane is None else map(int, connection.execute(today).scalars())
            exceeded = budgets.exceeded_by(payment, list(of_message), list(of_lane))
            if exceeded is None:
                connection.execute(delete(retry_payments).where(same_attempt))
                connection.execute(insert(retry_payments).values(**{**asdict(payment), "wei": str(payment.wei)}))
        return exceeded

    def withdraw(self, message_id: bytes, attempt: int) -> None:
        """Forgets what a retry that was not made was to pay."""
        paid = (retry_payments.c.message_id == message_id) & (retry_payments.c.attempt == attempt)
        with self._database.transaction(exclusive=_PAYMENTS) as connection:
            connection.execute(delete(retry_payments).where(paid))
