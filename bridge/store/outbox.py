"""The outbox of deliveries.

SQL claims entries and marks them as delivered; all other state changes go through the methods of their records. A
trigger enforces `TRANSITIONS`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, namedtuple
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson
from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Double,
    RowMapping,
    Select,
    String,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    null,
    select,
    union_all,
    update,
)

from bridge.protocol.failures import CONFIRMATION, Failure, FailureKind, RecordedFailure, snapshot_from, snapshot_text
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.ports import Dispatch
from bridge.records.figures import Counted, CounterKey, latency_place
from bridge.records.observations import BlockRef
from bridge.records.outbox import (
    STUCK_AFTER,
    Claim,
    Dead,
    Delivered,
    LiveTrafficQuota,
    ObservedDelivery,
    OutboxEntry,
    OutboxState,
    Outcome,
    QueueCount,
    TryAgain,
    Undelivered,
    delivery_of,
    lease_expired,
    shared_out,
)
from bridge.records.relay_policy import EVERYTHING, RelayPolicy
from bridge.store.counters import add_counts
from bridge.store.database import Database
from bridge.store.jobs import await_executions, end_executions, forget_executions
from bridge.store.lanes import HOLDS
from bridge.store.tables import (
    FAILING,
    NEVER_CLAIMED,
    lane_changes,
    messages,
    outbox,
    outbox_failures,
    spending_blocked,
)

_ENTRY_COLUMNS: Final = (*(column for column in outbox.c if column is not outbox.c.sequence), messages.c.envelope)
_EntryRow: Final[Any] = namedtuple("_EntryRow", [column.name for column in _ENTRY_COLUMNS])  # type: ignore[misc]  # noqa: PYI024
"""The columns that make up an entry, with the message's envelope.

