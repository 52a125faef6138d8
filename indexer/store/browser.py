"""Paginated queries for the explorer. They take bounded time for any size of the store, and need no Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain, repeat
from typing import Any, Final

from bridge.protocol.indexed import (
    DivergenceRecord,
    DuplicateRecord,
    EventRecord,
    LaneCheckRecord,
    MessageFilter,
    MessagePage,
    Position,
    Tally,
    with_diverged,
)
from bridge.protocol.status import Status
from indexer.store.effective_status import effective_status
from indexer.store.reader import IndexReader, Row, message_of
from indexer.store.tables import SEEN

SCANNED: Final = 500
"""Maximum number of messages that one page scans where no index selects them; the next page continues there."""


_LASTING: Final = (Status.EXECUTED, Status.CANCELLED, Status.DIVERGED)
"""States that are shown as they are stored. Any other stored state may be shown as a different one, depending on time."""

_PASSING: Final = tuple(status for status in Status if status not in (*_LASTING, Status.ORPHANED))

_TIME_MAKES: Final = (Status.STALLED, Status.EXPIRED, Status.UNKNOWN)
"""States that may be shown for messages stored in a different state; see `pipeline/sql/effective_status.sql`."""

_UNDECIDED: Final = (
    Status.UNFUNDED,
    Status.ROUTED,
    Status.RECEIVED,
    Status.EXECUTION_FAILED,
    Status.EXECUTION_DEFERRED,
)
"""Stored states of messages whose end only the report to the source shows if their destination is not indexed."""

_REPORTED_AS: Final = {Status.EXECUTED: 1, Status.CANCELLED: 3}

_ON_SOURCE: Final = "'MessageIdCreated', 'MessageRouted', 'MessageUnfunded', 'MessageRetried', 'DispatchFailed', 'CancellationRequested'"
_REPORTED: Final = "'OutcomeReported', 'OutcomeContradicted'"

_AMONG: Final = 10_000
"""Maximum number of ids in one query."""

_BY_STATUS: Final = "effective_status = :status"
_LANE: Final = ("source_chain = :source_chain and destination_chain = :destination_chain",)


class IndexBrowser(IndexReader):
    """Answers the explorer's queries."""

    def page(self, wanted: MessageFilter, *, after: Position | None = None, limit: int = 50) -> MessagePage:
        """Returns messages, newest first.

        Args:
            wanted: the filter. Filtering by DIVERGED takes as long as `divergences`, unless `wanted.among`
                lists the messages.
            after: end of the previous page; None for the first page.
            limit: maximum number of messages.
        """
        if wanted.status is Status.ORPHANED:
            orphans = tuple(self.messages(status=Status.ORPHANED, limit=limit))
            return MessagePage(messages=orphans, next=None, looked_at=len(orphans))
        if wanted.status is Status.DIVERGED and wanted.among is None:
            wanted = replace(wanted, among=frozenset(self._contradicted()))
        looked_at = _looked_at(wanted, continued=after is not None)
        conditions = _filter(wanted)
        judged = f"where {' and '.join(conditions)}" if conditions else ""
        # Nearly all rows that an index finds by a lasting status match the filter.
        by_index = not conditions or (conditions == [_BY_STATUS] and wanted.status in _LASTING)
        scanned = limit + 1 if by_index else SCANNED
        arguments = _arguments(wanted) | {"scanned": scanned}
        if after is not None:
            arguments |= {"after_seen": after.seen, "after_id": after.message_id}
        shown = effective_status("(select w.* from looked_at k join messages w on w.message_id = k.message_id)")
        rows = self._rows(
            f"""
            with looked_at as materialized ({looked_at}),
            edge as (
              select count(*) over () as number, seen as edge_seen, message_id as edge_id
              from looked_at order by seen, message_id limit 1
            )
            select * from edge left join (select * from ({shown}) o {judged}) found on true
            order by {SEEN} desc, message_id desc limit :limit
            """,
            **arguments,
            limit=limit + 1,
        )
        found = [row for row in rows if row["message_id"] is not None]
        messages = tuple(self.judged(message_of(row) for row in found[:limit]))
        messages = tuple(one for one in messages if wanted.status in (None, one.status))
        if len(found) > limit:
            return MessagePage(messages=messages, next=_position(found[limit - 1]), looked_at=scanned)
        # Fewer than requested: either there are no more, or the rest is beyond the rows that one page scans.
        number = rows[0]["number"] if rows else 0
        more = Position(rows[0]["edge_seen"], rows[0]["edge_id"]) if number >= scanned else None
        return MessagePage(messages=messages, next=more, looked_at=number)

    def events(self, message_id: bytes) -> list[EventRecord]:
        """Returns a message's events by time.

        Events of the same second are in the order created, delivered, reported.
        """
        rows = self._rows(
            f"""
            select * from events where message_id = :id and event is not null and error is null
            order by block_time,
              case when event in ({_ON_SOURCE}) then 0 when event in ({_REPORTED}) then 2 else 1 end,
              chain_id, block_number, log_index
            """,
            id=message_id,
        )
        return [EventRecord(**{field.name: row[field.name] for field in fields(EventRecord)}) for row in rows]

    def of_transaction(self, transaction_hash: bytes, limit: int = 100) -> list[bytes]:
        """Returns the ids of the messages that a transaction created, retried, delivered or executed."""
        rows = self._rows(
            "select distinct message_id from events where transaction_hash = :hash and message_id is not null limit :limit",
            hash=transaction_hash,
            limit=limit,
        )
        return [row["message_id"] for row in rows]

    def by_status(self) -> dict[Status, int]:
        """Returns the number of messages by state, ignoring divergences.

        A database index makes counting the lasting states cheap.
        """
        stored = self._rows("select status, count(*) as number from messages group by status")
        counts = Counter({Status(row["status"]): row["number"] for row in stored if row["status"] in _LASTING})
        passing = ", ".join(f"'{status.value}'" for status in _PASSING)
        chosen = f"(select * from messages where status in ({passing}))"
        shown = effective_status(chosen)
        rows = self._rows(f"select effective_status, count(*) as number from ({shown}) o group by effective_status")
        counts.update({Status(row["effective_status"]): row["number"] for row in rows})
        return dict(counts)

    def counts_by_status(self, divergences: Sequence[DivergenceRecord] | None = None) -> dict[Status, int]:
        """Returns the number of messages by state. Messages with divergences count as DIVERGED.

        Args:
            divergences: result of `divergences()`, if the caller has it; otherwise computed.
        """
        return with_diverged(self.by_status(), self.statuses_of(self._contradicted(divergences)))

    def duplicates(self, *, limit: int = 1_000) -> list[DuplicateRecord]:
        """Returns repeated deliveries that adapters absorbed, newest first."""
        rows = self._rows(
            """
            select message_id, gmp, chain_id, block_time from events
            where event = 'DuplicateAbsorbed' and error is null
            order by block_time desc, chain_id, block_number desc, log_index desc limit :limit
            """,
            limit=limit,
        )
        return [DuplicateRecord(**row) for row in rows]

    def tallies(self, since: int, until: int) -> list[Tally]:
        """Counts the messages created in a period by lane and by GMP, with their durations.

        Args:
            since: start of the period in Unix seconds.
            until: end of the period in Unix seconds (exclusive).
        """
        times = {"since": since, "until": until}
        chosen = f"{SEEN} >= :since and {SEEN} < :until and source_time is not null and destination_chain is not null"
        messages = self._rows(
            f"""
            select source_chain, destination_chain, executed_time - source_time as seconds, count(*) as number
            from messages where {chosen} group by 1, 2, 3
            """,
            **times,
        )
        receipts = self._rows(
            f"""
            select r.gmp, r.received_time - coalesce(r.dispatched_time, m.source_time) as seconds,
              case when r.received_time is null and m.attempts > r.last_attempt then 1 else 0 end as overtaken,
              count(*) as number
            from (select message_id, source_time, attempts from messages where {chosen}) m
            join receipts r on r.message_id = m.message_id where r.dispatches > 0 group by 1, 2, 3
            """,
            **times,
        )
        by_lane, by_gmp = defaultdict[tuple[int, int], list[Row]](list), defaultdict[int, list[Row]](list)
        for row in messages:
            by_lane[row["source_chain"], row["destination_chain"]].append(row)
        for row in receipts:
            by_gmp[row["gmp"]].append(row)
        return [
            *(_tally(rows, lane=ends) for ends, rows in sorted(by_lane.items())),
            *(_tally(rows, gmp=gmp) for gmp, rows in sorted(by_gmp.items())),
        ]

    def created_up_to(self, source_chain: int, source_router: bytes, destination_chain: int, block: int) -> int:
        """Returns how many messages of a lane its router created up to a block, including pruned ones."""
        lane = "source_chain = :source and source_router = :router and destination_chain = :destination"
        (row,) = self._rows(
            f"""select (select count(*) from messages where {lane} and source_block <= :block)
            + coalesce((select messages from pruned_lanes where {lane}), 0) as number""",
            source=source_chain,
            router=source_router,
            destination=destination_chain,
            block=block,
        )
        return int(row["number"])

    def lane_checks(self) -> list[LaneCheckRecord]:
        """Returns the last check of each lane against its routers' totals."""
        rows = self._rows("select * from lane_checks order by chain_id, direction, other_chain")
        names = [field.name for field in fields(LaneCheckRecord)]
        return [LaneCheckRecord(**{name: row[name] for name in names}) for row in rows]


