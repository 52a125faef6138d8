"""Amounts that the relayer has spent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from bridge.protocol.lanes import Lane
from bridge.records.spending import (
    EVER,
    GWEI,
    Blocked,
    Bound,
    LaneSpent,
    SpentFor,
    TotalKey,
    day_of,
    gwei_of,
    lane_of,
    total_keys,
)
from bridge.records.transactions import CallBatch, Slot, SpendCheck, costs_of
from bridge.store.database import Database, insert_into
from bridge.store.tables import spending, spending_blocked, spending_totals

_AT_ONCE: Final = 500  # totals per query
_OF_SLOTS = (
    select(spending)
    .where(spending.c.slot_id.in_(bindparam("slot_ids", expanding=True)))
    .order_by(spending.c.slot_id, spending.c.position)
)
_TOTALS = select(spending_totals.c.of, spending_totals.c.gwei).where(
    spending_totals.c.chain_id == bindparam("chain"),
    spending_totals.c.day == bindparam("on"),
    spending_totals.c.of.in_(bindparam("names", expanding=True)),
)
_CHANGE = (
    update(spending)
    .where(spending.c.slot_id == bindparam("slot"), spending.c.position == bindparam("place"))
    .values(gwei=bindparam("now_gwei"))
)


def spending_on(chain_id: int) -> str:
    """Returns the name of the advisory lock under which a chain's spending bounds are checked.

    Each chain has its own totals and lock.
    """
    return f"spending {chain_id}"


class Spending:
    """Stores amounts spent. `TransactionLedger` adds to them; every method here is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def totals(self, keys: Sequence[TotalKey]) -> Mapping[TotalKey, int]:
        """Returns the totals of the given keys in gwei; a missing total is zero."""
        with self._database.reading() as connection:
            return totals_of(connection, keys)

    def lanes(self, now: float) -> list[LaneSpent]:
        """Returns what each lane has cost on each chain, on the UTC day of `now` (Unix seconds)."""
        query = select(spending_totals).where(spending_totals.c.day == day_of(now)).order_by(spending_totals.c.of)
        found = [(lane_of(row["of"]), row["chain_id"], row["gwei"]) for row in self._database.read(query)]
        return [LaneSpent(lane, chain_id, gwei * GWEI) for lane, chain_id, gwei in found if lane is not None]

    def forget(self, before: float) -> int:
        """Deletes the daily totals before a moment (Unix seconds), and returns how many were deleted.

        Totals per message stay.
        """
        table = spending_totals.c
        old = (table.day > EVER) & (table.day < day_of(before))
        with self._database.transaction() as connection:
            return connection.execute(delete(spending_totals).where(old)).rowcount

    def note_blocked(self, blocked: Blocked) -> float:
        """Records blocked work, replacing an earlier record of the same subject.

        Returns when the subject was first blocked (Unix seconds).
        """
        row = {
            "subject": blocked.subject,
            "message_id": blocked.message_id,
            "source_chain": blocked.lane.source_chain,
            "destination_chain": blocked.lane.destination_chain,
            "bound": blocked.bound.value,
            "why": blocked.why,
            "since": blocked.since,
            "at": blocked.at,
        }
        known = select(spending_blocked.c.since).where(spending_blocked.c.subject == blocked.subject)
        with self._database.transaction() as connection:
            changed = {name: row[name] for name in ("bound", "why", "at")}
            noting = insert_into(connection, spending_blocked).values(**row)
            connection.execute(noting.on_conflict_do_update(index_elements=["subject"], set_=changed))
            return float(connection.execute(known).scalar_one())

    def release(self, subject: str) -> None:
        """Records that a subject is no longer blocked."""
        with self._database.transaction() as connection:
            connection.execute(delete(spending_blocked).where(spending_blocked.c.subject == subject))

    def blocked(self, message_id: bytes | None = None, *, since: float = 0) -> list[Blocked]:
        """Returns the blocked work of one message or of all, recorded since `since` (Unix seconds)."""
        query = select(spending_blocked).where(spending_blocked.c.at >= since).order_by(spending_blocked.c.subject)
        if message_id is not None:
            query = query.where(spending_blocked.c.message_id == message_id)
        return [
            Blocked(
                subject=row["subject"],
                message_id=row["message_id"],
                lane=Lane(row["source_chain"], row["destination_chain"]),
                bound=Bound(row["bound"]),
                why=row["why"],
                since=row["since"],
                at=row["at"],
            )
            for row in self._database.read(query)
        ]


