"""Reads the operational store. Needs no Spark; the index may be running."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from sqlalchemy import BigInteger, BindParameter, ColumnElement, Engine, bindparam, cast, func, select, text

from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.indexed import (
    ChainRecord,
    DivergenceRecord,
    DuplicateRecord,
    MessageRecord,
    PausedThing,
    PauseRecord,
    ReceiptRecord,
    with_diverged,
)
from bridge.protocol.message import Kind
from bridge.protocol.retry_requests import RetryRequest
from bridge.protocol.status import Status
from indexer.model.divergences import MEANINGS
from indexer.model.settings import StallPolicy
from indexer.store import tables
from indexer.store.analytics import GmpReceipt, Lane
from indexer.store.divergences import CONTRADICTIONS_AMONG, DIVERGENCES, DIVERGENCES_OF_MESSAGE
from indexer.store.effective_status import EFFECTIVE_STATUS, effective_status
from indexer.store.engine import reading_engine
from indexer.store.limits import saved_policy
from indexer.store.ranking import Dispatch, recent_dispatches
from indexer.store.records import QuarantinedLog
from indexer.store.retention import pruned_among
from indexer.store.tables import SEEN

Row = Mapping[str, Any]

_ENDS = ("executed_block", "expired_block", "cancelled_block", "outcome")
"""What a router says of an end; the destination's own events, and its report to the source."""

_AT_ONCE = 500
"""Ids in one query."""