def _tally(rows: Sequence[Row], lane: tuple[int, int] | None = None, gmp: int | None = None) -> Tally:
    """Returns the tally of rows. Each row counts the messages with the same duration."""
    arrived = sorted((row["seconds"], row["number"]) for row in rows if row["seconds"] is not None)
    return Tally(
        lane=lane,
        gmp=gmp,
        messages=sum(row["number"] for row in rows),
        arrived=tuple(chain.from_iterable(repeat(seconds, number) for seconds, number in arrived)),
        overtaken=sum(row["number"] for row in rows if row.get("overtaken")),
    )


def _position(row: Row) -> Position:
    seen = row["source_time"] if row["source_time"] is not None else row["received_time"]
    return Position(seen or 0, row["message_id"])


def _looked_at(wanted: MessageFilter, *, continued: bool) -> str:
    """Returns SQL for the keys of the newest messages.

    A database index serves one condition; the others are checked row by row.
    """
    chosen = " union all ".join(_newest(condition, continued=continued) for condition in _indexed(wanted))
    return f"select * from ({chosen}) o order by seen desc, message_id desc limit :scanned"


def _newest(condition: str, *, continued: bool) -> str:
    # The index supports the first half; the second orders messages of the same second.
    later = f"and {SEEN} <= :after_seen and ({SEEN} < :after_seen or message_id < :after_id)" if continued else ""
    return (
        f"select * from (select message_id, {SEEN} as seen from messages where {condition} {later} "
        f"order by {SEEN} desc, message_id desc limit :scanned) n"
    )


