"""Sums over the store in SQL."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, case, func, null, select

from bridge.domain.failures import FailureKind
from bridge.domain.figures import (
    LATENCY_BOUNDS,
    DeliverySum,
    FailureSum,
    SlotSum,
    TransactionOutcome,
    TransactionSum,
    Tried,
)
from bridge.domain.outbox import OutboxState
from bridge.domain.transactions import SlotState
from bridge.protocol.gmps import Gmp
from bridge.store.database import Database
from bridge.store.tables import outbox, outbox_failures, signed_versions, slot_parts, slots

_IDS_IN_A_STATEMENT: Final = 500

_QUEUE = (outbox.c.source_chain, outbox.c.destination_chain, outbox.c.gmp)


class SqlFigures:
    """See `bridge.domain.figures.Figures`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def deliveries(self) -> list[DeliverySum]:
        took = outbox.c.delivered_at - outbox.c.created_at
        within = [func.count().filter(took <= bound) for bound in LATENCY_BOUNDS]
        query = (
            select(*_QUEUE, func.count(), func.sum(took), *within)
            .where(outbox.c.state == OutboxState.DELIVERED)
            .group_by(*_QUEUE)
            .order_by(*_QUEUE)
        )
        return [
            DeliverySum(
                source_chain=source,
                destination_chain=destination,
                gmp=Gmp(gmp),
                count=count,
                within=tuple(counts),
                seconds=seconds,
            )
            for source, destination, gmp, count, seconds, *counts in self._database.rows(query)
        ]

    def failures(self) -> list[FailureSum]:
        key = (*_QUEUE, outbox_failures.c.kind, outbox_failures.c.code)
        query = (
            select(*key, func.count())
            .join(outbox, outbox.c.event_id == outbox_failures.c.event_id)
            .group_by(*key)
            .order_by(*key)
        )
        return [
            FailureSum(
                source_chain=source,
                destination_chain=destination,
                gmp=Gmp(gmp),
                kind=FailureKind(kind),
                code=code,
                count=count,
            )
            for source, destination, gmp, kind, code, count in self._database.rows(query)
        ]

    def slots(self) -> list[SlotSum]:
        key = (slots.c.chain_id, slots.c.account, slots.c.state)
        query = select(*key, func.count(), func.min(slots.c.reserved_at)).group_by(*key).order_by(*key)
        return [
            SlotSum(chain_id=chain_id, account=account, state=SlotState(state), count=count, oldest=oldest)
            for chain_id, account, state, count, oldest in self._database.rows(query)
        ]

    def transactions(self) -> list[TransactionSum]:
        outcome = _outcome()
        key = (slots.c.chain_id, slots.c.account, outcome)
        included = (
            select(*key, func.count())
            .outerjoin(
                signed_versions,
                (signed_versions.c.slot_id == slots.c.slot_id) & (signed_versions.c.hash == slots.c.included_hash),
            )
            .where(slots.c.state.in_([SlotState.INCLUDED, SlotState.FINAL, SlotState.USED_EXTERNALLY]))
            .group_by(*key)
            .order_by(*key)
        )
        return [
            TransactionSum(chain_id=chain_id, account=account, outcome=TransactionOutcome(ended), count=count)
            for chain_id, account, ended, count in self._database.rows(included)
        ]

    def recent(self, since: float) -> list[Tried]:
        columns = (outbox.c.gmp, outbox.c.destination_chain, outbox.c.message_id)
        failed = (
            select(*columns, outbox_failures.c.failed_at, outbox_failures.c.code)
            .join(outbox, outbox.c.event_id == outbox_failures.c.event_id)
            .where(outbox_failures.c.failed_at > since)
        )
        delivered = select(*columns, outbox.c.delivered_at, null()).where(outbox.c.delivered_at > since)
        with self._database.reading() as connection:
            rows = [*connection.execute(failed), *connection.execute(delivered)]
        tried = [
            Tried(gmp=Gmp(gmp), destination_chain=destination, message_id=message_id, at=at, code=code)
            for gmp, destination, message_id, at, code in rows
        ]
        return sorted(tried, key=lambda one: one.at)

    def attested(self, message_ids: Collection[bytes]) -> dict[tuple[bytes, Gmp], float]:
        key = (outbox.c.message_id, outbox.c.gmp)
        chosen = select(*key, func.min(slots.c.reserved_at)).group_by(*key)
        of_alone = chosen.join(slots, slots.c.transaction_key == outbox.c.event_id)
        of_shared = chosen.join(slot_parts, slot_parts.c.transaction_key == outbox.c.event_id).join(
            slots, slots.c.slot_id == slot_parts.c.slot_id
        )
        ids = sorted(message_ids)
        first: dict[tuple[bytes, Gmp], float] = {}
        with self._database.reading() as connection:
            for start in range(0, len(ids), _IDS_IN_A_STATEMENT):
                these = outbox.c.message_id.in_(ids[start : start + _IDS_IN_A_STATEMENT])
                for query in (of_alone, of_shared):
                    for message_id, gmp, at in connection.execute(query.where(these)):
                        of = (message_id, Gmp(gmp))
                        first[of] = min(first.get(of, at), at)
        return first


def _outcome() -> ColumnElement[str]:
    return case(
        (slots.c.state == SlotState.USED_EXTERNALLY, TransactionOutcome.USED_EXTERNALLY.value),
        (signed_versions.c.is_noop, TransactionOutcome.NOOP.value),
        (slots.c.succeeded, TransactionOutcome.SUCCEEDED.value),
        else_=TransactionOutcome.REVERTED.value,
    )
