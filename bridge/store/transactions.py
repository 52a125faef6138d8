"""The nonce ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from bridge.protocol.lanes import Lane
from bridge.protocol.ports import Call, Fees
from bridge.records.observations import BlockRef
from bridge.records.outbox import Claim
from bridge.records.spending import UNBOUNDED, SpendBounds, SpentFor
from bridge.records.transactions import (
    OPEN_STATES,
    SENT_STATES,
    BatchedCall,
    Inclusion,
    Packing,
    SignedVersion,
    Slot,
    SlotRequest,
    SlotState,
    SpendCheck,
    one_by_one,
    require_room,
)
from bridge.store.database import Database
from bridge.store.spending import add_costs, settle, spending_on, totals_of
from bridge.store.tables import outbox, signed_versions, slot_parts, slots

_OPEN = slots.c.state.in_([state.value for state in OPEN_STATES])
_IN_ORDER = (slots.c.chain_id, slots.c.account, slots.c.nonce)
_THESE = slots.c.slot_id.in_(bindparam("slot_ids", expanding=True))
_OF_ACCOUNT = (slots.c.chain_id == bindparam("chain")) & (slots.c.account == bindparam("sender"))

# Statements that every delivery or poll needs are built once: building them costs more than running them.
_HIGHEST = select(func.max(slots.c.nonce)).where(_OF_ACCOUNT)
_GOOD_CLAIMS = select(outbox.c.event_id, outbox.c.claimed_by, outbox.c.fence).where(
    outbox.c.event_id.in_(bindparam("event_ids", expanding=True)),
    outbox.c.state == "CLAIMED",
    outbox.c.orphaned_at.is_(None),
)
_FOR_ANY = slots.c.slot_id.in_(
    select(slot_parts.c.slot_id).where(slot_parts.c.transaction_key.in_(bindparam("transaction_keys", expanding=True)))
)
_OPEN_FOR_ANY = select(slots).where(_OF_ACCOUNT, _FOR_ANY, _OPEN).order_by(*_IN_ORDER)
_OPEN_OF_ACCOUNT = select(slots).where(_OF_ACCOUNT, _OPEN).order_by(*_IN_ORDER)
_UNSETTLED = (
    select(slots.c.slot_id)
    .where(_OF_ACCOUNT, slots.c.state.in_([state.value for state in (*OPEN_STATES, SlotState.INCLUDED)]))
    .limit(1)
)
_INCLUDED_OF_ACCOUNT = (
    select(slots.c.included_block_number, slots.c.included_block_hash, slots.c.slot_id)
    .where(_OF_ACCOUNT, slots.c.state == SlotState.INCLUDED)
    .order_by(slots.c.included_block_number, slots.c.nonce)
)
_LOCK = select(slots.c.slot_id).where(_THESE).order_by(slots.c.slot_id).with_for_update()
_SLOTS = select(slots).where(_THESE).order_by(*_IN_ORDER)
_VERSIONS = (
    select(signed_versions)
    .where(signed_versions.c.slot_id.in_(bindparam("slot_ids", expanding=True)))
    .order_by(signed_versions.c.slot_id, signed_versions.c.number)
)
_PARTS = (
    select(slot_parts)
    .where(slot_parts.c.slot_id.in_(bindparam("slot_ids", expanding=True)))
    .order_by(slot_parts.c.slot_id, slot_parts.c.position)
)


_LATER = slots.alias()
_OLD = (
    select(slots.c.slot_id)
    .where(
        slots.c.reserved_at < bindparam("before"),
        slots.c.state.in_([SlotState.FINAL, SlotState.USED_EXTERNALLY]),
        exists().where(
            _LATER.c.chain_id == slots.c.chain_id,
            _LATER.c.account == slots.c.account,
            _LATER.c.nonce > slots.c.nonce,
        ),
    )
    .order_by(slots.c.reserved_at)
    .limit(bindparam("limit"))
)


class TransactionLedger:
    """Stores nonce slots. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reserve(
        self,
        chain_id: int,
        account: str,
        requests: Sequence[SlotRequest],
        *,
        first_nonce: int,
        now: float,
        pack: Packing = one_by_one,
        check: SpendCheck | None = None,
    ) -> list[Slot | None]:
        """Reserves a slot for each request, with consecutive nonces, none below `first_nonce`.

        A transaction key with an open slot gets that slot. The result is None for a request whose claim is
        lost, whose dispatch is orphaned, or which would exceed the bounds of `check`; `check` then holds the
        reason. `pack` decides which of the other requests share a slot. The maximum cost is recorded with the
        slots.
        """
        check = check or SpendCheck()
        with self._database.transaction(exclusive=_nonces_of(chain_id, account)) as connection:
            highest = connection.execute(_HIGHEST, _account(chain_id, account)).scalar()
            first = first_nonce if highest is None else max(first_nonce, highest + 1)
            good_claims = _good_claims(connection, [one.claim for one in requests if one.claim is not None])
            good = [one.claim is None or one.claim in good_claims for one in requests]
            known = _open_by_key(connection, chain_id, account, [one.transaction_key for one in requests])
            pairs = zip(requests, good, strict=True)
            wanted = {
                one.transaction_key: one for one, is_good in pairs if is_good and one.transaction_key not in known
            }
            if wanted:  # concurrent commitments of all accounts of a chain count together
                self._database.exclude(connection, spending_on(chain_id))
            totals = totals_of(connection, check.keys(wanted.values(), chain_id, now))
            batches = check.admitted(list(wanted.values()), pack, totals, chain_id=chain_id, now=now)
            numbered = enumerate(batches, first)
            blanks = [Slot.reserved(chain_id, account, nonce, batch, now) for nonce, batch in numbered]
            for slot in _new_slots(connection, blanks):
                known.update(dict.fromkeys(slot.transaction_keys, slot))
        return [
            known.get(one.transaction_key) if is_good else None for one, is_good in zip(requests, good, strict=True)
        ]

    def fill(self, chain_id: int, account: str, nonce: int, now: float) -> Slot:
        """Returns a slot for an unused nonce, which a no-op transaction will close."""
        with self._database.transaction(exclusive=_nonces_of(chain_id, account)) as connection:
            existing = _slots(
                connection, select(slots).where(_OF_ACCOUNT, slots.c.nonce == nonce), _account(chain_id, account)
            )
            if existing:
                return existing[0]
            (slot,) = _new_slots(connection, [Slot.reserved(chain_id, account, nonce, None, now)])
            return slot

    def sign(
        self, slot_id: int, version: SignedVersion, *, replaces: bytes | None, bounds: SpendBounds = UNBOUNDED
    ) -> bool:
        """Stores a signed version if it replaces the latest one. Returns whether it was stored.

        `replaces` is the hash of the version to replace, or None if there is none.

        Raises:
            SpendBlockedError: The version costs more than earlier ones and would exceed the bounds.
        """
        with self._database.transaction() as connection:
            chain_id = connection.execute(select(slots.c.chain_id).where(slots.c.slot_id == slot_id)).scalar_one()
            self._database.exclude(connection, spending_on(chain_id))
            slot = _locked_slot(connection, slot_id)
            latest = slot.latest and slot.latest.hash
            if latest != replaces or not (slot.is_open or slot.state is SlotState.USED_EXTERNALLY):
                return False
            signed = slot.signed(version)
            require_room(signed, bounds, lambda keys: totals_of(connection, keys))
            _save(connection, signed)
            settle(connection, [signed])
            row = _version_row(slot_id, len(slot.versions), version)
            connection.execute(insert(signed_versions).values(**row))
            return True

    def sign_all(self, versions: Sequence[tuple[int, SignedVersion]]) -> set[int]:
        """Stores the first signed versions of many slots. Returns the ids of the slots for which this succeeded."""
        wanted = dict(versions)
        reserved = slots.c.slot_id.in_(list(wanted)) & (slots.c.state == SlotState.RESERVED)
        with self._database.transaction() as connection:
            taken = connection.execute(select(slots.c.slot_id).where(reserved).with_for_update()).scalars().all()
            if taken:
                connection.execute(update(slots).where(reserved).values(state=SlotState.SIGNED.value))
                connection.execute(insert(signed_versions), [_version_row(key, 0, wanted[key]) for key in taken])
        return set(taken)

    def broadcast(self, slot_ids: Collection[int], now: float) -> None:
        """Records that nodes accepted the slots' latest versions."""
        sent = slots.c.slot_id.in_(list(slot_ids)) & slots.c.state.in_([state.value for state in SENT_STATES])
        state = case((slots.c.state == SlotState.SIGNED, SlotState.BROADCAST.value), else_=slots.c.state)
        with self._database.transaction() as connection:
            connection.execute(update(slots).where(sent).values(state=state, broadcast_at=now))

    def include(self, inclusions: Sequence[tuple[int, Inclusion]]) -> list[Slot]:
        """Records the blocks that include slots; returns the updated slots."""
        places = dict(inclusions)
        with self._database.transaction() as connection:
            included = [slot.in_block(places[slot.slot_id]) for slot in _locked_slots(connection, list(places))]
            values = [{"key": slot.slot_id, **_inclusion_columns(slot)} for slot in included]
            connection.execute(update(slots).where(slots.c.slot_id == bindparam("key")), values)
            settle(connection, included)
        return included

    def orphan(self, slot_id: int) -> None:
        """Records that the including block was reorged away."""
        with self._database.transaction() as connection:
            orphaned = _locked_slot(connection, slot_id).orphaned()
            _save(connection, orphaned)
            settle(connection, [orphaned])

    def finalise(self, slot_ids: Collection[int]) -> None:
        """Records that the including blocks are final."""
        included = slots.c.slot_id.in_(list(slot_ids)) & (slots.c.state == SlotState.INCLUDED)
        with self._database.transaction() as connection:
            connection.execute(update(slots).where(included).values(state=SlotState.FINAL.value))

    def take(self, slot_id: int) -> None:
        """Records that a transaction signed by other software used the nonce."""
        with self._database.transaction() as connection:
            taken = _locked_slot(connection, slot_id).became(SlotState.USED_EXTERNALLY)
            _save(connection, taken)
            settle(connection, [taken])

    def slot(self, slot_id: int) -> Slot:
        """Returns one slot."""
        with self._database.reading() as connection:
            return _slot(connection, slot_id)

    def open_slot(self, chain_id: int, account: str, transaction_key: str) -> Slot | None:
        """Returns a transaction key's open slot."""
        with self._database.reading() as connection:
            return _open_by_key(connection, chain_id, account, [transaction_key]).get(transaction_key)

    def open_slots(self, chain_id: int, account: str) -> list[Slot]:
        """Returns slots with an unused nonce, lowest first."""
        return self._read(_OPEN_OF_ACCOUNT, _account(chain_id, account))

    def has_unsettled(self, chain_id: int, account: str) -> bool:
        """Whether a slot of the account is open, or in a block that is not final."""
        return self._database.scalar(_UNSETTLED, _account(chain_id, account)) is not None

    def included_slots(self, chain_id: int, account: str) -> dict[BlockRef, list[int]]:
        """Returns the ids of slots in blocks that are not final, by block, lowest first."""
        by_block: defaultdict[BlockRef, list[int]] = defaultdict(list)
        for number, block_hash, slot_id in self._database.rows(_INCLUDED_OF_ACCOUNT, _account(chain_id, account)):
            by_block[BlockRef(number, block_hash)].append(slot_id)
        return dict(by_block)

    def forget(self, before: float, limit: int) -> int:
        """Deletes slots that were reserved before a moment and whose nonce was used in a final block.

        Their signed versions and costs are deleted with them. The slot with the account's highest nonce stays,
        since the next nonce follows it.

        Args:
            before: Unix seconds.
            limit: Maximum number of slots to delete.

        Returns:
            Number of slots deleted.
        """
        with self._database.transaction() as connection:
            ids = list(connection.execute(_OLD, {"before": before, "limit": limit}).scalars())
            for table in (signed_versions, slot_parts, slots):
                connection.execute(delete(table).where(table.c.slot_id.in_(ids)))
        return len(ids)

    def slots(self, chain_id: int, account: str) -> list[Slot]:
        """Returns an account's slots, lowest first."""
        return self._read(select(slots).where(_OF_ACCOUNT).order_by(*_IN_ORDER), _account(chain_id, account))

    def slots_for(self, transaction_key: str) -> list[Slot]:
        """Returns every slot that a transaction key ever had, in order."""
        return self._read(select(slots).where(_FOR_ANY).order_by(*_IN_ORDER), {"transaction_keys": [transaction_key]})

    def _read(self, query: Select[Any], values: Mapping[str, Any]) -> list[Slot]:
        with self._database.reading() as connection:
            return _slots(connection, query, values)


