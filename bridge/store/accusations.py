"""Accusations that the tripwire makes against GMPs, and the action taken on each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import RowMapping, select, update

from bridge.store.database import Database, insert_into
from bridge.store.positions import TRIPWIRE, move, position
from bridge.store.tables import accusations


class AccusationState(StrEnum):
    """The action taken on an accusation."""

    OPEN = "OPEN"  # the pause is not included yet
    PAUSED = "PAUSED"
    NOT_PAUSED = "NOT_PAUSED"  # the router rejects the pause, or an operator has to decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """An accusation that a GMP delivered a message which the source chain never dispatched over it.

    Attributes:
        chain_id: Destination chain, which holds the receipt.
        gmp: GMP that delivered.
        message_id: Message that the receipt is for.
        kind: Kind of divergence.
        evidence: Both facts, read again from the chains, as JSON.
        found_at: Unix seconds when the divergence was found.
        state: The action taken.
        paused_until: End of the pause in Unix seconds of the destination; None unless PAUSED.
        reason: Reason why the GMP was not paused, if the state is NOT_PAUSED.
        is_reported: Whether every alert channel has accepted the accusation.
    """

    chain_id: int
    gmp: int
    message_id: bytes
    kind: str
    evidence: Mapping[str, Any]
    found_at: float
    state: AccusationState = AccusationState.OPEN
    paused_until: int | None = None
    reason: str = ""
    is_reported: bool = False

    @property
    def key(self) -> tuple[int, int, bytes]:
        """Returns the accusation's unique key. A GMP is accused at most once per message and chain."""
        return self.chain_id, self.gmp, self.message_id


class Accusations:
    """Stores accusations, which are few and never deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, accusation: Accusation) -> None:
        """Adds an accusation; an existing one is left unchanged."""
        with self._database.transaction() as connection:
            connection.execute(insert_into(connection, accusations).values(_row(accusation)).on_conflict_do_nothing())

    def save(self, accusation: Accusation) -> None:
        """Updates an accusation."""
        columns = accusations.c
        its_own = (columns.chain_id, columns.gmp, columns.message_id)
        chosen = [column == value for column, value in zip(its_own, accusation.key, strict=True)]
        with self._database.transaction() as connection:
            connection.execute(update(accusations).where(*chosen).values(_row(accusation)))

    def all(self) -> list[Accusation]:
        """Returns every accusation, oldest first."""
        order = (accusations.c.found_at, accusations.c.chain_id, accusations.c.gmp)
        return [_accusation(row) for row in self._database.read(select(accusations).order_by(*order))]

    def note_look(self, at: float) -> None:
        """Records when the tripwire last compared all divergences (Unix seconds)."""
        with self._database.transaction() as connection:
            move(connection, TRIPWIRE, int(at))

    def looked_at(self) -> int | None:
        """Returns when the tripwire last compared all divergences (Unix seconds), or None if it never has."""
        with self._database.reading() as connection:
            return position(connection, TRIPWIRE)


def _row(accusation: Accusation) -> dict[str, Any]:
    return {**asdict(accusation), "evidence": json.dumps(dict(accusation.evidence)), "state": accusation.state.value}


def _accusation(row: RowMapping) -> Accusation:
    values = dict(row)
    return Accusation(
        **values | {"evidence": json.loads(values["evidence"]), "state": AccusationState(values["state"])}
    )
