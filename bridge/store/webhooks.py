"""Deliveries of webhooks in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    delete,
    exists,
    func,
    select,
    update,
)

from bridge.domain.figures import Counted
from bridge.domain.webhooks import StillPendingError, WebhookDelivery, WebhookFigures, WebhookState
from bridge.store.counters import add_counts
from bridge.store.database import Database, insert_into
from bridge.store.tables import METADATA

webhook_deliveries = Table(
    "webhook_deliveries",
    METADATA,
    Column("id", String, primary_key=True),
    Column("target", String, nullable=False),
    Column("key", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("event", String, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("state", String, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_at", Double, nullable=False),
    Column("claimed_until", Double, nullable=False),
    Column("ended_at", Double),
    Column("error", Text, nullable=False),
    Index(None, "target", "state", "next_at"),
    Index(None, "target", "key", "version"),
    Index(None, "version"),
    Index(None, "ended_at"),
)

_EXCLUSIVE: Final = "webhooks"
_ROW: Final = webhook_deliveries.c


class Webhooks:
    """Deliveries of webhooks. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, deliveries: Sequence[WebhookDelivery]) -> None:
        """Adds those that are not there yet."""
        if deliveries:
            with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
                added = insert_into(connection, webhook_deliveries).on_conflict_do_nothing()
                connection.execute(added, [asdict(one) for one in deliveries])

    def claim(self, target: str, *, now: float, lease: float, limit: int) -> list[WebhookDelivery]:
        """The oldest deliveries that are due; of each key only the oldest pending one, so that later ones wait for it.

        Args:
            target: whose.
            now: Unix seconds.
            lease: seconds for which no other worker gets them.
            limit: how many at most.
        """
        older = webhook_deliveries.alias()
        waits = exists().where(
            older.c.target == _ROW.target,
            older.c.key == _ROW.key,
            older.c.version < _ROW.version,
            older.c.state == WebhookState.PENDING,
        )
        due = (_ROW.target == target, _ROW.state == WebhookState.PENDING, _ROW.next_at <= now)
        query = select(webhook_deliveries).where(*due, _ROW.claimed_until <= now, ~waits)
        query = query.order_by(_ROW.version).limit(limit)
        if not self._database.read(query):
            return []
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            found = connection.execute(query).mappings().all()
            claimed = update(webhook_deliveries).where(_ROW.id.in_([row["id"] for row in found]))
            connection.execute(claimed.values(claimed_until=now + lease))
        return [_delivery({**row, "claimed_until": now + lease}) for row in found]

    def delivered(self, claimed: WebhookDelivery, now: float) -> None:
        """The target has it. Changes nothing if another worker has claimed it since."""
        self._finish(claimed, state=WebhookState.DELIVERED, ended_at=now)

    def failed(self, claimed: WebhookDelivery, error: str, now: float, next_at: float | None) -> None:
        """A try failed; None: it was the last one, and the delivery is DEAD."""
        end = {"state": WebhookState.DEAD, "ended_at": now} if next_at is None else {"next_at": next_at}
        self._finish(claimed, error=error, tries=claimed.tries + 1, **end)

    def retire(self, targets: Collection[str], now: float) -> int:
        """Ends as DEAD what is pending for other targets; how many."""
        gone = (_ROW.state == WebhookState.PENDING, _ROW.target.not_in(list(targets)))
        if self._database.first(select(_ROW.id).where(*gone).limit(1)) is None:
            return 0
        values = {"state": WebhookState.DEAD, "ended_at": now, "error": "the settings name no such target any more"}
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            return connection.execute(update(webhook_deliveries).where(*gone).values(**values)).rowcount

    def redeliver(self, delivery_id: str, now: float) -> WebhookDelivery:
        """Makes a delivery that has ended pending, with all its tries.

        Raises:
            KeyError: there is none.
            StillPendingError: it is pending.
        """
        this, ended = _ROW.id == delivery_id, _ROW.state != WebhookState.PENDING
        values: dict[str, Any] = {"state": WebhookState.PENDING, "tries": 0, "next_at": now, "claimed_until": 0.0}
        change = update(webhook_deliveries).where(this, ended).values(**values, ended_at=None)
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            changed = connection.execute(change).rowcount
            row = connection.execute(select(webhook_deliveries).where(this)).mappings().first()
        if row is None:
            raise KeyError(delivery_id)
        if not changed:
            raise StillPendingError(delivery_id)
        return _delivery(row)

    def delivery(self, delivery_id: str) -> WebhookDelivery | None:
        """One of them."""
        row = self._database.first(select(webhook_deliveries).where(_ROW.id == delivery_id))
        return None if row is None else _delivery(row)

    def listed(
        self,
        *,
        state: WebhookState | None = None,
        target: str | None = None,
        key: str | None = None,
        before: int | None = None,
        limit: int,
    ) -> list[WebhookDelivery]:
        """The newest deliveries first, as far as they pass; those of versions below `before`."""
        wanted = {_ROW.state: state, _ROW.target: target, _ROW.key: key}
        passing = [column == value for column, value in wanted.items() if value is not None]
        if before is not None:
            passing.append(_ROW.version < before)
        query = select(webhook_deliveries).where(*passing).order_by(_ROW.version.desc(), _ROW.target).limit(limit)
        return [_delivery(row) for row in self._database.read(query)]

    def prune(self, before: float, limit: int = 1_000) -> int:
        """Forgets deliveries that ended before that time (Unix seconds), so many at most; how many."""
        old = select(_ROW.id).where(_ROW.ended_at < before).order_by(_ROW.ended_at).limit(limit)
        if self._database.first(old) is None:
            return 0
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            return connection.execute(delete(webhook_deliveries).where(_ROW.id.in_(old))).rowcount

    def figures(self) -> Mapping[str, WebhookFigures]:
        """How the deliveries of each target are."""
        pending, dead = (
            func.count().filter(_ROW.state == state) for state in (WebhookState.PENDING, WebhookState.DEAD)
        )
        oldest = func.min(_ROW.created_at).filter(_ROW.state == WebhookState.PENDING)
        query = select(_ROW.target, pending, oldest, dead).group_by(_ROW.target)
        return {
            target: WebhookFigures(pending=waiting, oldest=since, dead=given_up)
            for target, waiting, since, given_up in self._database.rows(query)
        }

    def _finish(self, claimed: WebhookDelivery, **values: Any) -> None:
        """Ends a claim, unless it has ended, and counts how."""
        mine = (_ROW.id == claimed.id, _ROW.state == WebhookState.PENDING, _ROW.claimed_until == claimed.claimed_until)
        result = "delivered" if values.get("state") is WebhookState.DELIVERED else "failed"
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            done = connection.execute(update(webhook_deliveries).where(*mine).values(**values, claimed_until=0.0))
            if done.rowcount:
                add_counts(connection, {(Counted.WEBHOOK, (claimed.target, result)): 1})


def _delivery(row: RowMapping | Mapping[str, Any]) -> WebhookDelivery:
    return WebhookDelivery(**{**row, "state": WebhookState(row["state"])})