def forget_totals(connection: Connection, message_ids: Sequence[bytes], chain_ids: Collection[int]) -> None:
    """Deletes the costs of those messages on those chains."""
    named = spending_totals.c.of.in_([f"message 0x{message_id.hex()}" for message_id in message_ids])
    there = spending_totals.c.chain_id.in_(list(chain_ids)) & (spending_totals.c.day == EVER)
    connection.execute(delete(spending_totals).where(there & named))


def totals_of(connection: Connection, keys: Sequence[TotalKey]) -> dict[TotalKey, int]:
    """See `Spending.totals`."""
    found = dict[TotalKey, int]()
    groups: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for key in keys:
        groups[key.chain_id, key.day].add(key.of)
    for (chain_id, day), names in groups.items():
        ordered = sorted(names)
        for start in range(0, len(ordered), _AT_ONCE):
            asked = {"chain": chain_id, "on": day, "names": ordered[start : start + _AT_ONCE]}
            for name, gwei in connection.execute(_TOTALS, asked):
                found[TotalKey(chain_id, day, name)] = gwei
    return found


def reserved(connection: Connection, given: Sequence[tuple[Slot, CallBatch]], check: SpendCheck) -> None:
    """Records the maximum cost of new slots, by the message that each one serves."""
    rows, added = [], Counter[TotalKey]()
    for slot, batch in given:
        for position, part in enumerate(batch.parts):
            who = check.spent_for.get(part.transaction_key)
            data = gwei_of(check.data_fee(batch, part, slot.chain_id))
            gwei = gwei_of(check.cost(batch, part)) + data
            rows.append(_row(slot, position, who, gwei, data))
            for key in total_keys(slot.chain_id, who, slot.reserved_at).values():
                added[key] += gwei
    if rows:
        connection.execute(insert(spending), rows)
        _add_to_totals(connection, added)


def settle(connection: Connection, slots: Sequence[Slot]) -> None:
    """Updates the recorded cost of slots to what they have actually cost so far."""
    by_id = {slot.slot_id: costs for slot in slots if (costs := costs_of(slot))}
    if not by_id:
        return
    changes, added = [], Counter[TotalKey]()
    for row in connection.execute(_OF_SLOTS, {"slot_ids": list(by_id)}).mappings().all():
        costs = by_id[row["slot_id"]]
        gwei = gwei_of(costs[row["position"]]) + row["data_gwei"]
        if gwei == row["gwei"]:
            continue
        changes.append({"slot": row["slot_id"], "place": row["position"], "now_gwei": gwei})
        for total in total_keys(row["chain_id"], _spent_for(row), row["reserved_at"]).values():
            added[total] += gwei - row["gwei"]
    if changes:
        connection.execute(_CHANGE, changes)
        _add_to_totals(connection, added)


def spent_for(connection: Connection, slot_id: int) -> list[tuple[SpentFor | None, int]]:
    """Returns, for each transaction key of a slot, the message it pays for and its cost (gas plus value) in gwei."""
    found = connection.execute(_OF_SLOTS, {"slot_ids": [slot_id]}).mappings()
    return [(_spent_for(row), row["gwei"] - row["data_gwei"]) for row in found]


def _add_to_totals(connection: Connection, added: Mapping[TotalKey, int]) -> None:
    """Adds amounts to totals, in a fixed order to avoid deadlocks."""
    rows = [
        {"chain_id": key.chain_id, "day": key.day, "of": key.of, "gwei": added[key]}
        for key in sorted(added)
        if added[key]
    ]
    if not rows:
        return
    adding = insert_into(connection, spending_totals)
    summed = {"gwei": spending_totals.c.gwei + adding.excluded.gwei}
    connection.execute(adding.on_conflict_do_update(index_elements=["chain_id", "day", "of"], set_=summed), rows)


def _row(slot: Slot, position: int, who: SpentFor | None, gwei: int, data_gwei: int) -> dict[str, Any]:
    return {
        "slot_id": slot.slot_id,
        "position": position,
        "chain_id": slot.chain_id,
        "reserved_at": slot.reserved_at,
        "message_id": who and who.message_id,
        "sender": who and who.sender,
        "source_chain": who and who.lane.source_chain,
        "destination_chain": who and who.lane.destination_chain,
        "gwei": gwei,
        "data_gwei": data_gwei,
    }


def _spent_for(row: Any) -> SpentFor | None:
    if row["message_id"] is None:
        return None
    lane = Lane(row["source_chain"], row["destination_chain"])
    return SpentFor(row["message_id"], row["sender"], lane)