A named tuple because claims read many: building an entry from it takes 4.9 µs, from SQLAlchemy's rows 12 µs.
"""

_MESSAGES = messages.c.message_id == outbox.c.message_id
_ENTRIES = select(*_ENTRY_COLUMNS).join(messages, _MESSAGES)
_THESE = outbox.c.event_id.in_(bindparam("event_ids", expanding=True))
_HELD = exists().where(
    lane_changes.c.source_chain == outbox.c.source_chain,
    lane_changes.c.destination_chain == outbox.c.destination_chain,
    HOLDS,
)
_EARLIER = outbox.alias()
_BEHIND_ANOTHER = exists().where(
    _EARLIER.c.ordering_key == outbox.c.ordering_key,
    _EARLIER.c.sequence < outbox.c.sequence,
    _EARLIER.c.state.in_([OutboxState.PENDING, OutboxState.CLAIMED]),
    _EARLIER.c.orphaned_at.is_(None),
    ~exists().where(spending_blocked.c.subject == _EARLIER.c.event_id),
)

# Statements that every delivery needs are built once: building them costs more than running them.
_MAY_CLAIM: CompoundSelect[Any] = union_all(  # two queries, since each has an index
    *(
        select(literal_column("1")).select_from(
            select(outbox.c.event_id)
            .where(outbox.c.destination_chain == bindparam("destination"), outbox.c.state == state, is_due)
            .limit(1)
            .subquery()
        )
        for state, is_due in (
            (OutboxState.PENDING, outbox.c.available_at <= bindparam("now")),
            (OutboxState.CLAIMED, outbox.c.lease_until <= bindparam("now")),
        )
    )
)
_EXPIRED = _ENTRIES.where(
    outbox.c.destination_chain == bindparam("destination"),
    outbox.c.state == OutboxState.CLAIMED,
    outbox.c.lease_until <= bindparam("now"),
).with_for_update(of=outbox, skip_locked=True)
_CLAIMED: Mapping[str, ColumnElement[Any]] = {  # the columns that a claim changes
    "state": literal(OutboxState.CLAIMED.value),
    "fence": outbox.c.fence + 1,
    "claimed_at": bindparam("now", type_=Double),
    "claimed_by": bindparam("worker", type_=String),
    "lease_until": bindparam("until", type_=Double),
}
_CLAIM = update(outbox).where(_THESE).values(**_CLAIMED)
_AS_CLAIMED = select(*(_CLAIMED.get(column.name, column) for column in _ENTRY_COLUMNS)).join(messages, _MESSAGES)
_QUEUE = (outbox.c.source_chain, outbox.c.destination_chain, outbox.c.gmp)
_CURRENT_CLAIMS = (
    select(outbox.c.event_id, outbox.c.claimed_by, outbox.c.fence, *_QUEUE, outbox.c.created_at)
    .where(_THESE, outbox.c.state == OutboxState.CLAIMED)
    .order_by(outbox.c.event_id)
    .with_for_update()
)
_UNCONFIRMED = (
    select(outbox.c.delivery_block_number, outbox.c.delivery_block_hash, outbox.c.event_id)
    .where(
        outbox.c.destination_chain == bindparam("destination"),
        outbox.c.state == OutboxState.DELIVERED,
        outbox.c.confirmed_at.is_(None),
        outbox.c.delivery_block_hash.is_not(None),
    )
    .order_by(outbox.c.delivery_block_number, outbox.c.sequence)
)
_RENEW = update(outbox).where(_THESE).values(lease_until=bindparam("until", type_=Double))
_DELIVER = (
    update(outbox)
    .where(outbox.c.event_id == bindparam("key"))
    .values(
        state=literal_column(f"'{OutboxState.DELIVERED}'"),
        claimed_at=null(),
        claimed_by=null(),
        lease_until=null(),
        confirmed_at=null(),
    )
)


class Outbox:
    """Stores outbox entries. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(
        self,
        *,
        worker: str,
        destination_chain: int,
        gmps: Collection[Gmp],
        accepts: RelayPolicy = EVERYTHING,
        limit: int,
        now: float,
        lease: float,
        in_order: bool = False,
        fresh: LiveTrafficQuota | None = None,
    ) -> list[OutboxEntry]:
        """Claims at most `limit` due entries for a worker, oldest first, for `lease` seconds.

        Fresh entries always fill the slots of `fresh`, even beyond `limit` and regardless of the backlog.

        Entries on held lanes (`bridge.protocol.lanes`) are skipped. Expired leases on that destination are
        ended first (`lease_expired`), so the entries of a dead worker can be claimed. With `in_order`, an entry
        is claimed only after all earlier ones with its ordering key are DELIVERED, DEAD, or blocked by a
        spending bound (`bridge.records.spending`): a message that is too expensive must not block its lane.
        """
        now_here = {"destination": destination_chain, "now": now}
        if self._database.first(_MAY_CLAIM, now_here) is None:
            return []  # most polls find nothing, and should not wait for the write lock
        terms = {**now_here, "worker": worker, "until": now + lease, "most": limit}
        with self._database.transaction() as connection:
            expired = _found(connection, _EXPIRED, now_here)
            _finish(connection, {e.event_id: (e, lease_expired(e, now)) for e in expired})
            claimed = _found(connection, _due(frozenset(gmps), accepts, in_order=in_order), terms)
            if fresh is not None and len(claimed) == limit:  # otherwise every due entry is among them
                first = [entry for entry in claimed if entry.is_fresh(fresh.since)][: fresh.places]
                if len(first) < fresh.places:
                    query = _due(frozenset(gmps), accepts, in_order=in_order, only_fresh=True)
                    first = _found(connection, query, {**terms, "most": fresh.places, "since": fresh.since})
                claimed = shared_out(claimed, first, limit)
            if claimed:
                connection.execute(_CLAIM, {**terms, "event_ids": [entry.event_id for entry in claimed]})
        return claimed

    def renew(self, claims: Collection[Claim], now: float, lease: float) -> set[Claim]:
        """Extends leases; returns the lost claims."""
        with self._database.transaction() as connection:
            current = _current_claims(connection, [claim.event_id for claim in claims]).keys() & set(claims)
            if current:
                connection.execute(_RENEW, {"event_ids": [claim.event_id for claim in current], "until": now + lease})
        return set(claims) - current

    def finish(self, outcomes: Sequence[Outcome], now: float) -> set[Claim]:
        """Writes the outcomes of claims in one transaction.

        Returns the lost claims, whose outcomes are not written.

        Adds an execution job (`bridge.records.jobs`) for each delivery that is not known to have executed its message.
        """
        with self._database.transaction() as connection:
            current = _current_claims(connection, [outcome.claim.event_id for outcome in outcomes])
            good = {outcome.claim.event_id: outcome for outcome in outcomes if outcome.claim in current}
            delivered = [one for one in good.values() if isinstance(one, Delivered)]
            if delivered:
                _deliver(connection, delivered, now)
                add_counts(connection, _delivery_counts([current[one.claim] for one in delivered], now))
            failed = {event_id: one for event_id, one in good.items() if not isinstance(one, Delivered)}
            if failed:
                found = _awaited(connection, list(failed))
                _finish(connection, {event_id: (found[event_id], one) for event_id, one in failed.items()})
        return {outcome.claim for outcome in outcomes} - current.keys()

    def replay(self, event_id: str, reason: str, now: float) -> OutboxEntry:
        """Reopens a delivered or dead entry.

        Raises:
            KeyError: The entry does not exist.
            ForbiddenTransitionError: The entry is neither delivered nor dead.
        """
        with self._database.transaction() as connection:
            entry = _awaited(connection, [event_id])[event_id].replayed(reason, now)
            _write(connection, [entry])
        return entry

    def reopen(self, event_id: str, failure: Failure, now: float) -> OutboxEntry:
        """Reopens a delivered entry whose delivery is missing on chain, and adds the failure to its history.

        Raises:
            KeyError: The entry does not exist.
            ForbiddenTransitionError: The entry is not delivered.
        """
        with self._database.transaction() as connection:
            entry = _awaited(connection, [event_id])[event_id].reopened(failure, now)
            _write(connection, [entry])
            _note_failures(connection, [(entry, CONFIRMATION, failure)])
        return entry

    def unconfirmed(self, destination_chain: int) -> dict[BlockRef, list[str]]:
        """Returns the ids of delivered entries that are not final yet, by the block of their delivery, lowest first."""
        by_block: defaultdict[BlockRef, list[str]] = defaultdict(list)
        for number, block_hash, event_id in self._database.rows(_UNCONFIRMED, {"destination": destination_chain}):
            by_block[BlockRef(number, block_hash)].append(event_id)
        return dict(by_block)

    def confirm(self, event_ids: Collection[str], now: float) -> None:
        """Marks deliveries as final."""
        delivered = outbox.c.event_id.in_(list(event_ids)) & (outbox.c.state == OutboxState.DELIVERED)
        with self._database.transaction() as connection:
            connection.execute(update(outbox).where(delivered).values(confirmed_at=now))

    def repin(self, event_id: str, delivery: ObservedDelivery) -> None:
        """Stores the block of a delivery whose block was unknown or has changed."""
        delivered = (outbox.c.event_id == event_id) & (outbox.c.state == OutboxState.DELIVERED)
        with self._database.transaction() as connection:
            connection.execute(update(outbox).where(delivered).values(**_delivery_columns(delivery)))

    def forget(self, before: float, limit: int) -> int:
        """Deletes at most `limit` entries that were final before `before` (Unix seconds); returns the number deleted.

        Their failures are deleted with them; messages and nonces stay.
        """
        final = (outbox.c.state == OutboxState.DELIVERED) & (outbox.c.confirmed_at < before)
        oldest = select(outbox.c.event_id).where(final).order_by(outbox.c.confirmed_at).limit(limit)
        with self._database.transaction() as connection:
            ids = list(connection.execute(oldest.with_for_update(skip_locked=True)).scalars())
            connection.execute(delete(outbox_failures).where(outbox_failures.c.event_id.in_(ids)))
            connection.execute(delete(outbox).where(outbox.c.event_id.in_(ids)))
            forget_executions(connection, {delivery_of(event_id)[0] for event_id in ids})
        return len(ids)

    def seen(self) -> int:
        """Counts the distinct messages with entries, which is the size of the dedup window."""
        return int(self._database.scalar(select(func.count(outbox.c.message_id.distinct()))))

    def seen_by_sender(self, least: int) -> dict[bytes, int]:
        """Counts the distinct messages with entries by sender, for senders with at least `least` messages."""
        count = func.count(outbox.c.message_id.distinct())
        query = (
            select(messages.c.sender, count)
            .join(outbox, _MESSAGES)
            .group_by(messages.c.sender)
            .having(count >= bindparam("least"))
        )
        return {sender: int(number) for sender, number in self._database.rows(query, {"least": least})}

    def entry(self, event_id: str) -> OutboxEntry | None:
        """Returns one entry."""
        found = self._read(_ENTRIES.where(outbox.c.event_id == event_id))
        return found[0] if found else None

    def entries(self, message_id: bytes) -> list[OutboxEntry]:
        """Returns a message's entries by attempt and GMP."""
        return self._read(
            _ENTRIES.where(outbox.c.message_id == message_id).order_by(outbox.c.attempt_number, outbox.c.gmp)
        )

    def listed(self, *, state: OutboxState | None = None, limit: int = 100) -> list[OutboxEntry]:
        """Returns entries in a state, or all, newest first."""
        query = _ENTRIES if state is None else _ENTRIES.where(outbox.c.state == state)
        return self._read(query.order_by(outbox.c.created_at.desc(), outbox.c.sequence.desc()).limit(limit))

    def failures(self, event_id: str) -> list[RecordedFailure]:
        """Returns an entry's failed tries, oldest first."""
        query = select(outbox_failures).where(outbox_failures.c.event_id == event_id).order_by(outbox_failures.c.number)
        return [_failure_from(row) for row in self._database.read(query)]

    def dead_letters(self) -> dict[str, bool]:
        """Returns, by event id, whether each dead delivery has a letter.

        Deliveries without that information are left out.
        """
        noted = outbox_failures.c.letter.is_not(None) & (outbox.c.state == OutboxState.DEAD)
        query = (
            select(outbox_failures.c.event_id, outbox_failures.c.letter)
            .join(outbox, outbox.c.event_id == outbox_failures.c.event_id)
            .where(noted)
            .order_by(outbox_failures.c.number)  # an entry that was reopened may have died more than once
        )
        return {event_id: letter for event_id, letter in self._database.rows(query)}  # noqa: C416  # rows are no pairs to mypy

    def counts(self) -> list[QueueCount]:
        """Counts entries by queue and state."""
        key = (outbox.c.source_chain, outbox.c.destination_chain, outbox.c.gmp, outbox.c.state)
        query = (
            select(
                *key,
                func.count().label("count"),
                func.count().filter(outbox.c.failed_tries > 0).label("failing"),
                func.count()
                .filter((outbox.c.setbacks >= STUCK_AFTER) & outbox.c.confirmed_at.is_(None))
                .label("stuck"),
                func.min(outbox.c.created_at).label("oldest"),
            )
            .group_by(*key)
            .order_by(*key)
        )
        return [
            QueueCount(**{**row, "gmp": Gmp(row["gmp"]), "state": OutboxState(row["state"])})
            for row in self._database.read(query)
        ]

    def failing(self, source_chain: int, destination_chain: int) -> frozenset[Gmp]:
        """Returns the GMPs of a lane over which an open delivery has failed."""
        lane = (outbox.c.source_chain == source_chain) & (outbox.c.destination_chain == destination_chain)
        found = self._database.rows(select(outbox.c.gmp).where(lane, FAILING).distinct())
        return frozenset(Gmp(row.gmp) for row in found)

    def _read(self, query: Select[Any]) -> list[OutboxEntry]:
        with self._database.reading() as connection:
            return _found(connection, query)


