"""Reads the operational store. Needs no Spark. The index may be running."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, Self

from sqlalchemy import BindParameter, Engine, bindparam, select, text

from bridge.protocol.gmps import gmps_from_bits
from bridge.protocol.indexed import (
    ChainRecord,
    DivergenceRecord,
    MessageRecord,
    PausedThing,
    PauseRecord,
    ReceiptRecord,
)
from bridge.protocol.message import Kind
from bridge.protocol.retry_requests import RetryRequest
from bridge.protocol.status import Status
from indexer.model.divergences import divergence_record, in_order
from indexer.model.settings import StallPolicy
from indexer.store import tables
from indexer.store.divergences import CONTRADICTIONS_AMONG, DIVERGENCES, DIVERGENCES_OF_MESSAGE
from indexer.store.effective_status import EFFECTIVE_STATUS, effective_status
from indexer.store.engine import reading_engine
from indexer.store.limits import saved_policy
from indexer.store.tables import SEEN

Row = Mapping[str, Any]

_ENDS = ("executed_block", "expired_block", "cancelled_block", "outcome")
"""Columns that show how a message ended: the destination's own events, and its report to the source."""

_AT_ONCE = 500
"""Maximum number of ids in one query."""


class IndexReader:
    """Queries about messages and chains. Use it as a context manager."""

    def __init__(self, url: str, policy: StallPolicy | None = None, clock: Callable[[], float] = time.time) -> None:
        """Opens the store.

        Args:
            url: URL of the store, such as `IndexFolder.store_url`.
            policy: stall policy; by default that of the index's last run.
            clock: returns Unix seconds.

        Raises:
            IndexerError: there is no store, or a newer version of Waybill wrote it.
        """
        self._engine = reading_engine(url)
        self._policy = policy or saved_policy(self._engine)
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        """Returns the reading engine of the store."""
        return self._engine

    def close(self) -> None:
        """Closes the store."""
        self._engine.dispose()

    def messages(self, *, status: Status | None = None, limit: int = 100) -> list[MessageRecord]:
        """Returns messages, newest first. Messages that a reorg removed are returned only if `status` is ORPHANED."""
        if status is Status.ORPHANED:
            return self._orphans("order by block_time desc, message_id limit :limit", limit)
        if status is Status.DIVERGED:
            found = [one for one in map(self.message, self._contradicted()) if one is not None]
            found.sort(key=lambda one: (-(one.source_time or one.received_time or 0), one.message_id))
            return found[:limit]
        wanted = "where effective_status = :status" if status else ""
        order = f"order by {SEEN} desc, coalesce(source_block, 0) desc, coalesce(nonce, 0) desc, message_id"
        rows = self._rows(
            f"select * from ({EFFECTIVE_STATUS}) o {wanted} {order} limit :limit",
            status=status.value if status else None,
            limit=limit,
        )
        judged = self.judged(message_of(row) for row in rows)
        return [one for one in judged if status in (None, one.status)]

    def message(self, message_id: bytes) -> MessageRecord | None:
        """Returns a message, or None if the index has never seen it."""
        rows = self._rows(f"select * from ({EFFECTIVE_STATUS}) o where message_id = :id", id=message_id)
        found = [message_of(row) for row in rows if row["source_block"] is not None]
        orphans = [] if found else self._orphans("where message_id = :id", id=message_id)
        return next(iter(self.judged(found or orphans or [message_of(row) for row in rows])), None)

    def judged(self, messages: Iterable[MessageRecord]) -> list[MessageRecord]:
        """Returns the messages with the status DIVERGED for those that have a contradiction."""
        messages = list(messages)
        contradicted = self._contradicted_among([one.message_id for one in messages])
        return [replace(one, status=Status.DIVERGED) if one.message_id in contradicted else one for one in messages]

    def statuses_of(self, message_ids: Collection[bytes]) -> dict[bytes, Status]:
        """Returns the states of messages in the store, ignoring divergences."""
        shown = effective_status("(select * from messages where message_id in :ids)")
        chosen = f"select message_id, effective_status from ({shown}) o"
        rows = (row for ids in _in_parts(message_ids) for row in self._rows(chosen, ids=ids))
        return {row["message_id"]: Status(row["effective_status"]) for row in rows}

    def _contradicted(self, divergences: Sequence[DivergenceRecord] | None = None) -> set[bytes]:
        """Returns the ids of all messages with a contradiction."""
        found = self.divergences() if divergences is None else divergences
        return {one.message_id for one in found if one.message_id and one.contradicts_message}

    def _contradicted_among(self, message_ids: Collection[bytes]) -> set[bytes]:
        rows = (row for ids in _in_parts(message_ids) for row in self._rows(CONTRADICTIONS_AMONG, ids=ids))
        found = (
            divergence_record({"source_chain": None, "destination_chain": None, "evidence": ""} | dict(row))
            for row in rows
        )
        return {one.message_id for one in found if one.message_id and one.contradicts_message}

    def receipts(self, message_id: bytes) -> list[ReceiptRecord]:
        """Returns a message's receipts, by GMP."""
        rows = self._rows("select * from receipts where message_id = :id order by gmp", id=message_id)
        return [ReceiptRecord(**_fields_of(ReceiptRecord, row)) for row in rows]

    def chains(self) -> list[ChainRecord]:
        """Returns each chain's progress, by chain id."""
        rows = self._rows("select c.*, :now - c.block_time as lag_seconds from chains c order by c.chain_id")
        return [ChainRecord(**_fields_of(ChainRecord, row)) for row in rows]

    def pauses(self, chain_id: int) -> list[PauseRecord]:
        """Returns the pauses on a chain's router, in order of their start."""
        rows = self._rows(
            """
            select kind as thing, other_chain as number, begins, ends from pauses where chain_id = :chain
            union all
            select 'gmp', gmp, block_time, until from (
              select gmp, block_time, until,
                row_number() over (partition by gmp order by block_number desc, log_index desc) as nth
              from events
              where event = 'GmpPauseSet' and message_id is null and error is null and chain_id = :chain
            ) newest where nth = 1
            order by 3, 1, 2
            """,
            chain=chain_id,
        )
        return [PauseRecord(**{**row, "thing": PausedThing(row["thing"])}) for row in rows]

    def divergences(self) -> list[DivergenceRecord]:
        """Returns all divergences of lanes and of messages in the store."""
        return self._divergences(DIVERGENCES)

    def divergences_of(self, message_id: bytes) -> list[DivergenceRecord]:
        """Returns the divergences of one message, and of its fan-out."""
        return self._divergences(DIVERGENCES_OF_MESSAGE, id=message_id)

    def _divergences(self, found: str, **arguments: bytes) -> list[DivergenceRecord]:
        return in_order(divergence_record(row) for row in self._rows(found, **arguments))

    def retry_requests(self) -> list[RetryRequest]:
        """Returns the retry requests in the order in which they were written."""
        chosen = select(tables.retry_requests).order_by(tables.retry_requests.c.sequence)
        with self._engine.connect() as connection:
            return [RetryRequest.from_row(dict(row)) for row in connection.execute(chosen).mappings()]

    def _orphans(self, rest: str, limit: int = 1, **arguments: Any) -> list[MessageRecord]:
        rows = self._rows(
            f"""
            select o.*,
              (select m.message_id from messages m
               where m.source_chain = o.chain_id and m.source_transaction = o.transaction_hash
                 and m.recipient = o.recipient and m.payload_hash = o.payload_hash
               order by m.message_id limit 1) as replaced_by
            from orphans o {rest}
            """,
            limit=limit,
            **arguments,
        )
        return [_orphan(row) for row in rows]

    def _rows(self, statement: str, **arguments: Any) -> list[Row]:
        policy = {
            "now": int(self._clock()),
            "stall_after": self._policy.stall_after,
            "max_lag": self._policy.max_lag,
            "silence_after": self._policy.silence_after,
        }
        lists: Iterable[BindParameter[Any]] = (
            bindparam(name, expanding=True) for name, value in arguments.items() if isinstance(value, list)
        )
        with self._engine.connect() as connection:
            found = connection.execute(text(statement).bindparams(*lists), policy | arguments)
            return [dict(row) for row in found.mappings()]