def _nonces_of(chain_id: int, account: str) -> str:
    """Returns the name of the lock that prevents two workers of one account from reserving the same nonce."""
    return f"nonces {chain_id} {account}"


def _account(chain_id: int, account: str) -> dict[str, Any]:
    """Returns the values of `_OF_ACCOUNT`."""
    return {"chain": chain_id, "sender": account}


def _good_claims(connection: Connection, claims: Sequence[Claim]) -> set[Claim]:
    """Returns the claims that are still held, and whose dispatches are not orphaned."""
    wanted = {"event_ids": [claim.event_id for claim in claims]}
    return {Claim(*row) for row in connection.execute(_GOOD_CLAIMS, wanted)}.intersection(claims)


def _slots(connection: Connection, query: Select[Any], values: Mapping[str, Any]) -> list[Slot]:
    found = connection.execute(query, values).mappings().all()
    if not found:
        return []
    slot_ids = [row["slot_id"] for row in found]
    versions, parts = _by_slot(connection, _VERSIONS, slot_ids), _by_slot(connection, _PARTS, slot_ids)
    return [_slot_from(row, versions.get(row["slot_id"], []), parts[row["slot_id"]]) for row in found]


def _by_slot(connection: Connection, query: Select[Any], slot_ids: Sequence[int]) -> dict[int, list[RowMapping]]:
    """Returns the rows of slots, which `query` orders by slot."""
    rows = connection.execute(query, {"slot_ids": slot_ids}).mappings()
    return {slot_id: list(group) for slot_id, group in groupby(rows, key=itemgetter("slot_id"))}


