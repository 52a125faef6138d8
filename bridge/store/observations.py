"""Observed messages, attempts and dispatches, with each chain's cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    RowMapping,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    union_all,
    update,
)

from bridge.protocol.errors import CursorMovedError, StoreMismatchError
from bridge.protocol.gmps import bits_from_gmps, gmps_from_bits
from bridge.records.figures import Counted
from bridge.records.observations import (
    ANCESTORS_KEPT,
    BlockRef,
    Cursor,
    NumberedDispatch,
    ObservedAttempt,
    ObservedMessage,
    ObservedRange,
    Rewound,
)
from bridge.records.outbox import OutboxEntry, event_id_of
from bridge.records.transactions import SlotState
from bridge.store.counters import add_counts
from bridge.store.database import Database, insert_into
from bridge.store.jobs import take_back_jobs
from bridge.store.outbox import dispatch_columns, entry_row
from bridge.store.spending import forget_totals
from bridge.store.tables import HAS_ENVELOPE, attempts, chains, cursor_ancestors, cursors, jobs, messages, outbox, slots

_ASKED_AT_ONCE = 1_000  # ids per query; databases limit parameters

# Statements of every poll are built once: building them costs more than running them.
_CURSOR = select(cursors).where(cursors.c.chain_id == bindparam("chain"))
_ANCESTORS = (
    select(cursor_ancestors.c.number, cursor_ancestors.c.hash)
    .where(cursor_ancestors.c.chain_id == bindparam("chain"))
    .order_by(cursor_ancestors.c.number.desc())
)
_ADVANCE = (
    update(cursors)
    .where(cursors.c.chain_id == bindparam("chain"))
    .values(number=bindparam("to_number"), hash=bindparam("to_hash"), watched=bindparam("to_watched"))
)
_DEFER = (
    update(cursors)
    .where(
        cursors.c.chain_id == bindparam("chain"),
        cursors.c.deferred_from.is_(None) | (cursors.c.deferred_from > bindparam("block")),
    )
    .values(deferred_from=bindparam("block"))
)
_REMEMBER = insert(cursor_ancestors)
_FORGET_OLDEST = delete(cursor_ancestors).where(
    cursor_ancestors.c.chain_id == bindparam("chain"),
    cursor_ancestors.c.number
    <= select(cursor_ancestors.c.number)
    .where(cursor_ancestors.c.chain_id == bindparam("chain"))
    .order_by(cursor_ancestors.c.number.desc())
    .offset(ANCESTORS_KEPT)
    .limit(1)
    .scalar_subquery(),
)
_COMPLETE = (  # a retry restores a deleted envelope
    update(messages)
    .where(messages.c.message_id == bindparam("key"))
    .values(
        envelope=func.coalesce(messages.c.envelope, bindparam("content")),
        created_in=func.coalesce(messages.c.created_in, bindparam("block", type_=BigInteger)),
    )
)
_FINAL_BLOCK = select(cursors.c.number, cursors.c.hash).where(cursors.c.chain_id == bindparam("chain"))
_PASSED = union_all(
    *(
        select(table.c.number).where(
            table.c.chain_id == bindparam("chain"),
            table.c.number == bindparam("number"),
            table.c.hash == bindparam("hash"),
        )
        for table in (cursors, cursor_ancestors)
    )
)


class Observations:
    """Stores observations. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def identify(self, chain_id: int, genesis: bytes) -> None:
        """Binds the store to a chain at first use, by the hash of its block 0.

        Raises:
            StoreMismatchError: The store is bound to another chain with that id.
        """
        with self._database.transaction(exclusive=_cursor_of(chain_id)) as connection:
            known = connection.execute(select(chains.c.genesis).where(chains.c.chain_id == chain_id)).scalar()
            if known is None:
                connection.execute(insert(chains).values(chain_id=chain_id, genesis=genesis))
            elif known != genesis:
                raise StoreMismatchError(
                    f"chain {chain_id}: the stored genesis hash is 0x{known.hex()}, but the endpoints report "
                    f"0x{genesis.hex()}: use the store of that chain, or a new store"
                )

    def cursor(self, chain_id: int) -> Cursor | None:
        """Returns the chain's cursor, or None if the chain was never read."""
        row = self._database.first(_CURSOR, {"chain": chain_id})
        if row is None:
            return None
        position = BlockRef(row["number"], row["hash"])
        return Cursor(chain_id=chain_id, position=position, watched=row["watched"], deferred_from=row["deferred_from"])

    def ancestors(self, chain_id: int) -> list[BlockRef]:
        """Returns the cursor's earlier positions, newest first, at most `ANCESTORS_KEPT`, for handling reorgs."""
        return [BlockRef(number, block) for number, block in self._database.rows(_ANCESTORS, {"chain": chain_id})]

    def record(self, observed: ObservedRange) -> set[str]:
        """Writes a range: cursor, messages, attempts and outbox entries; returns the event ids of new entries.

        An existing entry moves to the current position of its dispatch.

        Raises:
            CursorMovedError: The cursor is not at `observed.previous`.
        """
        with self._database.transaction(exclusive=_cursor_of(observed.chain_id)) as connection:
            _advance(connection, observed)
            if observed.deferred_from is not None:
                connection.execute(_DEFER, {"chain": observed.chain_id, "block": observed.deferred_from})
            if observed.messages:
                _add_messages(connection, observed.messages)
            if observed.attempts:
                _put_attempts(connection, observed.attempts)
            return _put_dispatches(connection, observed.dispatches, observed.observed_at)

    def rewind(self, chain_id: int, ancestor: BlockRef | None, now: float) -> Rewound:
        """Rolls back the cursor and everything above the common ancestor, or everything if there is none.

        Dispatches above the ancestor are orphaned. Deliveries above it, and their transactions, are no longer
        final. Nothing above the cursor is ever treated as final, so a reorg of any depth is rolled back
        completely.
        """
        last_good = ancestor.number if ancestor is not None else -1
        with self._database.transaction(exclusive=_cursor_of(chain_id)) as connection:
            fallen = (outbox.c.source_chain == chain_id) & (outbox.c.block_number > last_good)
            dropped = connection.execute(delete(outbox).where(fallen, outbox.c.fence == 0)).rowcount
            orphaned = connection.execute(
                update(outbox).where(fallen, outbox.c.orphaned_at.is_(None)).values(orphaned_at=now)
            ).rowcount
            unconfirmed = connection.execute(
                update(outbox)
                .where(
                    outbox.c.destination_chain == chain_id,
                    outbox.c.delivery_block_number > last_good,
                    outbox.c.confirmed_at.is_not(None),
                )
                .values(confirmed_at=None)
            ).rowcount
            connection.execute(
                update(slots)
                .where(
                    slots.c.chain_id == chain_id,
                    slots.c.state == SlotState.FINAL,
                    slots.c.included_block_number > last_good,
                )
                .values(state=SlotState.INCLUDED.value)
            )
            take_back_jobs(connection, chain_id, last_good, now)
            connection.execute(
                delete(attempts).where(attempts.c.source_chain == chain_id, attempts.c.block_number > last_good)
            )
            connection.execute(
                update(messages)
                .where(messages.c.source_chain == chain_id, messages.c.created_in > last_good)
                .values(created_in=None)
            )
            if ancestor is None:
                _forget_cursor(connection, chain_id)
            else:
                connection.execute(
                    update(cursors)
                    .where(cursors.c.chain_id == chain_id)
                    .values(number=ancestor.number, hash=ancestor.hash)
                )
                connection.execute(
                    delete(cursor_ancestors).where(
                        cursor_ancestors.c.chain_id == chain_id, cursor_ancestors.c.number >= ancestor.number
                    )
                )
        return Rewound(dropped, orphaned, unconfirmed)

    def note_deferred(self, chain_id: int, block: int | None, position: BlockRef) -> None:
        """Records the lowest block that still has deferred messages, after all deferred messages were read again.

        Changes nothing if the cursor has moved since, because another worker may have deferred messages above it.

        Args:
            chain_id: The chain.
            block: The lowest block with a message that is still deferred; None if there is none.
            position: The cursor up to which the blocks were read again.
        """
        unmoved = (cursors.c.chain_id == chain_id) & (cursors.c.hash == position.hash)
        with self._database.transaction(exclusive=_cursor_of(chain_id)) as connection:
            connection.execute(update(cursors).where(unmoved).values(deferred_from=block))

    def reread(self, chain_id: int) -> None:
        """Resets the cursor to the start without orphaning anything."""
        with self._database.transaction(exclusive=_cursor_of(chain_id)) as connection:
            _forget_cursor(connection, chain_id)

    def final_height(self, chain_id: int) -> int:
        """Returns the height of the highest final block, which is the cursor's position, or −1 without a cursor."""
        final = self.final_block(chain_id)
        return -1 if final is None else final.number

    def final_block(self, chain_id: int) -> BlockRef | None:
        """Returns the highest final block, or None."""
        row = self._database.first(_FINAL_BLOCK, {"chain": chain_id})
        return None if row is None else BlockRef(row["number"], row["hash"])

    def has_passed(self, chain_id: int, block: BlockRef) -> bool:
        """Whether the cursor was at a block and has not been rolled back below it since.

        Only the kept positions are known.
        """
        values = {"chain": chain_id, "number": block.number, "hash": block.hash}
        return self._database.first(_PASSED, values) is not None

    def message(self, message_id: bytes) -> ObservedMessage | None:
        """Returns a message, or None if it is unknown or its envelope was pruned."""
        row = self._database.first(select(messages).where(messages.c.message_id == message_id, HAS_ENVELOPE))
        return None if row is None else _message_from(row)

    def forget_envelopes(self, before: float, limit: int) -> int:
        """Deletes the envelopes of old messages that are no longer needed.

        The rows stay, since the completeness check counts them. An envelope is needed while a delivery of the
        message is in the outbox, or a retry or execution of it is open.

        Args:
            before: Messages observed before this moment are old (Unix seconds).
            limit: Maximum number of envelopes to delete.

        Returns:
            Number of envelopes deleted.
        """
        needed = exists().where(outbox.c.message_id == messages.c.message_id)
        busy = exists().where(jobs.c.message_id == messages.c.message_id, jobs.c.finished_at.is_(None))
        old = (
            select(messages.c.message_id, messages.c.source_chain, messages.c.destination_chain)
            .where(messages.c.observed_at < before, HAS_ENVELOPE, ~needed, ~busy)
            .limit(limit)
        )
        with self._database.transaction() as connection:
            found = connection.execute(old).all()
            ids = [row.message_id for row in found]
            connection.execute(update(messages).where(messages.c.message_id.in_(ids)).values(envelope=None))
            forget_totals(
                connection, ids, {row.source_chain for row in found} | {row.destination_chain for row in found}
            )
        return len(ids)

    def created_on(self, source_chain: int, destination_chain: int) -> int:
        """Counts the messages of a lane that were observed on the source chain up to the cursor."""
        query = (
            select(func.count())
            .select_from(messages)
            .where(
                messages.c.source_chain == source_chain,
                messages.c.destination_chain == destination_chain,
                messages.c.created_in.is_not(None),
            )
        )
        return int(self._database.scalar(query))

    def attempts(self, message_id: bytes) -> list[ObservedAttempt]:
        """Returns a message's attempts, in order."""
        query = select(attempts).where(attempts.c.message_id == message_id).order_by(attempts.c.attempt)
        return [attempt_from(row) for row in self._database.read(query)]


