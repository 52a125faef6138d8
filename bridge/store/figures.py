"""Aggregates over the store."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, func, null, select

from bridge.protocol.gmps import Gmp
from bridge.records.figures import (
    SlotSum,
    Tried,
)
from bridge.records.transactions import SlotState
from bridge.store.database import Database
from bridge.store.tables import outbox, outbox_failures, slot_parts, slots


class Figures:
    """Computes aggregates. Every method is one read-only transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def slots(self) -> list[SlotSum]:
        """Counts the relayer's nonces by state."""
        key = (slots.c.chain_id, slots.c.account, slots.c.state)
        query = select(*key, func.count(), func.min(slots.c.reserved_at)).group_by(*key).order_by(*key)
        return [
            SlotSum(chain_id=chain_id, account=account, state=SlotState(state), count=count, oldest=oldest)
            for chain_id, account, state, count, oldest in self._database.rows(query)
        ]

    def recent(self, since: float) -> list[Tried]:
        """Returns every try that ended after `since` (Unix seconds), oldest first."""
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

    def attested(self) -> dict[tuple[bytes, Gmp], float]:
        """Returns when each attestation first became available (Unix seconds), by message and GMP.

        A nonce is reserved for a delivery as soon as its attestation is available. Deliveries by other relayers
        have no nonce here and are left out.
        """
        query = _by_delivery(func.min(slots.c.reserved_at))
        return {(message_id, Gmp(gmp)): at for message_id, gmp, at in self._database.rows(query)}

    def paid(self) -> dict[tuple[bytes, Gmp], int]:
        """Returns the gas cost of included deliveries on their destination, in gwei, by message and GMP.

        Reverted transactions are included. The cost of a shared transaction is divided among its deliveries by gas.
        """
        included = slots.c.state.in_([SlotState.INCLUDED, SlotState.FINAL])
        query = _by_delivery(func.sum(slot_parts.c.gwei)).where(included)
        return {(message_id, Gmp(gmp)): int(gwei) for message_id, gmp, gwei in self._database.rows(query)}


def _by_delivery(value: ColumnElement[Any]) -> Select[Any]:
    """Selects an aggregate over the nonces of each delivery, by message and GMP."""
    key = (outbox.c.message_id, outbox.c.gmp)
    parts = select(*key, value).join(slot_parts, slot_parts.c.transaction_key == outbox.c.event_id)
    return parts.join(slots, slots.c.slot_id == slot_parts.c.slot_id).group_by(*key)
