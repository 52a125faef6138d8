"""Looks through the operational store page by page, in bounded time however much it holds. Needs no Spark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from bridge.protocol.indexed import (
    EventRecord,
    GmpDelivery,
    LaneCheckRecord,
    MessageCount,
    MessageFilter,
    MessagePage,
    MessageRecord,
    Position,
    Tally,
)
from bridge.protocol.status import Status
from indexer.store.effective_status import effective_status
from indexer.store.reader import IndexReader, Row, message_of
from indexer.store.tables import SEEN

SCANNED: Final = 500
"""Messages that one page looks at, at most, where no index knows which of them are wanted: the next page goes on there."""

COUNTED: Final = 1_000
"""Messages up to which a choice is counted, and that are looked at for it, at most."""

_LASTING: Final = (Status.EXECUTED, Status.CANCELLED, Status.DIVERGED)
"""Stored as they are shown; every other stored status may be shown as something else, as time tells."""

_PASSING: Final = tuple(status for status in Status if status not in (*_LASTING, Status.ORPHANED))

_TIME_MAKES: Final = (Status.STALLED, Status.EXPIRED, Status.UNKNOWN)
"""Shown of messages that are stored as something else; see `transforms/sql/effective_status.sql`."""

_UNDECIDED: Final = (
    Status.UNFUNDED,
    Status.ROUTED,
    Status.RECEIVED,
    Status.EXECUTION_FAILED,
    Status.EXECUTION_DEFERRED,
)
"""Stored of messages whose end, if their destination is not indexed, the report to the source alone tells."""

_REPORTED_AS: Final = {Status.EXECUTED: 1, Status.CANCELLED: 3}

_ON_SOURCE: Final = "'MessageIdCreated', 'MessageRouted', 'MessageUnfunded', 'MessageRetried', 'DispatchFailed', 'CancellationRequested'"
_REPORTED: Final = "'OutcomeReported', 'OutcomeContradicted'"

_AMONG: Final = 10_000
"""Ids that one query takes, at most."""

_BY_STATUS: Final = "effective_status = :status"
_RETRIED: Final = "attempts > 0"
_LANE: Final = ("source_chain = :source_chain and destination_chain = :destination_chain",)


class IndexBrowser(IndexReader):
    """Answers what an explorer asks."""

    def page(self, wanted: MessageFilter, *, after: Position | None = None, limit: int = 50) -> MessagePage:
        """Messages, the newest first.

        Args:
            wanted: which ones. To tell which are DIVERGED takes as long as `divergences`, unless `wanted.among` names them.
            after: where the part before ended; None for the first part.
            limit: at most so many.
        """
        if wanted.status is Status.ORPHANED:
            orphans = tuple(
                one for one in self.messages(status=Status.ORPHANED, limit=limit) if _is_of_time(one, wanted)
            )
            return MessagePage(messages=orphans, next=None, looked_at=len(orphans))
        if wanted.status is Status.DIVERGED and wanted.among is None:
            wanted = replace(wanted, among=frozenset(self._contradicted()))
        looked_at = _looked_at(wanted, continued=after is not None)
        conditions = _filter(wanted)
        judged = f"where {' and '.join(conditions)}" if conditions else ""
        # Of the rows that an index finds by a lasting status, nearly all are wanted.
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
        # Fewer than asked for: either these are all, or the rest lies beyond what one page looks at.
        number = rows[0]["number"] if rows else 0
        more = Position(rows[0]["edge_seen"], rows[0]["edge_id"]) if number >= scanned else None
        return MessagePage(messages=messages, next=more, looked_at=number)

    def count(self, wanted: MessageFilter, *, contradicted: Collection[bytes]) -> MessageCount:
        """How many messages there are among the newest that an index finds; looks at `COUNTED`.

        Args:
            wanted: which ones; of DIVERGED ones `wanted.among` names all that there are.
            contradicted: messages that facts about them contradict: they have no other state than DIVERGED.
        """
        if wanted.status is Status.ORPHANED:
            number = len(self.page(wanted, limit=COUNTED).messages)
            return MessageCount(number=number, looked_at=number, is_all=number < COUNTED)
        conditions, arguments = _filter(wanted), _arguments(wanted) | {"scanned": COUNTED + 1}
        if wanted.status not in (None, Status.DIVERGED) and contradicted:
            conditions.append("message_id not in :contradicted")
            arguments["contradicted"] = sorted(contradicted)[:_AMONG]
        # Only what is asked for by a state needs the state, which takes the longest.
        chosen = "(select w.* from looked_at k join messages w on w.message_id = k.message_id)"
        judged = effective_status(chosen) if _BY_STATUS in conditions else f"select * from {chosen} w"
        found = f"(select count(*) from ({judged}) o where {' and '.join(conditions)})" if conditions else "null"
        (row,) = self._rows(
            f"""
            with looked_at as materialized ({_looked_at(wanted, continued=False)})
            select {found} as number, (select count(*) from looked_at) as looked_at
            """,
            **arguments,
        )
        looked_at = min(row["looked_at"], COUNTED)
        number = looked_at if row["number"] is None else min(row["number"], COUNTED)
        return MessageCount(number=number, looked_at=looked_at, is_all=row["looked_at"] <= COUNTED)

    def events(self, message_id: bytes) -> list[EventRecord]:
        """What happened to a message: by time, and within a second as it came: created, delivered, reported."""
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
        """The ids of the messages that a transaction on any chain has created, retried, delivered or executed."""
        rows = self._rows(
            "select distinct message_id from events where transaction_hash = :hash and message_id is not null limit :limit",
            hash=transaction_hash,
            limit=limit,
        )
        return [row["message_id"] for row in rows]

    def by_status(self) -> dict[Status, int]:
        """How many messages are in each state; counts lasting ones from an index alone."""
        stored = self._rows("select status, count(*) as number from messages group by status")
        counts = Counter({Status(row["status"]): row["number"] for row in stored if row["status"] in _LASTING})
        passing = ", ".join(f"'{status.value}'" for status in _PASSING)
        chosen = f"(select * from messages where status in ({passing}))"
        shown = effective_status(chosen)
        rows = self._rows(f"select effective_status, count(*) as number from ({shown}) o group by effective_status")
        counts.update({Status(row["effective_status"]): row["number"] for row in rows})
        return dict(counts)

    def gmp_deliveries(
        self, limit: int, lane: tuple[int, int] | None = None, since: int | None = None
    ) -> list[GmpDelivery]:
        """What GMPs did for the newest messages.

        Args:
            limit: messages looked at.
            lane: source and destination chain; None for all lanes.
            since: Unix seconds, before which no message was seen first; None for any time.
        """
        source, destination = lane or (None, None)
        conditions = [*(_LANE if lane else ()), *(() if since is None else (f"{SEEN} >= :since",))]
        chosen = f"where {' and '.join(conditions)}" if conditions else ""
        rows = self._rows(
            f"""
            select r.gmp, r.dispatches, r.dispatch_failures, r.duplicates,
              r.received_time - coalesce(r.dispatched_time, m.source_time) as seconds,
              coalesce(r.received_block > m.executed_block or
                (r.received_block = m.executed_block and r.received_log_index > m.executed_log_index), false) as was_late
            from (select * from messages {chosen} order by {SEEN} desc, message_id desc limit :limit) m
            join receipts r on r.message_id = m.message_id
            """,
            limit=limit,
            source_chain=source,
            destination_chain=destination,
            since=since,
        )
        return [GmpDelivery(**{**row} | {"was_late": bool(row["was_late"])}) for row in rows]

    def tallies(self, since: int, until: int, lane: tuple[int, int] | None = None) -> list[Tally]:
        """The messages that were created in a time, by lane and by GMP, with how long each took.

        Args:
            since: where the time begins, Unix seconds.
            until: where it ends, excluded.
            lane: source and destination chain; None for all lanes.
        """
        source, destination = lane or (None, None)
        times = {"since": since, "until": until, "source_chain": source, "destination_chain": destination}
        chosen = f"{SEEN} >= :since and {SEEN} < :until and source_time is not null and destination_chain is not null"
        if lane:
            chosen += f" and {_LANE[0]}"
        messages = self._rows(
            f"select source_chain, destination_chain, executed_time - source_time as seconds from messages where {chosen}",
            **times,
        )
        receipts = self._rows(
            f"""
            select r.gmp, r.received_time - coalesce(r.dispatched_time, m.source_time) as seconds
            from (select message_id, source_time from messages where {chosen}) m
            join receipts r on r.message_id = m.message_id where r.dispatches > 0
            """,
            **times,
        )
        by_lane, by_gmp = defaultdict[tuple[int, int], list[int | None]](list), defaultdict[int, list[int | None]](list)
        for row in messages:
            by_lane[row["source_chain"], row["destination_chain"]].append(row["seconds"])
        for row in receipts:
            by_gmp[row["gmp"]].append(row["seconds"])
        return [
            *(_tally(seconds, lane=ends) for ends, seconds in sorted(by_lane.items())),
            *(_tally(seconds, gmp=gmp) for gmp, seconds in sorted(by_gmp.items())),
        ]

    def created_up_to(self, source_chain: int, source_router: bytes, destination_chain: int, block: int) -> int:
        """How many messages of a lane its router created up to a block, those that were pruned included."""
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
        """The last comparison of each lane with its routers' own totals."""
        rows = self._rows("select * from lane_checks order by chain_id, direction, other_chain")
        names = [field.name for field in fields(LaneCheckRecord)]
        return [LaneCheckRecord(**{name: row[name] for name in names}) for row in rows]