@lru_cache(maxsize=64)
def _due(gmps: frozenset[Gmp], accepts: RelayPolicy, *, in_order: bool, only_fresh: bool = False) -> Select[Any]:
    """Builds the query that selects and locks claimable entries, skipping those that another transaction has locked."""
    query = (
        _AS_CLAIMED.where(
            outbox.c.destination_chain == bindparam("destination"),
            outbox.c.state == OutboxState.PENDING,
            outbox.c.available_at <= bindparam("now"),
            outbox.c.orphaned_at.is_(None),
            outbox.c.gmp.in_([int(gmp) for gmp in gmps]),
            ~_HELD,
            *_accepted(accepts),
        )
        .order_by(outbox.c.available_at, outbox.c.sequence)
        .limit(bindparam("most"))
        .with_for_update(of=outbox, skip_locked=True)
    )
    if in_order:
        query = query.where(~_BEHIND_ANOTHER)
    return query.where(NEVER_CLAIMED, outbox.c.available_at >= bindparam("since")) if only_fresh else query


def _accepted(accepts: RelayPolicy) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if accepts.withheld_sources:
        conditions.append(outbox.c.source_chain.not_in(accepts.withheld_sources))
    if accepts.senders is not None:
        conditions.append(messages.c.sender.in_(accepts.senders))
    if accepts.withheld_senders:
        conditions.append(messages.c.sender.not_in(accepts.withheld_senders))
    if accepts.kinds is not None:
        conditions.append(outbox.c.kind.in_([int(kind) for kind in accepts.kinds]))
    return conditions