@dataclass(frozen=True, slots=True)
class Finality:
    """The highest final block of a chain: the position of its observation cursor, which stays behind the head.

    A caller that relies on finality reads the final block before it queries the chain. It treats only blocks up
    to that height as final, and checks that the block still `holds` when it writes. Otherwise it could overlook
    a reorg that another worker has already handled.
    """

    observations: Observations
    chain_id: int

    def block(self) -> BlockRef | None:
        """Returns the highest final block, or None."""
        return self.observations.final_block(self.chain_id)

    def holds(self, block: BlockRef) -> bool:
        """Whether a block that was the highest final block is still final, that is, not rolled back by a reorg."""
        return self.observations.has_passed(self.chain_id, block)


def _cursor_of(chain_id: int) -> str:
    """Returns the name of the lock that allows only one observer per chain."""
    return f"cursor {chain_id}"


def _advance(connection: Connection, observed: ObservedRange) -> None:
    chain_id, position = observed.chain_id, observed.position
    found = connection.execute(_FINAL_BLOCK, {"chain": chain_id}).first()
    stored = found and BlockRef(found.number, found.hash)
    if stored != observed.previous:
        raise CursorMovedError(f"the cursor of chain {chain_id} is at {stored}, not at {observed.previous}")
    if stored is None:
        first = {"number": position.number, "hash": position.hash, "watched": observed.watched}
        connection.execute(insert(cursors).values(chain_id=chain_id, **first))
        return
    if stored == position:
        return
    to = {"to_number": position.number, "to_hash": position.hash, "to_watched": observed.watched}
    connection.execute(_ADVANCE, {"chain": chain_id, **to})
    connection.execute(_REMEMBER, {"chain_id": chain_id, "number": stored.number, "hash": stored.hash})
    connection.execute(_FORGET_OLDEST, {"chain": chain_id})


