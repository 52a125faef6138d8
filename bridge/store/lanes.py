"""Pauses and halts of lanes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select

from bridge.protocol.lanes import Lane, LaneChange, LaneState, takes_effect
from bridge.store.database import Database
from bridge.store.tables import held_lanes, lane_changes


class Lanes:
    """Stores the lanes' states. Every method is one transaction; `Outbox.claim` respects a change immediately."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def change(self, change: LaneChange) -> bool:
        """Changes a lane's state; returns whether anything changed.

        A pause does not replace a halt, because the cause of a halt must be fixed first. Only `RUNNING` ends a
        pause or a halt.
        """
        row = _row(change)
        with self._database.transaction(exclusive="lanes") as connection:
            if not takes_effect(_state(connection, change.lane), change.state):
                return False
            connection.execute(delete(held_lanes).where(_is(held_lanes, change.lane)))
            if change.state is not LaneState.RUNNING:
                connection.execute(insert(held_lanes).values(**row))
            connection.execute(insert(lane_changes).values(**row))
        return True

    def state(self, lane: Lane) -> LaneState:
        """Returns one lane's state; a lane that was never changed is running."""
        with self._database.reading() as connection:
            return _state(connection, lane)

    def held(self) -> list[LaneChange]:
        """Returns the lanes that are not running, with the change that stopped each."""
        query = select(held_lanes).order_by(held_lanes.c.source_chain, held_lanes.c.destination_chain)
        return [_change(row) for row in self._database.read(query)]

    def history(self, lane: Lane | None = None) -> list[LaneChange]:
        """Returns every change of one lane or of all, oldest first."""
        query = select(lane_changes).order_by(lane_changes.c.sequence)
        if lane is not None:
            query = query.where(_is(lane_changes, lane))
        return [_change(row) for row in self._database.read(query)]


def _is(table: Any, lane: Lane) -> Any:
    return (table.c.source_chain == lane.source_chain) & (table.c.destination_chain == lane.destination_chain)


def _state(connection: Connection, lane: Lane) -> LaneState:
    found = connection.execute(select(held_lanes.c.state).where(_is(held_lanes, lane))).scalar()
    return LaneState.RUNNING if found is None else LaneState(found)


def _row(change: LaneChange) -> dict[str, Any]:
    return {
        "source_chain": change.lane.source_chain,
        "destination_chain": change.lane.destination_chain,
        "state": change.state.value,
        "reason": change.reason,
        "changed_by": change.by,
        "changed_at": change.at,
    }


def _change(row: RowMapping) -> LaneChange:
    return LaneChange(
        lane=Lane(row["source_chain"], row["destination_chain"]),
        state=LaneState(row["state"]),
        reason=row["reason"],
        by=row["changed_by"],
        at=row["changed_at"],
    )