def _slot(connection: Connection, slot_id: int) -> Slot:
    found = _slots(connection, _SLOTS, {"slot_ids": [slot_id]})
    if not found:
        raise KeyError(slot_id)
    return found[0]


def _locked_slots(connection: Connection, slot_ids: Sequence[int]) -> list[Slot]:
    """Returns slots, locked until this transaction ends, in a fixed order so that transactions cannot deadlock."""
    these = {"slot_ids": slot_ids}
    connection.execute(_LOCK, these)
    return _slots(connection, _SLOTS, these)


def _locked_slot(connection: Connection, slot_id: int) -> Slot:
    found = _locked_slots(connection, [slot_id])
    if not found:
        raise KeyError(slot_id)
    return found[0]


def _open_by_key(
    connection: Connection, chain_id: int, account: str, transaction_keys: Sequence[str]
) -> dict[str, Slot]:
    found = _slots(connection, _OPEN_FOR_ANY, {**_account(chain_id, account), "transaction_keys": transaction_keys})
    return {transaction_key: slot for slot in found for transaction_key in slot.transaction_keys}


def _new_slots(connection: Connection, blanks: Sequence[Slot]) -> list[Slot]:
    if not blanks:
        return []
    made = connection.execute(
        insert(slots).returning(slots.c.nonce, slots.c.slot_id), [_slot_columns(blank) for blank in blanks]
    )
    ids = {row.nonce: row.slot_id for row in made}
    fresh = [replace(blank, slot_id=ids[blank.nonce]) for blank in blanks]
    connection.execute(insert(slot_parts), [row for slot in fresh for row in _part_rows(slot)])
    add_costs(connection, [(slot, part, part.gwei) for slot in fresh for part in slot.parts])
    return fresh


