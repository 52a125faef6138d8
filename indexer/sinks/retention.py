"""What the store lets go of: messages that ended long ago, all of whose events are in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Engine, bindparam, delete, insert, text, update

from bridge.protocol.status import Status
from indexer.sinks import tables
from indexer.sinks.finality import executions_of, forget_final

_AT_ONCE: Final = 500  # messages in one transaction

ENDED: Final = (Status.EXECUTED, Status.EXPIRED, Status.CANCELLED)
"""States after which nothing but late deliveries is to be expected."""

_CHOSEN: Final = text(
    f"""
    select m.message_id, m.source_chain, m.source_router, m.destination_chain from messages m
    where m.status in ({", ".join(f"'{status.value}'" for status in ENDED)}) and m.source_time < :before
      and m.source_block is not null
      and not exists (
        select 1 from events e join chains c on c.chain_id = e.chain_id
        where e.message_id = m.message_id
          and (e.block_time >= :before or c.lake_block is null or e.block_number > c.lake_block)
      )
    limit :at_once
    """
)


def prune(engine: Engine, before: int) -> int:
    """Lets go of messages that ended, and to which nothing has happened since.

    A late delivery brings a message back: the store then takes its events from the lake again.

    Args:
        engine: the store, for its writer.
        before: Unix seconds of block time.

    Returns:
        How many messages went.
    """
    gone = 0
    while True:
        with engine.begin() as connection:
            chosen = connection.execute(_CHOSEN, {"before": before, "at_once": _AT_ONCE}).mappings()
            rows = [dict(row) for row in chosen]
            ids = [row["message_id"] for row in rows]
            executions = executions_of(connection, ids)
            for table in (tables.events, tables.messages, tables.receipts):
                connection.execute(delete(table).where(table.c.message_id.in_(ids)))
            forget_final(connection, executions)
            tally(connection, rows, 1)
        gone += len(ids)
        if len(ids) < _AT_ONCE:
            return gone


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
    """Whether the store has ever let go of a message."""
    return connection.execute(text("select 1 from pruned_lanes limit 1")).first() is not None
