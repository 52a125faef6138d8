"""Amounts that the relayer has spent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, delete, select, update

from bridge.protocol.lanes import Lane
from bridge.records.spending import (
    EVER,
    GWEI,
    Blocked,
    Bound,
    TotalKey,
    day_of,
    gwei_of,
    lane_of,
    total_keys,
)
from bridge.records.transactions import BatchedCall, Slot, costs_of
from bridge.store.database import Database, insert_into
from bridge.store.tables import slot_parts, spending_blocked, spending_totals

_AT_ONCE: Final = 500  # totals per query
_TOTALS = select(spending_totals.c.of, spending_totals.c.gwei).where(
    spending_totals.c.chain_id == bindparam("chain"),
    spending_totals.c.day == bindparam("on"),
    spending_totals.c.of.in_(bindparam("names", expanding=True)),
)
_CHANGE = (
    update(slot_parts)
    .where(slot_parts.c.slot_id == bindparam("slot"), slot_parts.c.position == bindparam("place"))
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

    def lanes(self, now: float) -> dict[tuple[Lane, int], int]:
        """Returns the cost of each lane on each chain in wei, on the UTC day of `now` (Unix seconds)."""
        query = select(spending_totals).where(spending_totals.c.day == day_of(now)).order_by(spending_totals.c.of)
        found = [(lane_of(row["of"]), row["chain_id"], row["gwei"]) for row in self._database.read(query)]
        return {(lane, chain_id): gwei * GWEI for lane, chain_id, gwei in found if lane is not None}

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


def settle(connection: Connection, slots: Iterable[Slot]) -> None:
    """Updates the stored cost of slots to what they have actually cost so far."""
    changes, grown = [], []
    for slot in slots:
        for position, (part, cost) in enumerate(zip(slot.parts, costs_of(slot), strict=True)):
            gwei = gwei_of(cost) + part.data_gwei
            if gwei != part.gwei:
                changes.append({"slot": slot.slot_id, "place": position, "now_gwei": gwei})
                grown.append((slot, part, gwei - part.gwei))
    if changes:
        connection.execute(_CHANGE, changes)
        add_costs(connection, grown)


def add_costs(connection: Connection, costs: Iterable[tuple[Slot, BatchedCall, int]]) -> None:
    """Adds costs in gwei of parts of slots to the totals, in a fixed order to avoid deadlocks."""
    added = Counter[TotalKey]()
    for slot, part, gwei in costs:
        for key in total_keys(slot.chain_id, part.spent_for, slot.reserved_at).values():
            added[key] += gwei
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