def _forget_cursor(connection: Connection, chain_id: int) -> None:
    connection.execute(delete(cursors).where(cursors.c.chain_id == chain_id))
    connection.execute(delete(cursor_ancestors).where(cursor_ancestors.c.chain_id == chain_id))


def _add_messages(connection: Connection, observed: Sequence[ObservedMessage]) -> None:
    ids = [message.message_id for message in observed]
    known = set(connection.execute(select(messages.c.message_id).where(messages.c.message_id.in_(ids))).scalars())
    fresh = {message.message_id: _message_row(message) for message in observed if message.message_id not in known}
    if fresh:
        connection.execute(insert(messages), list(fresh.values()))
    seen_again = [
        {"key": message.message_id, "content": message.envelope, "block": message.created_in}
        for message in observed
        if message.message_id in known
    ]
    if seen_again:
        connection.execute(_COMPLETE, seen_again)


def _put_attempts(connection: Connection, observed: Sequence[ObservedAttempt]) -> None:
    """Upserts attempts with their current positions."""
    added = insert_into(connection, attempts)
    changes = {column.name: added.excluded[column.name] for column in attempts.c if not column.primary_key}
    statement = added.on_conflict_do_update(index_elements=["message_id", "attempt"], set_=changes)
    connection.execute(statement, [_attempt_row(attempt) for attempt in observed])