def _found(connection: Connection, query: Select[Any], values: Mapping[str, Any] | None = None) -> list[OutboxEntry]:
    return [_entry_from(_EntryRow._make(row)) for row in connection.execute(query, values)]


def _awaited(connection: Connection, event_ids: Sequence[str]) -> dict[str, OutboxEntry]:
    """Waits for concurrent changes of entries, and returns the entries by id, locked until this transaction ends.

    They are locked in a fixed order, so that transactions cannot deadlock.
    """
    query = _ENTRIES.where(outbox.c.event_id.in_(event_ids)).order_by(outbox.c.event_id).with_for_update(of=outbox)
    return {entry.event_id: entry for entry in _found(connection, query)}


def _current_claims(connection: Connection, event_ids: Sequence[str]) -> dict[Claim, Any]:
    """Returns the claims on entries, locked until this transaction ends, each with its row."""
    found = connection.execute(_CURRENT_CLAIMS, {"event_ids": event_ids})
    return {Claim(row.event_id, row.claimed_by, row.fence): row for row in found}


def _deliver(connection: Connection, delivered: Sequence[Delivered], now: float) -> None:
    """Marks entries as delivered without building their records. This is how deliveries normally end."""
    values = [{"key": one.claim.event_id, "delivered_at": now, **_delivery_columns(one.delivery)} for one in delivered]
    connection.execute(_DELIVER, values)
    end_executions(connection, {delivery_of(one.claim.event_id)[0] for one in delivered if one.executed}, now)
    await_executions(connection, [one.claim.event_id for one in delivered if not one.executed], now)