def _in_parts(ids: Collection[bytes]) -> list[list[bytes]]:
    every = sorted(set(ids))
    return [every[first : first + _AT_ONCE] for first in range(0, len(every), _AT_ONCE)]


def _fields_of(record: type[Any], row: Row) -> dict[str, Any]:
    return {field.name: row[field.name] for field in fields(record)}


def message_of(row: Row) -> MessageRecord:
    """Decodes a row of `effective_status`."""
    values = {field.name: row[field.name] for field in fields(MessageRecord) if field.name in row}
    gas_limit = row["gas_limit"]
    return MessageRecord(
        **values
        | {
            "status": Status(row["effective_status"]),
            "kind": None if row["kind"] is None else Kind(row["kind"]),
            "gas_limit": None if gas_limit is None else gas_limit % (1 << 64),
            "retriable": bool(row["retriable"]),
            "is_ended": any(row[end] is not None for end in _ENDS),
            "dispatched": gmps_from_bits(row["dispatched"]),
            "received": gmps_from_bits(row["received"]),
            "receipts": row["counted"],
            "quorum": row["needed"],
        }
    )


def _orphan(row: Row) -> MessageRecord:
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(MessageRecord))
    return MessageRecord(
        **unknown
        | {
            "message_id": row["message_id"],
            "status": Status.ORPHANED,
            "source_chain": row["chain_id"],
            "destination_chain": row["destination_chain"],
            "sender": row["sender"],
            "recipient": row["recipient"],
            "payload_hash": row["payload_hash"],
            "source_block": row["block_number"],
            "source_time": row["block_time"],
            "source_transaction": row["transaction_hash"],
            "retriable": False,
            "dispatched": frozenset(),
            "received": frozenset(),
            "receipts": 0,
            "executions": 0,
            "failures": 0,
            "duplicates": 0,
            "replaced_by": row["replaced_by"],
        }
    )