class IndexReader:
    """Answers about messages and chains. Use it as a context manager."""

    def __init__(self, url: str, policy: StallPolicy | None = None, clock: Callable[[], float] = time.time) -> None:
        """Opens the store.

        Args:
            url: of the store, such as `IndexFolder.store_url`.
            policy: when a message counts as stalled; that of the index's last run if not given.
            clock: Unix seconds.

        Raises:
            IndexerError: there is no store, or a newer Waybill wrote it.
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
        """Reads the store."""
        return self._engine

    def close(self) -> None:
        """Closes the store."""
        self._engine.dispose()

    def messages(self, *, status: Status | None = None, limit: int = 100, offset: int = 0) -> list[MessageRecord]:
        """Messages, the newest first, those taken back by a reorg left out unless `status` asks for them."""
        if status is Status.ORPHANED:
            return self._orphans("order by block_time desc, message_id limit :limit offset :offset", limit, offset)
        if status is Status.DIVERGED:
            found = [one for one in map(self.message, self._contradicted()) if one is not None]
            found.sort(key=lambda one: (-(one.source_time or one.received_time or 0), one.message_id))
            return found[offset : offset + limit]
        wanted = "where effective_status = :status" if status else ""
        order = f"order by {SEEN} desc, coalesce(source_block, 0) desc, coalesce(nonce, 0) desc, message_id"
        rows = self._rows(
            f"select * from ({EFFECTIVE_STATUS}) o {wanted} {order} limit :limit offset :offset",
            status=status.value if status else None,
            limit=limit,
            offset=offset,
        )
        judged = self.judged(message_of(row) for row in rows)
        return [one for one in judged if status in (None, one.status)]

    def message(self, message_id: bytes) -> MessageRecord | None:
        """One message, or None if the index has never seen it."""
        rows = self._rows(f"select * from ({EFFECTIVE_STATUS}) o where message_id = :id", id=message_id)
        found = [message_of(row) for row in rows if row["source_block"] is not None]
        orphans = [] if found else self._orphans("where message_id = :id", id=message_id)
        return next(iter(self.judged(found or orphans or [message_of(row) for row in rows])), None)

    def judged(self, messages: Iterable[MessageRecord]) -> list[MessageRecord]:
        """The same messages, those DIVERGED that facts about them contradict."""
        messages = list(messages)
        contradicted = self._contradicted_among([one.message_id for one in messages])
        return [replace(one, status=Status.DIVERGED) if one.message_id in contradicted else one for one in messages]

    def statuses_of(self, message_ids: Collection[bytes]) -> dict[bytes, Status]:
        """The states of messages, as far as the store has them, before what contradicts about them is looked at."""
        return self._statuses(message_ids)

    def _statuses(self, message_ids: Collection[bytes], rest: str = "") -> dict[bytes, Status]:
        shown = effective_status("(select * from messages where message_id in :ids)")
        chosen = f"select message_id, effective_status from ({shown}) o {rest}"
        rows = (row for ids in _in_parts(message_ids) for row in self._rows(chosen, ids=ids))
        return {row["message_id"]: Status(row["effective_status"]) for row in rows}

    def _contradicted(self, divergences: Sequence[DivergenceRecord] | None = None) -> set[bytes]:
        """Ids of all messages that facts about them contradict."""
        found = self.divergences() if divergences is None else divergences
        return {one.message_id for one in found if one.message_id and one.contradicts_message}

    def _contradicted_among(self, message_ids: Collection[bytes]) -> set[bytes]:
        rows = (row for ids in _in_parts(message_ids) for row in self._rows(CONTRADICTIONS_AMONG, ids=ids))
        found = (
            _divergence({"source_chain": None, "destination_chain": None, "evidence": ""} | dict(row)) for row in rows
        )
        return {one.message_id for one in found if one.message_id and one.contradicts_message}

    def receipts(self, message_id: bytes) -> list[ReceiptRecord]:
        """What each GMP did for a message, by GMP number."""
        rows = self._rows("select * from receipts where message_id = :id order by gmp", id=message_id)
        return [ReceiptRecord(**_fields_of(ReceiptRecord, row)) for row in rows]

    def chains(self) -> list[ChainRecord]:
        """How far each chain has been read, by chain id."""
        # The plus keeps SQLite from counting by the chain's events: those with an error have an index of their own.
        rows = self._rows(
            """
            select c.*, :now - c.block_time as lag_seconds,
              (select count(*) from events e where +e.chain_id = c.chain_id and e.error is not null) as quarantined
            from chains c order by c.chain_id
            """
        )
        return [ChainRecord(**_fields_of(ChainRecord, row)) for row in rows]

    def pauses(self, chain_id: int) -> list[PauseRecord]:
        """The pauses that a chain's router told of, by their beginning."""
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

    def duplicates(self, *, limit: int = 1_000) -> list[DuplicateRecord]:
        """Deliveries that changed nothing, the newest first."""
        rows = self._rows(
            """
            select * from events where event = 'DuplicateAbsorbed' and error is null
            order by block_time desc, chain_id, block_number desc, log_index desc limit :limit
            """,
            limit=limit,
        )
        return [DuplicateRecord(**_fields_of(DuplicateRecord, row)) for row in rows]

    def divergences(self) -> list[DivergenceRecord]:
        """Facts that contradict one another: none is to be expected."""
        return self._divergences(DIVERGENCES)

    def divergences_of(self, message_id: bytes) -> list[DivergenceRecord]:
        """What contradicts what about one message, or about the fan-out that it is a part of."""
        return self._divergences(DIVERGENCES_OF_MESSAGE, id=message_id)

    def _divergences(self, found: str, **arguments: bytes) -> list[DivergenceRecord]:
        def place(one: DivergenceRecord) -> tuple[str, bytes, int, int, str]:
            return one.kind, one.message_id or b"", one.source_chain or 0, one.destination_chain or 0, one.evidence

        # Sorted here: a message can show one kind twice, and databases order text by locales of their own.
        return sorted((_divergence(row) for row in self._rows(found, **arguments)), key=place)

    def quarantined(self, *, limit: int = 1_000) -> list[QuarantinedLog]:
        """Logs that carry one of Waybill's events but can't be right, with the reason."""
        rows = self._rows(
            "select * from events where error is not null order by chain_id, block_number, log_index limit :limit",
            limit=limit,
        )
        return [QuarantinedLog(**_fields_of(QuarantinedLog, row)) for row in rows]

    def retry_requests(self, message_id: bytes | None = None) -> list[RetryRequest]:
        """Requests in the order they were written, of one message or of all."""
        chosen = select(tables.retry_requests).order_by(tables.retry_requests.c.sequence)
        if message_id is not None:
            chosen = chosen.where(tables.retry_requests.c.message_id == message_id)
        with self._engine.connect() as connection:
            return [RetryRequest.from_row(dict(row)) for row in connection.execute(chosen).mappings()]

    def counts_by_status(self, divergences: Sequence[DivergenceRecord] | None = None) -> dict[Status, int]:
        """How many routed messages are in each state, and how many are DIVERGED, routed or not.

        Args:
            divergences: those of `divergences()`, for callers that have them; computed if not given.
        """
        rows = self._rows(
            f"select effective_status, count(*) as number from ({EFFECTIVE_STATUS}) o "
            "where source_block is not null group by effective_status"
        )
        counts = {Status(row["effective_status"]): row["number"] for row in rows}
        contradicted = self._contradicted(divergences)
        routed = self._statuses(contradicted, "where source_block is not null")
        found = Counter(with_diverged(counts, routed))
        found[Status.DIVERGED] += len(contradicted - routed.keys())
        return dict(+found)

    def totals(self) -> Mapping[str, Any]:
        """Sums over all routed messages; see `indexer.jobs.report`."""
        message = tables.messages.c
        executed = message.executions > 0
        chosen = select(
            func.count().label("messages"),
            func.count().filter(executed).label("executed"),
            func.count().filter(message.executions > 1).label("executed_twice"),
            _sum(message.attempts).label("retries_sent"),
            func.count().filter(executed, message.attempts > 0).label("retries_executed"),
            _sum(message.duplicates).label("duplicates"),
            func.count().filter(executed, message.failures > 0).label("recovered"),
        ).where(message.source_block.is_not(None))
        requested = select(func.count()).select_from(tables.retry_requests)
        with self._engine.connect() as connection:
            sums = dict(connection.execute(chosen).mappings().one())
            return sums | {"retries_requested": connection.scalar(requested)}

    def late_receipts(self) -> int:
        """How many GMPs delivered a message that was executed already."""
        rows = self._rows(
            """
            select count(*) as number from receipts r join messages m on m.message_id = r.message_id
            where m.executions > 0
              and (r.received_block > m.executed_block
                   or (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index))
            """
        )
        return int(rows[0]["number"])

    def gmp_totals(self) -> dict[Gmp, Mapping[str, int]]:
        """Sums over all messages, by GMP."""
        rows = self._rows(
            """
            select gmp, cast(sum(dispatches) as bigint) as dispatched,
              cast(sum(dispatch_failures) as bigint) as dispatch_failures,
              count(received_block) as received, cast(sum(duplicates) as bigint) as duplicates
            from receipts group by gmp order by gmp
            """
        )
        known = {gmp.value for gmp in Gmp}
        return {Gmp(row["gmp"]): row for row in rows if row["gmp"] in known}

    def latencies(self) -> list[int]:
        """Seconds of block time from route to execution, of every executed message, ascending."""
        rows = self._rows(
            """
            select executed_time - source_time as seconds from messages
            where executions > 0 and source_time is not null order by 1
            """
        )
        return [row["seconds"] for row in rows]

    def deliveries(self, limit: int) -> list[GmpReceipt]:
        """The newest receipts of messages whose source is known, those of one message together."""
        rows = self._rows(
            """
            select r.message_id, m.source_chain, m.destination_chain, r.gmp, m.dispatched, m.quorum, m.source_time,
              coalesce(r.dispatched_time, m.source_time) as dispatched_time, r.received_time, m.executed_time, f.final_time, r.received_transaction, m.source_transaction, m.attempts,
              coalesce(r.received_block > m.executed_block or
                (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index), false) as was_late
            from (select * from messages where source_time is not null order by source_time desc limit :limit) m
            join receipts r on r.message_id = m.message_id
            left join final_times f on f.chain_id = m.destination_chain and f.block_number = m.executed_block
            where r.received_time is not null
            order by m.source_time desc, r.message_id, r.gmp limit :limit
            """,
            limit=limit,
        )
        return [
            GmpReceipt(
                message_id=row["message_id"],
                lane=(row["source_chain"], row["destination_chain"]),
                gmp=row["gmp"],
                dispatched=frozenset(number for number in range(1, 17) if row["dispatched"] >> (number - 1) & 1),
                quorum=row["quorum"],
                source_time=row["source_time"],
                dispatched_time=row["dispatched_time"],
                received_time=row["received_time"],
                executed_time=row["executed_time"],
                final_time=row["final_time"],
                was_late=bool(row["was_late"]),
                transaction=row["received_transaction"],
                source_transaction=row["source_transaction"],
                retried=(row["attempts"] or 0) > 0,
            )
            for row in rows
        ]

    def dispatches(self, limit: int) -> list[Dispatch]:
        """What GMPs took of the newest `limit` messages; see `indexer.store.ranking.recent_dispatches`."""
        with self._engine.connect() as connection:
            return recent_dispatches(connection, self._policy.stall_after, limit)

    def duplicates_by_day(self) -> dict[tuple[int, Lane, str], int]:
        """How many deliveries changed nothing, by GMP, lane and day (UTC)."""
        rows = self._rows(
            """
            select e.gmp, m.source_chain, m.destination_chain, e.block_time / 86400 as day, count(*) as number
            from events e join messages m on m.message_id = e.message_id
            where e.event = 'DuplicateAbsorbed' and e.error is null
            group by e.gmp, m.source_chain, m.destination_chain, e.block_time / 86400
            """
        )
        return {
            (row["gmp"], (row["source_chain"], row["destination_chain"]), day_of(row["day"])): row["number"]
            for row in rows
        }

    def pruned(self) -> int:
        """How many messages the store has pruned: the lake has them."""
        with self._engine.connect() as connection:
            return connection.scalar(select(_sum(tables.pruned_lanes.c.messages))) or 0

    def pruned_among(self, message_ids: Sequence[bytes]) -> set[bytes]:
        """Those of the messages that the store has pruned."""
        with self._engine.connect() as connection:
            return {one for ids in _in_parts(message_ids) for one in pruned_among(connection, ids)}

    def ids(self) -> list[bytes]:
        """Of the messages that the store has."""
        with self._engine.connect() as connection:
            return list(connection.scalars(select(tables.messages.c.message_id)))

    def _orphans(self, rest: str, limit: int = 1, offset: int = 0, **arguments: Any) -> list[MessageRecord]:
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
            offset=offset,
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


def _divergence(row: Row) -> DivergenceRecord:
    meaning = MEANINGS[row["kind"]]
    return DivergenceRecord(**row, severity=meaning.severity.value, next_action=meaning.next_action)


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    """Zero of no rows, and a whole number on every engine."""
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def day_of(number: int) -> str:
    """The date (UTC) of a day counted from 1970."""
    return datetime.fromtimestamp(number * 86_400, UTC).date().isoformat()


def _fields_of(record: type[Any], row: Row) -> dict[str, Any]:
    return {field.name: row[field.name] for field in fields(record)}


def message_of(row: Row) -> MessageRecord:
    """A message from a row of `effective_status`."""
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
    unknown: dict[str, Any] = dict.fromkeys(field.name for field in fields(MessageRecord)) | {"arrived_late": 0}
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
