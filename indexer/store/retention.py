"""What the store prunes: messages that ended long ago, all of whose events are kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, bindparam, case, delete, exists, insert, select, text, update

from bridge.protocol.status import Status
from indexer.store import tables
from indexer.store.finality import forget_final, noted_of
from indexer.store.traffic import take_out

_AT_ONCE: Final = 500  # messages in one transaction

PRUNED_BEFORE: Final = "pruned_before"
"""The fact that says up to which block time, in Unix seconds, messages have been pruned: nothing later may be missing."""

ENDED: Final = (Status.EXECUTED, Status.EXPIRED, Status.CANCELLED)
"""States after which nothing but late deliveries is to be expected."""


def prune(engine: Engine, before: int, kept: Mapping[int, int]) -> int:
    """Prunes messages that ended, and to which nothing has happened since.

    A late delivery brings a message back: the store then takes its events from the lake again.

    Args:
        engine: the store, for its writer.
        before: Unix seconds of block time.
        kept: by chain, the block up to which its events are kept elsewhere.

    Returns:
        How many messages went.
    """
    if not kept:
        return 0
    gone = 0
    while True:
        with engine.begin() as connection:
            rows = [dict(row) for row in connection.execute(_ended(before, kept).limit(_AT_ONCE)).mappings()]
            ids = [row["message_id"] for row in rows]
            noted = noted_of(connection, ids)
            take_out(connection, ids)
            for table in (tables.events, tables.messages, tables.receipts):
                connection.execute(delete(table).where(table.c.message_id.in_(ids)))
            forget_final(connection, noted)
            tally(connection, rows, 1)
            if ids:
                _note_pruned(connection, before)
        gone += len(ids)
        if len(ids) < _AT_ONCE:
            return gone


def _note_pruned(connection: Connection, before: int) -> None:
    fact = tables.facts.c
    noted = connection.scalar(select(fact.value).where(fact.name == PRUNED_BEFORE))
    if noted is None:
        connection.execute(insert(tables.facts).values(name=PRUNED_BEFORE, value=before))
    elif before > noted:
        connection.execute(update(tables.facts).where(fact.name == PRUNED_BEFORE).values(value=before))


def any_ended(engine: Engine, before: int, kept: Mapping[int, int]) -> bool:
    """Whether there is a message that `prune` would prune."""
    with engine.connect() as connection:
        return bool(kept) and connection.execute(_ended(before, kept).limit(1)).first() is not None


def _ended(before: int, kept: Mapping[int, int]) -> Select[Any]:
    message, event = tables.messages.c, tables.events.c
    last_kept = case(dict(kept), value=event.chain_id, else_=-1)
    holds = (event.block_time >= before) | (event.block_number > last_kept)
    return select(message.message_id, message.source_chain, message.source_router, message.destination_chain).where(
        message.status.in_([status.value for status in ENDED]),
        message.source_time < before,
        message.source_block.is_not(None),
        ~exists().where(event.message_id == message.message_id, holds),
    )


def tally(connection: Connection, messages: Iterable[Mapping[str, Any]], step: int) -> None:
    """Counts messages of each lane that the store no longer has: nonces are compared with all there ever were."""
    lane = tables.pruned_lanes.c
    for message in messages:
        key = {name: message[name] for name in ("source_chain", "source_router", "destination_chain")}
        same = [lane[name] == value for name, value in key.items()]
        changed = connection.execute(update(tables.pruned_lanes).where(*same).values(messages=lane.messages + step))
        if not changed.rowcount:
            connection.execute(insert(tables.pruned_lanes).values(**key, messages=step))


_PRUNED_OF: Final = text(
    "select message_id from events where message_id in :ids and event in ('MessageRouted', 'MessageUnfunded')"
).bindparams(bindparam("ids", expanding=True))


def described(connection: Connection, ids: list[bytes]) -> set[bytes]:
    """Those of the messages whose creation the store holds."""
    return set(connection.scalars(_PRUNED_OF, {"ids": ids})) if ids else set()


def has_pruned(connection: Connection) -> bool:
    """Whether the store has ever pruned a message."""
    return connection.execute(text("select 1 from pruned_lanes limit 1")).first() is not None