def _indexed(wanted: MessageFilter) -> Sequence[str]:
    if wanted.among is not None:
        return ("message_id in :among",)
    if wanted.account is not None:
        return ("sender = :account", "recipient = :account and sender <> :account")
    if wanted.status is not None:
        stored = _PASSING if wanted.status in _TIME_MAKES else (wanted.status,)
        found = [f"status = '{status.value}'" for status in stored]
        if wanted.status in _REPORTED_AS:
            # Not by undecided states: an index of states would scan all waiting messages, of which hardly any is reported.
            decided = ", ".join(f"'{status.value}'" for status in Status if status not in _UNDECIDED)
            found.append(f"outcome = {_REPORTED_AS[wanted.status]} and status not in ({decided})")
        return tuple(found)
    if wanted.source_chain is not None and wanted.destination_chain is not None:
        return _LANE
    return ("1 = 1",)


def _filter(wanted: MessageFilter) -> list[str]:
    by_lane = _indexed(wanted) == _LANE
    conditions = {
        _BY_STATUS: None if wanted.status is Status.DIVERGED else wanted.status,
        "source_chain = :source_chain": None if by_lane else wanted.source_chain,
        "destination_chain = :destination_chain": None if by_lane else wanted.destination_chain,
        "((dispatched | received) & :gmp) <> 0": wanted.gmp,
        "kind = :kind": wanted.kind,
        "(sender = :account or recipient = :account)": wanted.account if wanted.among is not None else None,
    }
    return [condition for condition, value in conditions.items() if value is not None]


def _arguments(wanted: MessageFilter) -> dict[str, Any]:
    return {
        "status": wanted.status.value if wanted.status else None,
        "source_chain": wanted.source_chain,
        "destination_chain": wanted.destination_chain,
        "gmp": wanted.gmp.bit if wanted.gmp else None,
        "kind": None if wanted.kind is None else int(wanted.kind),
        "account": wanted.account,
    } | ({} if wanted.among is None else {"among": sorted(wanted.among)[:_AMONG]})
