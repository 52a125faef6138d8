"""The nonce ledger in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, update

from bridge.records.transactions import (
    OPEN_STATES,
    Inclusion,
    SignedVersion,
    Slot,
    SlotRequest,
    SlotState,
)
from bridge.store.sql import rows
from bridge.store.sql.database import Database
from bridge.store.sql.tables import outbox, signed_versions, slots

_OPEN = slots.c.state.in_([state.value for state in OPEN_STATES])


class SqlTransactionLedger:
    """See `bridge.records.transactions.TransactionLedger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reserve(
        self, chain_id: int, account: str, requests: Sequence[SlotRequest], *, first_nonce: int, now: float
    ) -> list[Slot | None]:
        given: list[Slot | None] = []
        with self._database.transaction(exclusive=_nonces_of(chain_id, account)) as connection:
            highest = connection.execute(select(func.max(slots.c.nonce)).where(_of(chain_id, account))).scalar()
            nonce = first_nonce if highest is None else max(first_nonce, highest + 1)
            for request in requests:
                if not _claim_is_good(connection, request):
                    given.append(None)
                    continue
                slot = _open_slot(connection, chain_id, account, request.purpose)
                if slot is None:
                    slot = _new_slot(connection, Slot.reserved(chain_id, account, nonce, request, now))
                    nonce += 1
                given.append(slot)
        return given

    def fill(self, chain_id: int, account: str, nonce: int, now: float) -> Slot:
        with self._database.transaction(exclusive=_nonces_of(chain_id, account)) as connection:
            existing = _slots(connection, select(slots).where(_of(chain_id, account), slots.c.nonce == nonce))
            return (
                existing[0] if existing else _new_slot(connection, Slot.reserved(chain_id, account, nonce, None, now))
            )

    def sign(self, slot_id: int, version: SignedVersion, *, replaces: bytes | None) -> bool:
        with self._database.transaction() as connection:
            slot = _locked_slot(connection, slot_id)
            latest = slot.latest and slot.latest.hash
            if latest != replaces or not (slot.is_open or slot.state is SlotState.TAKEN):
                return False
            _save(connection, slot.signed(version))
            row = rows.version_row(slot_id, len(slot.versions), version)
            connection.execute(insert(signed_versions).values(**row))
            return True

    def sign_all(self, versions: Sequence[tuple[int, SignedVersion]]) -> set[int]:
        wanted = dict(versions)
        reserved = slots.c.slot_id.in_(list(wanted)) & (slots.c.state == SlotState.RESERVED)
        with self._database.transaction() as connection:
            taken = connection.execute(select(slots.c.slot_id).where(reserved).with_for_update()).scalars().all()
            if taken:
                connection.execute(update(slots).where(reserved).values(state=SlotState.SIGNED.value))
                connection.execute(insert(signed_versions), [rows.version_row(key, 0, wanted[key]) for key in taken])
        return set(taken)

    def broadcast(self, slot_ids: Collection[int], now: float) -> None:
        sent = slots.c.slot_id.in_(list(slot_ids)) & slots.c.state.in_([SlotState.SIGNED, SlotState.BROADCAST])
        with self._database.transaction() as connection:
            connection.execute(update(slots).where(sent).values(state=SlotState.BROADCAST.value, broadcast_at=now))

    def include(self, inclusions: Sequence[tuple[int, Inclusion]]) -> None:
        with self._database.transaction() as connection:
            for slot_id, inclusion in sorted(inclusions, key=itemgetter(0)):
                _save(connection, _locked_slot(connection, slot_id).in_block(inclusion))

    def orphan(self, slot_id: int) -> None:
        with self._database.transaction() as connection:
            _save(connection, _locked_slot(connection, slot_id).orphaned())

    def finalise(self, slot_ids: Collection[int]) -> None:
        included = slots.c.slot_id.in_(list(slot_ids)) & (slots.c.state == SlotState.INCLUDED)
        with self._database.transaction() as connection:
            connection.execute(update(slots).where(included).values(state=SlotState.FINAL.value))

    def take(self, slot_id: int) -> None:
        with self._database.transaction() as connection:
            _save(connection, _locked_slot(connection, slot_id).became(SlotState.TAKEN))

    def slot(self, slot_id: int) -> Slot:
        with self._database.reading() as connection:
            return _slot(connection, slot_id)

    def open_slot(self, chain_id: int, account: str, purpose: str) -> Slot | None:
        with self._database.reading() as connection:
            return _open_slot(connection, chain_id, account, purpose)

    def open_slots(self, chain_id: int, account: str) -> list[Slot]:
        return self._read(select(slots).where(_of(chain_id, account), _OPEN))

    def included_slots(self, chain_id: int, account: str) -> list[Slot]:
        return self._read(select(slots).where(_of(chain_id, account), slots.c.state == SlotState.INCLUDED))

    def slots(self, chain_id: int, account: str) -> list[Slot]:
        return self._read(select(slots).where(_of(chain_id, account)))

    def slots_for(self, purpose: str) -> list[Slot]:
        return self._read(select(slots).where(slots.c.purpose == purpose))

    def _read(self, query: Select[Any]) -> list[Slot]:
        with self._database.reading() as connection:
            return _slots(connection, query)


def _nonces_of(chain_id: int, account: str) -> str:
    """What two workers that share a key must not give out at once."""
    return f"nonces {chain_id} {account}"


def _of(chain_id: int, account: str) -> Any:
    return (slots.c.chain_id == chain_id) & (slots.c.account == account)


def _claim_is_good(connection: Connection, request: SlotRequest) -> bool:
    if request.claim is None:
        return True
    query = select(outbox.c.event_id).where(
        outbox.c.event_id == request.claim.event_id,
        outbox.c.state == "CLAIMED",
        outbox.c.claimed_by == request.claim.worker,
        outbox.c.fence == request.claim.fence,
        outbox.c.orphaned_at.is_(None),
    )
    return connection.execute(query).first() is not None


def _slots(connection: Connection, query: Select[Any]) -> list[Slot]:
    found = connection.execute(query.order_by(slots.c.chain_id, slots.c.account, slots.c.nonce)).mappings().all()
    versions = (
        select(signed_versions)
        .where(signed_versions.c.slot_id.in_([row["slot_id"] for row in found]))
        .order_by(signed_versions.c.slot_id, signed_versions.c.number)
    )
    by_slot = {
        slot_id: tuple(rows.version_from(row) for row in group)
        for slot_id, group in groupby(connection.execute(versions).mappings(), key=lambda row: row["slot_id"])
    }
    return [rows.slot_from(row, by_slot.get(row["slot_id"], ())) for row in found]


def _slot(connection: Connection, slot_id: int) -> Slot:
    found = _slots(connection, select(slots).where(slots.c.slot_id == slot_id))
    if not found:
        raise KeyError(slot_id)
    return found[0]


def _locked_slot(connection: Connection, slot_id: int) -> Slot:
    """A slot that nobody else changes before this transaction ends."""
    connection.execute(select(slots.c.slot_id).where(slots.c.slot_id == slot_id).with_for_update())
    return _slot(connection, slot_id)


def _open_slot(connection: Connection, chain_id: int, account: str, purpose: str) -> Slot | None:
    found = _slots(connection, select(slots).where(_of(chain_id, account), slots.c.purpose == purpose, _OPEN))
    return found[0] if found else None


def _new_slot(connection: Connection, blank: Slot) -> Slot:
    result = connection.execute(insert(slots).values(**rows.slot_columns(blank)))
    assert result.inserted_primary_key is not None
    return replace(blank, slot_id=result.inserted_primary_key[0])


def _save(connection: Connection, slot: Slot) -> None:
    connection.execute(update(slots).where(slots.c.slot_id == slot.slot_id).values(**rows.slot_columns(slot)))
