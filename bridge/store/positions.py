"""Positions of readers in ordered sequences: the index's retry requests, the log of dead letters, the tripwire's comparisons."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, select

from bridge.store.database import insert_into
from bridge.store.tables import positions

RETRY_REQUESTS: Final = "retry requests"
"""The last retry request that was copied from the index."""

LETTER_HEAD: Final = "head of dead letters"
"""The last record seen in the log of dead letters, which may be in another database."""

TRIPWIRE: Final = "tripwire"
"""When the tripwire last compared all divergences, in Unix seconds."""


def position(connection: Connection, reader: str) -> int | None:
    """Returns a reader's position, or None before the first."""
    return connection.execute(select(positions.c.sequence).where(positions.c.reader == reader)).scalar()


def position_hash(connection: Connection, reader: str) -> bytes | None:
    """Returns the hash of the record at a reader's position."""
    return connection.execute(select(positions.c.hash).where(positions.c.reader == reader)).scalar()


def move(connection: Connection, reader: str, sequence: int, record_hash: bytes | None = None) -> None:
    """Stores a reader's position."""
    values = {"sequence": sequence, "hash": record_hash}
    added = insert_into(connection, positions).values(reader=reader, **values)
    connection.execute(added.on_conflict_do_update(index_elements=["reader"], set_=values))