def _save(connection: Connection, slot: Slot) -> None:
    connection.execute(update(slots).where(slots.c.slot_id == slot.slot_id).values(**_slot_columns(slot)))


def _slot_columns(slot: Slot) -> dict[str, Any]:
    """Returns a slot's columns in `slots`, except the key."""
    return {
        "chain_id": slot.chain_id,
        "account": slot.account,
        "nonce": slot.nonce,
        "call_to": slot.call and slot.call.to,
        "call_data": slot.call and slot.call.data,
        "call_value": slot.call and str(slot.call.value),
        "call_gas": slot.call and slot.call.gas,
        "reserved_at": slot.reserved_at,
        "broadcast_at": slot.broadcast_at,
        **_inclusion_columns(slot),
    }


def _inclusion_columns(slot: Slot) -> dict[str, Any]:
    """Returns the columns of `slots` that change when a transaction is included."""
    included = slot.included
    return {
        "state": slot.state.value,
        "included_hash": included and included.transaction_hash,
        "included_block_number": included and included.block.number,
        "included_block_hash": included and included.block.hash,
        "succeeded": included and included.succeeded,
    }


def _part_rows(slot: Slot) -> list[dict[str, Any]]:
    """Returns the columns of `slot_parts` for each part of a slot."""
    return [
        {
            "slot_id": slot.slot_id,
            "position": position,
            "transaction_key": part.transaction_key,
            "gas": part.gas,
            "message_id": part.spent_for and part.spent_for.message_id,
            "sender": part.spent_for and part.spent_for.sender,
            "source_chain": part.spent_for and part.spent_for.lane.source_chain,
            "destination_chain": part.spent_for and part.spent_for.lane.destination_chain,
            "gwei": part.gwei,
            "data_gwei": part.data_gwei,
        }
        for position, part in enumerate(slot.parts)
    ]


