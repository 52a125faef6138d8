"""Retention: prunes messages that ended long ago and whose events are all in the lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, bindparam, case, delete, exists, insert, select, text, update

from bridge.protocol.status import Status
from indexer.store import tables

_AT_ONCE: Final = 500  # messages in one transaction
_pruned: Final = tables.pruned_messages.c

ENDED: Final = (Status.EXECUTED, Status.EXPIRED, Status.CANCELLED)
"""States after which only late deliveries can occur."""


def prune(engine: Engine, before: int, kept: Mapping[int, int]) -> int:
    """Prunes messages that ended before a time and have had no event since.

    Each message's lane, payload hash, creation, end and dispatched GMPs are kept, so that late receipts can be checked.

    Args:
        engine: writing engine of the store.
        before: Unix seconds of block time.
        kept: last block in the lake, by chain.

    Returns:
        Number of pruned messages.
    """
    if not kept:
        return 0
    gone = 0
    while True:
        with engine.begin() as connection:
            rows = [dict(row) for row in connection.execute(_ended(before, kept).limit(_AT_ONCE)).mappings()]
            ids = [row["message_id"] for row in rows]
            for table in (tables.events, tables.messages, tables.receipts):
                connection.execute(delete(table).where(table.c.message_id.in_(ids)))
            _remember(connection, rows)
        gone += len(ids)
        if len(ids) < _AT_ONCE:
            return gone


def _ended(before: int, kept: Mapping[int, int]) -> Select[Any]:
    message, event = tables.messages.c, tables.events.c
    last_kept = case(dict(kept), value=event.chain_id, else_=-1)
    holds = (event.block_time >= before) | (event.block_number > last_kept)
    return select(*(message[column.name] for column in tables.pruned_messages.c)).where(
        message.status.in_([status.value for status in ENDED]),
        message.source_time < before,
        message.source_block.is_not(None),
        ~exists().where(event.message_id == message.message_id, holds),
    )


def _remember(connection: Connection, messages: Sequence[Mapping[str, Any]]) -> None:
    """Stores the fields needed to check late receipts, and counts each lane's messages.

    Skips messages that were pruned before.
    """
    ids = [message["message_id"] for message in messages]
    there = set(connection.scalars(select(_pruned.message_id).where(_pruned.message_id.in_(ids))))
    new = [dict(message) for message in messages if message["message_id"] not in there]
    if new:
        connection.execute(insert(tables.pruned_messages), new)
    _count_lanes(connection, new)


def _count_lanes(connection: Connection, messages: Iterable[Mapping[str, Any]]) -> None:
    """Counts the pruned messages of each lane, so that gaps between nonces can be detected."""
    lane = tables.pruned_lanes.c
    names = ("source_chain", "source_router", "destination_chain")
    for values, number in Counter(tuple(message[name] for name in names) for message in messages).items():
        key = dict(zip(names, values, strict=True))
        same = [lane[name] == value for name, value in key.items()]
        changed = connection.execute(update(tables.pruned_lanes).where(*same).values(messages=lane.messages + number))
        if not changed.rowcount:
            connection.execute(insert(tables.pruned_lanes).values(**key, messages=number))


_COMPLETE: Final = text(
    """
    update messages set
      status = p.status, source_chain = p.source_chain, source_router = p.source_router,
      destination_chain = p.destination_chain, payload_hash = p.payload_hash, source_block = p.source_block,
      source_time = p.source_time, dispatched = p.dispatched, conflicts = 0, cancelled_unasked = false,
      payload_differs = exists (
        select 1 from events e where e.message_id = messages.message_id and e.payload_hash <> p.payload_hash
      )
    from pruned_messages p
    where p.message_id = messages.message_id and messages.message_id in :ids and messages.source_block is null
    """
).bindparams(bindparam("ids", expanding=True))


def complete_pruned(connection: Connection, ids: Sequence[bytes]) -> None:
    """Completes the rows of pruned messages that have late events, from the fields kept of their creation."""
    connection.execute(_COMPLETE, {"ids": ids})


def pruned_among(connection: Connection, ids: Iterable[bytes]) -> set[bytes]:
    """Returns which of the messages the store has pruned."""
    return set(connection.scalars(select(_pruned.message_id).where(_pruned.message_id.in_(list(ids)))))


def has_pruned(connection: Connection) -> bool:
    """Returns whether the store has ever pruned a message."""
    return connection.execute(text("select 1 from pruned_lanes limit 1")).first() is not None
