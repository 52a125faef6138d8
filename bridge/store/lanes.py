"""Pauses and halts of lanes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, exists, insert, select

from bridge.protocol.lanes import Lane, LaneChange, LaneState, takes_effect
from bridge.store.database import Database
from bridge.store.tables import lane_changes

_LATER = lane_changes.alias()
HOLDS = (lane_changes.c.state != LaneState.RUNNING) & ~exists().where(
    _LATER.c.source_chain == lane_changes.c.source_chain,
    _LATER.c.destination_chain == lane_changes.c.destination_chain,
    _LATER.c.sequence > lane_changes.c.sequence,
)
"""Whether a change is its lane's last one, and stopped the lane."""


class Lanes:
    """Stores the lanes' states. Every method is one transaction; `Outbox.claim` respects a change immediately."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def change(self, change: LaneChange) -> bool:
        """Changes a lane's state; returns whether anything changed.

        A pause does not replace a halt, because the cause of a halt must be fixed first. Only `RUNNING` ends a
        pause or a halt.
        """
        with self._database.transaction(exclusive="lanes") as connection:
            if not takes_effect(_state(connection, change.lane), change.state):
                return False
            connection.execute(insert(lane_changes).values(**_row(change)))
        return True

    def state(self, lane: Lane) -> LaneState:
        """Returns one lane's state; a lane that was never changed is running."""
        with self._database.reading() as connection:
            return _state(connection, lane)

    def held(self) -> list[LaneChange]:
        """Returns the lanes that are not running, with the change that stopped each."""
        order = (lane_changes.c.source_chain, lane_changes.c.destination_chain)
        return [_change(row) for row in self._database.read(select(lane_changes).where(HOLDS).order_by(*order))]

    def history(self, lane: Lane | None = None) -> list[LaneChange]:
        """Returns every change of one lane or of all, oldest first."""
        query = select(lane_changes).order_by(lane_changes.c.sequence)
        if lane is not None:
            query = query.where(_is(lane))
        return [_change(row) for row in self._database.read(query)]


def _is(lane: Lane) -> ColumnElement[bool]:
    changes = lane_changes.c
    return (changes.source_chain == lane.source_chain) & (changes.destination_chain == lane.destination_chain)


def _state(connection: Connection, lane: Lane) -> LaneState:
    last = select(lane_changes.c.state).where(_is(lane)).order_by(lane_changes.c.sequence.desc()).limit(1)
    found = connection.execute(last).scalar()
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