def _part_from(row: RowMapping) -> BatchedCall:
    """Builds one part of a slot from its row."""
    who = None
    if row["message_id"] is not None:
        who = SpentFor(row["message_id"], row["sender"], Lane(row["source_chain"], row["destination_chain"]))
    return BatchedCall(row["transaction_key"], row["gas"], who, row["gwei"], row["data_gwei"])


def _slot_from(row: RowMapping, versions: Sequence[RowMapping], parts: Sequence[RowMapping]) -> Slot:
    """Builds a slot from its row, and those of its signed versions and parts."""
    call = included = None
    if row["call_to"] is not None:
        call = Call(to=row["call_to"], data=row["call_data"], value=int(row["call_value"]), gas=row["call_gas"])
    if row["included_hash"] is not None:
        block = BlockRef(row["included_block_number"], row["included_block_hash"])
        included = Inclusion(row["included_hash"], block, row["succeeded"])
    return Slot(
        slot_id=row["slot_id"],
        chain_id=row["chain_id"],
        account=row["account"],
        nonce=row["nonce"],
        parts=tuple(map(_part_from, parts)),
        call=call,
        state=SlotState(row["state"]),
        reserved_at=row["reserved_at"],
        versions=tuple(map(_version_from, versions)),
        broadcast_at=row["broadcast_at"],
        included=included,
    )


def _version_row(slot_id: int, number: int, version: SignedVersion) -> dict[str, Any]:
    """Returns a version's columns in `signed_versions`."""
    return {
        "slot_id": slot_id,
        "number": number,
        "hash": version.hash,
        "raw": version.raw,
        "max_fee": version.fees.max_fee,
        "priority_fee": version.fees.priority_fee,
        "signed_at": version.signed_at,
        "is_noop": version.is_noop,
    }


def _version_from(row: RowMapping) -> SignedVersion:
    """Builds a signed version from its row."""
    return SignedVersion(
        hash=row["hash"],
        raw=row["raw"],
        fees=Fees(row["max_fee"], row["priority_fee"]),
        signed_at=row["signed_at"],
        is_noop=row["is_noop"],
    )
