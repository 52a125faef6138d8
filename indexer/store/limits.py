"""After how many seconds a message counts as stalled, by lane and kind: as told, or as the lane itself has shown."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Engine, delete, insert, select, text

from bridge.protocol.message import Kind
from bridge.protocol.numbers import percentile
from indexer.model.settings import StallPolicy
from indexer.store import tables

_ENOUGH: Final = 50  # executed messages from which a lane's limit is learned
_NEWEST: Final = 1_000  # of them that count
_FACTOR: Final = 3  # times the 99th percentile
_SHORTEST: Final = 60  # seconds

_LANES: Final = text(
    "select distinct source_chain, destination_chain from messages where destination_chain is not null"
)
_LATENCIES: Final = text(
    """
    select executed_time - source_time as seconds from messages
    where source_chain = :source and destination_chain = :destination and executions > 0 and source_time is not null
      and attempts = 0
    order by source_time desc, message_id limit :newest
    """
)


def set_limits(engine: Engine, policy: StallPolicy) -> None:
    """Writes the limits that differ from `policy.stall_after`: a lane's own, else the kind's, else what it has shown.

    Learned is three times the 99th percentile of the lane's newest 1,000 executed messages that needed no retry, once there
    are 50; at least a minute, at most four times `stall_after`. Retries are left out: they would teach it patience.

    Args:
        engine: the store, for its writer.
        policy: what is told.
    """
    with engine.begin() as connection:
        write_limits(connection, policy)


def write_limits(connection: Connection, policy: StallPolicy) -> None:
    """See `set_limits`, within a transaction."""
    rows = [row for lane in connection.execute(_LANES).all() for row in _of_lane(connection, policy, tuple(lane))]
    connection.execute(delete(tables.stall_limits))
    if rows:
        connection.execute(insert(tables.stall_limits), rows)


def _of_lane(connection: Connection, policy: StallPolicy, lane: tuple[int, int]) -> list[dict[str, Any]]:
    told = policy.by_lane.get(lane)
    learned = _learned(connection, policy, lane) if policy.learn and told is None else None
    limits = {kind: told or policy.by_kind.get(kind) or learned for kind in Kind}
    return [
        {"source_chain": lane[0], "destination_chain": lane[1], "kind": int(kind), "seconds": seconds}
        for kind, seconds in limits.items()
        if seconds is not None
    ]


def _learned(connection: Connection, policy: StallPolicy, lane: tuple[int, int]) -> int | None:
    arguments = {"source": lane[0], "destination": lane[1], "newest": _NEWEST}
    seconds = sorted(connection.scalars(_LATENCIES, arguments))
    if len(seconds) < _ENOUGH:
        return None
    return min(max(_FACTOR * percentile(seconds, 0.99), _SHORTEST), 4 * policy.stall_after)


def saved_policy(engine: Engine) -> StallPolicy:
    """What the index's last run took for stalled and for silent."""
    names = ("stall_after", "max_lag", "silence_after")
    chosen = select(tables.facts.c.name, tables.facts.c.value).where(tables.facts.c.name.in_(names))
    with engine.connect() as connection:
        return StallPolicy(**{row.name: row.value for row in connection.execute(chosen)})
