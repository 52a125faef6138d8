"""What was paid through vaults, in SQL. Payments count in the same totals as what is spent, with the other sign."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, case, delete, func, insert, select, update

from bridge.domain.jobs import ExecutionJob, ExecutionState
from bridge.domain.lanes import Lane
from bridge.domain.outbox import OutboxState
from bridge.domain.payments import MARGIN, Account, Economy, VaultAct, VaultEvent
from bridge.domain.spending import GWEI, NOTHING, Bound, Total, TotalKey, balance_keys
from bridge.store.database import Database
from bridge.store.spending import SPENDING, add_to_totals, totals_of
from bridge.store.tables import jobs, outbox, spending, spending_blocked, vault_events

_AT_ONCE: Final = 500  # rows in one query
_PAID: Final = vault_events.c.act == VaultAct.PAID.value


class Payments:
    """Where they are kept. Observations add to them; every method here is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def accounts(self, message_id: bytes | None = None, *, source_chain: int | None = None) -> list[Account]:
        """Of a message, or of all; on one source, or on all."""
        table = vault_events.c
        query = (
            select(
                table.message_id,
                table.gmp,
                table.payer,
                table.source_chain,
                func.max(table.destination_chain).label("destination_chain"),
                *(_sum_of(act) for act in VaultAct),
                func.sum(table.covers).label("covers"),
            )
            .group_by(table.message_id, table.gmp, table.payer, table.source_chain)
            .order_by(func.min(table.refundable_at), table.message_id, table.gmp, table.payer)
        )
        if message_id is not None:
            query = query.where(table.message_id == message_id)
        if source_chain is not None:
            query = query.where(table.source_chain == source_chain)
        with self._database.reading() as connection:
            rows = connection.execute(query).mappings().all()
            keys = {key: balance_keys(*key)[-1] for key in map(_key_of, rows)}
            totals = totals_of(connection, list(keys.values()))
        covers: defaultdict[tuple[int, bytes, int], int] = defaultdict(int)
        for row in rows:
            covers[_key_of(row)] += int(row["covers"])
        return [
            Account(
                message_id=row["message_id"],
                gmp=row["gmp"],
                payer=row["payer"],
                source_chain=row["source_chain"],
                destination_chain=row["destination_chain"],
                paid=int(row[VaultAct.PAID]),
                earned=int(row[VaultAct.EARNED]),
                refunded=int(row[VaultAct.REFUNDED]),
                covers=int(row["covers"]),
                spent=totals.get(keys[_key_of(row)], NOTHING).gwei + covers[_key_of(row)],
            )
            for row in rows
        ]

    def expire(self, now: float) -> int:
        """Takes out of account what payers may fetch soon (Unix seconds), and was not spent; returns how many payments."""
        with self._database.transaction(exclusive=SPENDING) as connection:
            return _expire(connection, now)

    def economies(self) -> Sequence[Economy]:
        """What every lane and GMP has brought and cost, in the order of lanes."""
        table = vault_events.c
        same = (table.message_id, table.gmp, table.payer)
        led = select(*same, func.max(table.destination_chain).label("to")).group_by(*same).subquery()
        joined = vault_events.join(
            led, (table.message_id == led.c.message_id) & (table.gmp == led.c.gmp) & (table.payer == led.c.payer)
        )
        place = (table.source_chain, led.c.to, table.gmp)
        brought = select(*place, *(_sum_of(act) for act in VaultAct)).select_from(joined).group_by(*place)
        by = (
            spending.c.source_chain,
            spending.c.destination_chain,
            spending.c.gmp,
            spending.c.chain_id,
            spending.c.payer,
        )
        cost = select(*by, func.sum(spending.c.gwei)).where(spending.c.message_id.is_not(None)).group_by(*by)
        earned: dict[tuple[int, int, int | None], tuple[int, int, int]] = {}
        spent: defaultdict[tuple[int, int, int | None], dict[tuple[int, str], int]] = defaultdict(dict)
        with self._database.reading() as connection:
            for source, to, gmp, *sums in connection.execute(brought):
                paid, taken, back = (int(one) * GWEI for one in sums)
                earned[source, to, gmp] = (paid, taken, back)
            for source, to, gmp, chain_id, payer, gwei in connection.execute(cost):
                spent[source, to, gmp][chain_id, payer] = int(gwei) * GWEI
        found = sorted(earned.keys() | spent.keys(), key=lambda one: (one[0], one[1], -1 if one[2] is None else one[2]))
        return [
            Economy(Lane(source, to), gmp, *earned.get((source, to, gmp), (0, 0, 0)), spent.get((source, to, gmp), {}))
            for source, to, gmp in found
        ]


