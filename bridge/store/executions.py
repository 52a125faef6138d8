"""Executions that are waited for, in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Double,
    Executable,
    RowMapping,
    Select,
    bindparam,
    case,
    delete,
    false,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from bridge.domain.executions import FIRST_LOOK, UNENDED, AwaitedExecution, ExecutionState
from bridge.domain.lanes import Lane
from bridge.domain.observations import BlockRef
from bridge.store.database import Database
from bridge.store.tables import executions, messages, outbox

_UNENDED: Final = sorted(UNENDED)
_DUE = (
    select(executions)
    .where(executions.c.state.in_(_UNENDED), executions.c.next_at <= bindparam("now"))
    .order_by(executions.c.next_at, executions.c.message_id)
    .limit(bindparam("most"))
)
_THESE = executions.c.message_id.in_(bindparam("message_ids", expanding=True))
_END = (  # what `AwaitedExecution.ended` changes
    update(executions)
    .where(_THESE)
    .values(
        state=ExecutionState.ENDED.value, fence=executions.c.fence + 1, outcome="", seen_number=None, seen_hash=None
    )
)


class SqlExecutions:
    """See `bridge.domain.executions.Executions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, message_id: bytes, now: float) -> None:
        source = select(messages.c.message_id, messages.c.source_chain, messages.c.destination_chain)
        with self._database.transaction() as connection:
            connection.execute(_await(connection, source.where(messages.c.message_id == message_id)), {"now": now})

    def due(self, now: float, limit: int) -> list[AwaitedExecution]:
        with self._database.reading() as connection:
            return [_from(row) for row in connection.execute(_DUE, {"now": now, "most": limit}).mappings()]

    def save(self, changed: AwaitedExecution, *, fence: int) -> bool:
        mine = (executions.c.message_id == changed.message_id) & (executions.c.fence == fence)
        with self._database.transaction() as connection:
            return connection.execute(update(executions).where(mine).values(**_row(changed))).rowcount == 1

    def of_message(self, message_id: bytes) -> AwaitedExecution | None:
        query = select(executions).where(executions.c.message_id == message_id)
        with self._database.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else _from(row)

    def counts(self) -> Mapping[Lane, Mapping[ExecutionState, int]]:
        key = (executions.c.source_chain, executions.c.destination_chain, executions.c.state)
        found: dict[Lane, dict[ExecutionState, int]] = {}
        with self._database.reading() as connection:
            for source, destination, state, count in connection.execute(select(*key, func.count()).group_by(*key)):
                found.setdefault(Lane(source, destination), {})[ExecutionState(state)] = count
        return found


def await_executions(connection: Connection, event_ids: Sequence[str], now: float) -> None:
    """Notes deliveries that did not execute their messages; in one order, so that two transactions never wait for each other."""
    if event_ids:
        source = select(outbox.c.message_id, outbox.c.source_chain, outbox.c.destination_chain).distinct()
        these = source.where(outbox.c.event_id.in_(bindparam("event_ids", expanding=True)))
        statement = _await(connection, these.order_by(outbox.c.message_id))
        connection.execute(statement, {"event_ids": list(event_ids), "now": now})


def end_executions(connection: Connection, message_ids: Collection[bytes]) -> None:
    """Notes deliveries that did."""
    if message_ids:
        connection.execute(_END, {"message_ids": sorted(message_ids)})


def forget_executions(connection: Connection, message_ids: Collection[bytes]) -> None:
    """Deletes those that have ended."""
    ended = _THESE & executions.c.state.not_in(_UNENDED)
    connection.execute(delete(executions).where(ended), {"message_ids": sorted(message_ids)})


def take_back_executions(connection: Connection, chain_id: int, last_good: int, now: float) -> None:
    """Has looked at again what was seen ended in blocks of that chain above the highest that stands."""
    table = executions.c
    connection.execute(
        update(executions)
        .where(table.destination_chain == chain_id, table.seen_number > last_good)
        .values(
            state=case((table.state.in_(_UNENDED), table.state), else_=ExecutionState.WAITING.value),
            seen_number=None,
            seen_hash=None,
            next_at=now,
            fence=table.fence + 1,
        )
    )


def _await(connection: Connection, source: Select[Any]) -> Executable:
    """Adds the found messages. Those that are there already are checked soon; a check that is under way now writes nothing."""
    now = bindparam("now", type_=Double)
    values = {
        "state": literal(ExecutionState.WAITING.value),
        "since": now,
        "next_at": now + FIRST_LOOK,
        "round": literal(0),
        "was_sent": false(),
        "fence": literal(0),
        "outcome": literal(""),
    }
    table, goes_on = executions.c, executions.c.state.in_(_UNENDED)
    names = [table.message_id, table.source_chain, table.destination_chain, *(table[name] for name in values)]
    found = source.add_columns(*values.values())
    changes = {
        "state": case((goes_on, table.state), else_=ExecutionState.WAITING.value),
        "since": case((goes_on, table.since), else_=now),
        "next_at": now + FIRST_LOOK,
        "fence": table.fence + 1,
        "seen_number": case((goes_on, table.seen_number)),
        "seen_hash": case((goes_on, table.seen_hash)),
    }
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    added = insert(executions).from_select(names, found)
    return added.on_conflict_do_update(index_elements=[table.message_id], set_=changes)


def _row(one: AwaitedExecution) -> dict[str, Any]:
    return {
        "state": one.state.value,
        "since": one.since,
        "next_at": one.next_at,
        "round": one.round,
        "was_sent": one.was_sent,
        "fence": one.fence,
        "outcome": one.outcome,
        "seen_number": one.seen and one.seen.number,
        "seen_hash": one.seen and one.seen.hash,
    }


def _from(row: RowMapping) -> AwaitedExecution:
    return AwaitedExecution(
        message_id=row["message_id"],
        source_chain=row["source_chain"],
        destination_chain=row["destination_chain"],
        state=ExecutionState(row["state"]),
        since=row["since"],
        next_at=row["next_at"],
        round=row["round"],
        was_sent=row["was_sent"],
        fence=row["fence"],
        outcome=row["outcome"],
        seen=None if row["seen_hash"] is None else BlockRef(row["seen_number"], row["seen_hash"]),
    )
