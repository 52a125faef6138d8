"""Stall limits: the seconds after which a message counts as stalled, by lane and kind."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Engine, delete, insert, select, text

from bridge.protocol.message import Kind
from indexer.model.settings import StallPolicy
from indexer.store import tables

_LANES: Final = text(
    "select distinct source_chain, destination_chain from messages where destination_chain is not null"
)


def set_limits(engine: Engine, policy: StallPolicy) -> None:
    """Writes the limits that differ from `policy.stall_after`, for all lanes with messages.

    The lane's own limit takes precedence over the kind's.

    Args:
        engine: writing engine of the store.
        policy: limits set by the operator.
    """
    with engine.begin() as connection:
        rows = [
            {"source_chain": source, "destination_chain": destination, "kind": int(kind), "seconds": seconds}
            for source, destination in connection.execute(_LANES).all()
            for kind in Kind
            if (seconds := policy.by_lane.get((source, destination)) or policy.by_kind.get(kind)) is not None
        ]
        connection.execute(delete(tables.stall_limits))
        if rows:
            connection.execute(insert(tables.stall_limits), rows)


def saved_policy(engine: Engine) -> StallPolicy:
    """Returns the policy of the index's last run."""
    names = ("stall_after", "max_lag", "silence_after")
    chosen = select(tables.facts.c.name, tables.facts.c.value).where(tables.facts.c.name.in_(names))
    with engine.connect() as connection:
        return StallPolicy(**{row.name: row.value for row in connection.execute(chosen)})