def _put_dispatches(connection: Connection, dispatches: Sequence[NumberedDispatch], now: float) -> set[str]:
    """Upserts the outbox entries of dispatches with their current positions; returns the ids of new ones."""
    if not dispatches:
        return set()
    seen = {event_id_of(one.dispatch.message_id, one.dispatch.gmp, one.attempt): one for one in dispatches}
    known = _known(connection, list(seen))
    moved = [{"key": key, **dispatch_columns(seen[key].dispatch)} for key in known]
    if moved:
        connection.execute(update(outbox).where(outbox.c.event_id == bindparam("key")).values(orphaned_at=None), moved)
    fresh = {key: entry_row(_entry(one, now)) for key, one in seen.items() if key not in known}
    if fresh:
        connection.execute(insert(outbox), list(fresh.values()))
        queues = ((row["source_chain"], row["destination_chain"], row["gmp"]) for row in fresh.values())
        add_counts(connection, Counter((Counted.OBSERVED, queue) for queue in queues))
    return set(fresh)


def _known(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(event_ids), _ASKED_AT_ONCE):
        some = event_ids[start : start + _ASKED_AT_ONCE]
        found.update(connection.execute(select(outbox.c.event_id).where(outbox.c.event_id.in_(some))).scalars())
    return found


def _entry(numbered: NumberedDispatch, now: float) -> OutboxEntry:
    dispatch = numbered.dispatch
    kind = ObservedMessage(dispatch.message_id, dispatch.envelope, now).message.kind
    return OutboxEntry.new(dispatch, numbered.attempt, kind, now)


def _message_row(observed: ObservedMessage) -> dict[str, Any]:
    """Returns a message's columns in `messages`."""
    message = observed.message
    return {
        "message_id": observed.message_id,
        "envelope": observed.envelope,
        "source_chain": message.source_chain,
        "destination_chain": message.destination_chain,
        "sender": message.sender,
        "nonce": message.nonce,
        "observed_at": observed.observed_at,
        "created_in": observed.created_in,
    }


def _message_from(row: RowMapping) -> ObservedMessage:
    """Builds a record from a row of `messages`."""
    return ObservedMessage(row["message_id"], row["envelope"], row["observed_at"], row["created_in"])


def _attempt_row(attempt: ObservedAttempt) -> dict[str, Any]:
    """Returns an attempt's columns in `attempts`."""
    return {
        "message_id": attempt.message_id,
        "attempt": attempt.attempt,
        "retriable": attempt.retriable,
        "gmps": bits_from_gmps(attempt.gmps),
        "source_chain": attempt.source_chain,
        "block_number": attempt.block.number,
        "block_hash": attempt.block.hash,
        "transaction_hash": attempt.transaction_hash,
    }


def attempt_from(row: RowMapping) -> ObservedAttempt:
    """Builds an attempt from its row."""
    return ObservedAttempt(
        message_id=row["message_id"],
        attempt=row["attempt"],
        retriable=row["retriable"],
        gmps=gmps_from_bits(row["gmps"]),
        source_chain=row["source_chain"],
        block=BlockRef(row["block_number"], row["block_hash"]),
        transaction_hash=row["transaction_hash"],
    )