def _tally(seconds: Sequence[int | None], lane: tuple[int, int] | None = None, gmp: int | None = None) -> Tally:
    arrived = tuple(sorted(one for one in seconds if one is not None))
    return Tally(lane=lane, gmp=gmp, messages=len(seconds), arrived=arrived)


def _is_of_time(message: MessageRecord, wanted: MessageFilter) -> bool:
    at = message.source_time if message.source_time is not None else message.received_time or 0
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)


def _position(row: Row) -> Position:
    seen = row["source_time"] if row["source_time"] is not None else row["received_time"]
    return Position(seen or 0, row["message_id"])


def _looked_at(wanted: MessageFilter, *, continued: bool) -> str:
    """Keys of the newest messages that an index finds by one of the conditions; the others are judged row by row."""
    since = f" and {SEEN} >= :since" if wanted.since is not None else ""
    until = f" and {SEEN} < :until" if wanted.until is not None else ""
    chosen = " union all ".join(
        _newest(f"{condition}{since}{until}", continued=continued) for condition in _indexed(wanted)
    )
    return f"select * from ({chosen}) o order by seen desc, message_id desc limit :scanned"


def _newest(condition: str, *, continued: bool) -> str:
    # The first half is what the index understands, the second puts messages of one second in order.
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
    if wanted.retried:
        return (_RETRIED,)
    if wanted.status is not None:
        stored = _PASSING if wanted.status in _TIME_MAKES else (wanted.status,)
        found = [f"status = '{status.value}'" for status in stored]
        if wanted.status in _REPORTED_AS:
            # Not by the undecided states: an index of states has to look at all that wait, and next to none is reported.
            decided = ", ".join(f"'{status.value}'" for status in Status if status not in _UNDECIDED)
            found.append(f"outcome = {_REPORTED_AS[wanted.status]} and status not in ({decided})")
        return tuple(found)
    if wanted.source_chain is not None and wanted.destination_chain is not None:
        return _LANE
    return ("1 = 1",)


def _filter(wanted: MessageFilter) -> list[str]:
    by_lane, by_retry = _indexed(wanted) == _LANE, _indexed(wanted) == (_RETRIED,)
    conditions = {
        _BY_STATUS: None if wanted.status is Status.DIVERGED else wanted.status,
        "source_chain = :source_chain": None if by_lane else wanted.source_chain,
        "destination_chain = :destination_chain": None if by_lane else wanted.destination_chain,
        "((dispatched | received) & :gmp) <> 0": wanted.gmp,
        "kind = :kind": wanted.kind,
        _RETRIED: True if wanted.retried and not by_retry else None,
        "coalesce(attempts, 0) = 0": True if wanted.retried is False else None,
        "failures > 0": True if wanted.refused else None,
        "coalesce(failures, 0) = 0": True if wanted.refused is False else None,
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
        "since": wanted.since,
        "until": wanted.until,
    } | ({} if wanted.among is None else {"among": sorted(wanted.among)[:_AMONG]})