def _delivery_counts(delivered: Iterable[Any], now: float) -> Counter[CounterKey]:
    """Returns the counter increments for deliveries that end now; for their rows see `_current_claims`."""
    counts: Counter[CounterKey] = Counter()
    for row in delivered:
        queue, took = (row.source_chain, row.destination_chain, row.gmp), now - row.created_at
        counts[Counted.DELIVERED, (*queue, latency_place(took))] += 1
        counts[Counted.DELIVERY_SECONDS, queue] += took
    return counts


def _write(connection: Connection, entries: Iterable[OutboxEntry]) -> None:
    values = [{"key": entry.event_id, **_state_columns(entry)} for entry in entries]
    if values:
        connection.execute(update(outbox).where(outbox.c.event_id == bindparam("key")), values)


def _finish(connection: Connection, finished: Mapping[str, tuple[OutboxEntry, Undelivered]]) -> None:
    if not finished:
        return
    _write(connection, (entry.after(outcome) for entry, outcome in finished.values()))
    _note_failures(
        connection,
        [
            (entry, outcome.claim.worker, outcome.failure)
            for entry, outcome in finished.values()
            if isinstance(outcome, TryAgain | Dead)
        ],
    )


def _note_failures(connection: Connection, failed: Sequence[tuple[OutboxEntry, str, Failure]]) -> None:
    """Appends failures to entries' histories and counts them; `failed` lists entries with worker and failure."""
    if not failed:
        return
    query = (
        select(outbox_failures.c.event_id, func.max(outbox_failures.c.number))
        .where(outbox_failures.c.event_id.in_([entry.event_id for entry, _, _ in failed]))
        .group_by(outbox_failures.c.event_id)
    )
    last = {event_id: number for event_id, number in connection.execute(query)}  # noqa: C416  # rows are no pairs to mypy
    connection.execute(
        insert(outbox_failures),
        [
            _failure_row(entry.event_id, RecordedFailure(last.get(entry.event_id, 0) + 1, worker, failure))
            for entry, worker, failure in failed
        ],
    )
    counts: Counter[CounterKey] = Counter()
    for entry, _, failure in failed:
        queue = (entry.lane.source_chain, entry.lane.destination_chain, int(entry.dispatch.gmp))
        counts[Counted.FAILED, (*queue, failure.kind.value, failure.code)] += 1
        counts[Counted.TRIED_AGAIN, queue] += failure.letter is None
    add_counts(connection, counts)


def dispatch_columns(dispatch: Dispatch) -> dict[str, Any]:
    """Returns a dispatch's columns of `outbox`, which a reorg may change."""
    return {
        "transport_id": dispatch.transport_id,
        "block_number": dispatch.block_number,
        "block_hash": dispatch.block_hash,
        "transaction_hash": dispatch.transaction_hash,
        "log_index": dispatch.log_index,
        "evidence": json.dumps(dict(dispatch.evidence), sort_keys=True),
    }


