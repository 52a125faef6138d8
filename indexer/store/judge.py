"""Judges messages that are not in the store by the store's own SQL, in a database in memory that is empty again afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import RowMapping, insert, text

from indexer.model.settings import StallPolicy
from indexer.store import tables
from indexer.store.effective_status import EFFECTIVE_STATUS
from indexer.store.engine import writing_engine
from indexer.store.limits import write_limits
from indexer.store.retries import arguments_of, overdue
from indexer.store.store import derive, parts, recompute_pauses

_JUDGED: Final = text(
    f"""
    select o.message_id, o.source_chain, o.destination_chain, o.status, o.effective_status, o.retriable, o.deadline,
      o.attempts, o.message_id in (select message_id from ({overdue()}) v) as is_overdue
    from ({EFFECTIVE_STATUS}) o
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMessage:
    """What the store would say of a message if it had its events.

    Attributes:
        status: by its own events.
        effective_status: with what time adds.
        deadline: Unix seconds by the destination's clock, before which it can't be stalled; it moves on during pauses.
        attempts: number of the last attempt; None if it was never dispatched.
        is_overdue: a retry is to be requested, unless one was.
    """

    message_id: bytes
    source_chain: int | None
    destination_chain: int | None
    status: str
    effective_status: str
    retriable: bool
    deadline: int | None
    attempts: int | None
    is_overdue: bool


class Judge:
    """An empty store in memory. Use it from one thread."""

    def __init__(self) -> None:
        """Makes the tables."""
        self._engine = writing_engine("sqlite://")

    def judge(
        self,
        policy: StallPolicy,
        events: Sequence[Mapping[str, Any]],
        clocks: Mapping[int, int],
        now: int,
    ) -> list[JudgedMessage]:
        """What to say of the messages that events are about.

        Args:
            policy: what stalled means; limits that are learned are not.
            events: rows of `schemas.EVENTS`, all of these messages and all about the routers.
            clocks: by chain, the time of the last block read, Unix seconds.
            now: Unix seconds.
        """
        if not events:
            return []
        with self._engine.connect() as connection, connection.begin() as transaction:
            connection.execute(insert(tables.events), list(events))
            connection.execute(insert(tables.chains), [_chain(*clock) for clock in clocks.items()])
            for part in parts({event["message_id"] for event in events if event["message_id"] is not None}):
                derive(connection, part)
            for chain in {event["chain_id"] for event in events if event["message_id"] is None}:
                recompute_pauses(connection, chain)
            write_limits(connection, replace(policy, learn=False))
            found = connection.execute(_JUDGED, arguments_of(policy, now)).mappings().all()
            transaction.rollback()
        return [_judged(row) for row in found]


def _judged(row: RowMapping) -> JudgedMessage:
    flags = {"retriable": bool(row["retriable"]), "is_overdue": bool(row["is_overdue"])}
    return JudgedMessage(**{**row, **flags})


def _chain(chain: int, block_time: int) -> dict[str, Any]:
    """A row of `chains` of which only the clock matters."""
    numbers = dict.fromkeys(("block", "final_block", "head_block"), 0)
    hashes = dict.fromkeys(("block_hash", "hashes", "final_hash"), b"")
    return {"chain_id": chain, "block_time": block_time, **numbers, **hashes}