def record_payments(connection: Connection, events: Sequence[VaultEvent], now: float) -> None:
    """Notes a vault's events that are not known yet, and has looked at again what waits for a payment."""
    added: defaultdict[TotalKey, Total] = defaultdict(Total)
    paid_for: set[bytes] = set()
    for event in events:
        same = (vault_events.c.transaction_hash == event.transaction_hash) & (
            vault_events.c.log_index == event.log_index
        )
        if connection.execute(select(vault_events.c.act).where(same)).first() is not None:
            continue
        connection.execute(insert(vault_events).values(**_row(event)))
        if event.act is VaultAct.PAID:
            paid_for.add(event.message_id)
            for key in balance_keys(event.destination_chain, event.message_id, event.gmp):
                added[key] = added[key].plus(-event.covers)
        else:  # what the payer may fetch now, or has fetched, counts no more: `expire` takes it out of account
            table = vault_events.c
            of_payer = (table.message_id == event.message_id) & (table.gmp == event.gmp) & (table.payer == event.payer)
            sooner = _PAID & of_payer & (table.refundable_at > event.refundable_at)
            connection.execute(update(vault_events).where(sooner).values(refundable_at=event.refundable_at))
    add_to_totals(connection, added)
    while _expire(connection, now) == _AT_ONCE:  # what is read late may be fetched by now
        pass
    _resume(connection, paid_for, now)


def rewind_payments(connection: Connection, chain_id: int, last_good: int) -> None:
    """Takes back what blocks of a source held that fell. What was spent of it by then stays spent."""
    fallen = (vault_events.c.source_chain == chain_id) & (vault_events.c.block_number > last_good)
    added: defaultdict[TotalKey, Total] = defaultdict(Total)
    for row in connection.execute(select(vault_events).where(fallen, _PAID)).mappings():
        for key in balance_keys(row["destination_chain"], row["message_id"], row["gmp"]):
            added[key] = added[key].plus(row["covers"])
    connection.execute(delete(vault_events).where(fallen))
    add_to_totals(connection, added)


def _expire(connection: Connection, now: float) -> int:
    table = vault_events.c
    due = _PAID & table.expired.is_(False) & (table.refundable_at <= now + MARGIN)
    rows = connection.execute(select(vault_events).where(due).limit(_AT_ONCE)).mappings().all()
    for row in rows:
        keys = balance_keys(row["destination_chain"], row["message_id"], row["gmp"])
        balance = totals_of(connection, keys).get(keys[-1], NOTHING).gwei
        unspent = min(row["covers"], max(0, -balance))
        same = (table.transaction_hash == row["transaction_hash"]) & (table.log_index == row["log_index"])
        changed = {"covers": row["covers"] - unspent, "expired": True}
        connection.execute(update(vault_events).where(same).values(**changed))
        add_to_totals(connection, dict.fromkeys(keys, Total(unspent)))
    return len(rows)


def _resume(connection: Connection, message_ids: set[bytes], now: float) -> None:
    ids = sorted(message_ids)
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        unpaid = spending_blocked.c.message_id.in_(some) & (spending_blocked.c.bound == Bound.PAYMENT.value)
        subjects = select(spending_blocked.c.subject).where(unpaid)
        waits = outbox.c.event_id.in_(subjects) & (outbox.c.state == OutboxState.PENDING.value)
        connection.execute(update(outbox).where(waits).values(available_at=now))
        blocked = (jobs.c.queue == ExecutionJob.QUEUE) & (jobs.c.state == ExecutionState.BLOCKED.value)
        executions = blocked & jobs.c.message_id.in_(some) & jobs.c.finished_at.is_(None)
        connection.execute(update(jobs).where(executions).values(available_at=now))


def _sum_of(act: VaultAct) -> Any:
    return func.sum(case((vault_events.c.act == act.value, vault_events.c.gwei), else_=0)).label(act.value)


def _key_of(row: RowMapping) -> tuple[int, bytes, int]:
    return row["destination_chain"], row["message_id"], row["gmp"]


def _row(event: VaultEvent) -> dict[str, Any]:
    return {
        "transaction_hash": event.transaction_hash,
        "log_index": event.log_index,
        "source_chain": event.source_chain,
        "block_number": event.block_number,
        "act": event.act.value,
        "message_id": event.message_id,
        "gmp": event.gmp,
        "payer": event.payer,
        "destination_chain": event.destination_chain,
        "gwei": event.wei // GWEI,
        "covers": event.covers,
        "refundable_at": event.refundable_at,
        "expired": False,
    }