def _state_columns(entry: OutboxEntry) -> dict[str, Any]:
    """Returns the columns of `outbox` that hold an entry's progress."""
    return {
        "state": entry.state.value,
        "available_at": entry.available_at,
        "failed_tries": entry.failed_tries,
        "last_error": entry.last_error,
        "fence": entry.fence,
        "claimed_at": entry.claimed_at,
        "claimed_by": entry.claimed_by,
        "lease_until": entry.lease_until,
        "delivered_at": entry.delivered_at,
        **_delivery_columns(entry.delivery),
        "confirmed_at": entry.confirmed_at,
        "orphaned_at": entry.orphaned_at,
        "setbacks": entry.setbacks,
    }


def entry_row(entry: OutboxEntry) -> dict[str, Any]:
    """Returns an entry's columns in `outbox`."""
    dispatch = entry.dispatch
    return {
        "event_id": entry.event_id,
        "message_id": dispatch.message_id,
        "gmp": int(dispatch.gmp),
        "attempt_number": entry.attempt_number,
        "kind": int(entry.kind),
        "source_chain": dispatch.source_chain,
        "destination_chain": dispatch.destination_chain,
        "ordering_key": entry.ordering_key,
        "created_at": entry.created_at,
        **dispatch_columns(dispatch),
        **_state_columns(entry),
    }


def _delivery_columns(delivery: ObservedDelivery | None) -> dict[str, Any]:
    """Returns the columns of `outbox` that state where a delivery is."""
    return {
        "delivery_block_number": delivery and delivery.block.number,
        "delivery_block_hash": delivery and delivery.block.hash,
        "delivery_transaction_hash": delivery and delivery.transaction_hash,
    }


def _entry_from(row: Any) -> OutboxEntry:
    return OutboxEntry(
        event_id=row.event_id,
        attempt_number=row.attempt_number,
        kind=Kind(row.kind),
        ordering_key=row.ordering_key,
        created_at=row.created_at,
        dispatch=_dispatch_from(row),
        state=OutboxState(row.state),
        available_at=row.available_at,
        failed_tries=row.failed_tries,
        setbacks=row.setbacks,
        last_error=row.last_error,
        fence=row.fence,
        claimed_at=row.claimed_at,
        claimed_by=row.claimed_by,
        lease_until=row.lease_until,
        delivered_at=row.delivered_at,
        delivery=_delivery_from(row),
        confirmed_at=row.confirmed_at,
        orphaned_at=row.orphaned_at,
    )


def _dispatch_from(row: Any) -> Dispatch:
    return Dispatch(
        gmp=Gmp(row.gmp),
        message_id=row.message_id,
        source_chain=row.source_chain,
        destination_chain=row.destination_chain,
        envelope=row.envelope,
        transport_id=row.transport_id,
        block_number=row.block_number,
        block_hash=row.block_hash,
        transaction_hash=row.transaction_hash,
        log_index=row.log_index,
        evidence=orjson.loads(row.evidence),
    )


def _delivery_from(row: Any) -> ObservedDelivery | None:
    if row.delivery_block_number is None or row.delivery_block_hash is None:
        return None
    return ObservedDelivery(BlockRef(row.delivery_block_number, row.delivery_block_hash), row.delivery_transaction_hash)


def _failure_row(event_id: str, recorded: RecordedFailure) -> dict[str, Any]:
    """Returns a failure's columns in `outbox_failures`."""
    failure = recorded.failure
    return {
        "event_id": event_id,
        "number": recorded.number,
        "worker": recorded.worker,
        "failed_at": failure.at,
        "kind": failure.kind.value,
        "code": failure.code,
        "message": failure.message,
        "delivery_snapshot": snapshot_text(failure.delivery_snapshot),
        "letter": failure.letter,
    }


def _failure_from(row: RowMapping) -> RecordedFailure:
    """Builds a failure from its row."""
    failure = Failure(
        at=row["failed_at"],
        kind=FailureKind(row["kind"]),
        code=row["code"],
        message=row["message"],
        delivery_snapshot=snapshot_from(row["delivery_snapshot"]),
        letter=row["letter"],
    )
    return RecordedFailure(row["number"], row["worker"], failure)
