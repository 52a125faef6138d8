"""The operational store: open and recent messages, and each chain's position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from inspect import getsource
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import ColumnElement, Connection, Engine, TextClause, bindparam, delete, insert, select, text, update
from sqlalchemy.engine import RowMapping

from indexer.model import schemas
from indexer.model.errors import RangeGapError
from indexer.model.settings import StallPolicy
from indexer.pipeline.queries import query
from indexer.sources.position import HASH_PREFIX, ChainPosition
from indexer.store import pauses as pause_log
from indexer.store import tables
from indexer.store.blocks import MAX_ROWS, BlockRange, in_pieces
from indexer.store.engine import writing_engine
from indexer.store.pauses import PAUSE_EVENTS, pauses
from indexer.store.retention import complete_pruned, has_pruned, pruned_among

FINALITY_VIOLATED: Final = "FINALITY_VIOLATED"
"""The mark of messages whose final events a chain reverted."""

_DERIVATION: Final = "derivation_fingerprint"
"""Name of the stored fingerprint of the code that derived messages, receipts and pauses."""

_IDS_IN_A_STATEMENT: Final = 500
_ROWS_IN_A_BATCH: Final = 10_000

_CREATIONS: Final = ("MessageRouted", "MessageUnfunded")
"""Events that contain the envelope. A message without such an event was never created, or a reorg removed its creation."""

_EVENTS_OF_IDS: Final = "(select * from events where message_id in :ids)"


def _of_ids(statement: str) -> TextClause:
    return text(statement).bindparams(bindparam("ids", expanding=True))


_INSERT_MESSAGES: Final = _of_ids(
    f"insert into messages ({', '.join(schemas.MESSAGES.names)}) {query('lifecycle', events=_EVENTS_OF_IDS)}"
)
_INSERT_RECEIPTS: Final = _of_ids(
    f"insert into receipts ({', '.join(schemas.RECEIPTS.names)}) {query('receipts', events=_EVENTS_OF_IDS)}"
)
_SHOW_MARKS: Final = _of_ids(
    """
    update messages set status = 'DIVERGED' where message_id in :ids
      and message_id in (select message_id from marks where repaired_at is null)
    """
)
_CREATED: Final = _of_ids("select message_id from messages where message_id in :ids and source_block is not null")
_CLOSE_REQUESTS: Final = _of_ids(
    """
    insert into retry_closures (sequence)
    select r.sequence from retry_requests r join messages m on m.message_id = r.message_id
    where r.message_id in :ids and (m.attempts >= r.attempt or m.executions > 0)
      and r.sequence not in (select sequence from retry_closures)
    """
)


class Store:
    """The only writer of the store's tables."""

    def __init__(self, url: str, max_rows: int = MAX_ROWS) -> None:
        """Opens the store, and creates it if it does not exist.

        Args:
            url: URL of the database.
            max_rows: maximum number of events in one transaction. A single block with more events is not split.

        Raises:
            StoreVersionError: a newer version of Waybill wrote the store.
            IndexerError: the database is not a store.
        """
        self.engine: Engine = writing_engine(url)
        self._max_rows = max_rows

    def close(self) -> None:
        """Closes the connections."""
        self.engine.dispose()

    def save_policy(self, policy: StallPolicy) -> None:
        """Stores the running index's stall policy, for readers."""
        values = {
            "stall_after": policy.stall_after,
            "max_lag": policy.max_lag,
            "silence_after": policy.silence_after,
        }
        with self.engine.begin() as connection:
            connection.execute(delete(tables.facts).where(tables.facts.c.name.in_(values)))
            connection.execute(insert(tables.facts), [{"name": name, "value": value} for name, value in values.items()])

    def positions(self) -> dict[int, ChainPosition]:
        """Returns each chain's position."""
        with self.engine.connect() as connection:
            return {row["chain_id"]: position_of(row) for row in connection.execute(select(tables.chains)).mappings()}

    def apply(self, events: pa.Table, ranges: Mapping[int, BlockRange]) -> None:
        """Replaces ranges of blocks. Idempotent.

        `events` replace everything stored for a chain from the range's first block on, so replay, crash
        recovery and reorg are the same operation. Messages and receipts are derived from their events. A long
        range takes several transactions, each of which leaves the store consistent up to some block.

        Args:
            events: all events of the ranges, as `schemas.EVENTS`.
            ranges: block range by chain.

        Raises:
            RangeGapError: a range does not follow the stored blocks, or the store can't tell whether it does.
        """
        for chain, range_ in ranges.items():
            of_chain = events.filter(pc.equal(events["chain_id"], chain))
            ordered = of_chain.sort_by([("block_number", "ascending"), ("log_index", "ascending")])
            for piece, part in in_pieces(ordered, range_, self._max_rows):
                with self.engine.begin() as connection:
                    before = _row_of(connection, chain)
                    if before is not None:
                        _check_follows(connection, chain, position_of(before), part)
                    _replace_events(connection, chain, tables.events.c.block_number >= part.first, piece)
                    _save_position(connection, chain, part, is_new=before is None)

    def remove_above(self, chain: int, range_: BlockRange) -> None:
        """Removes everything above a block, including final blocks, and the records of checks beyond it.

        Args:
            chain: chain id.
            range_: empty range that starts after that block.
        """
        none = schemas.EVENTS.empty_table()
        with self.engine.begin() as connection:
            before = _row_of(connection, chain)
            _replace_events(connection, chain, tables.events.c.block_number >= range_.first, none)
            _save_position(connection, chain, range_, is_new=before is None)
            checks = tables.lane_checks.c
            connection.execute(
                delete(tables.lane_checks).where(checks.chain_id == chain, checks.block_number >= range_.first)
            )

    def halt(self, reasons: Mapping[int, str | None]) -> None:
        """Stores the reason why each chain is no longer read. None means that the chain is being read."""
        with self.engine.begin() as connection:
            for chain, reason in reasons.items():
                connection.execute(update(tables.chains).where(tables.chains.c.chain_id == chain).values(halted=reason))

    def events_between(self, chain: int, first: int, last: int) -> pa.Table:
        """Returns the events of a range of blocks, in order, as `schemas.EVENTS`."""
        return events_between(self.engine, chain, first, last)

    def correct(self, chain: int, first: int, last: int, events: pa.Table) -> None:
        """Replaces the events of a range of blocks, except those of pruned messages. Later blocks stay as they are.

        Args:
            chain: chain id.
            first: the first block.
            last: the last block (inclusive).
            events: all events of the range, as `schemas.EVENTS`.
        """
        place = tables.events.c
        with self.engine.begin() as connection:
            ids = pc.unique(events["message_id"]).drop_null().to_pylist()
            pruned = [one for part in parts(ids) for one in pruned_among(connection, part)]
            events = events.filter(pc.invert(pc.is_in(events["message_id"], pa.array(pruned, pa.binary()))))
            within = (place.block_number >= first) & (place.block_number <= last)
            _replace_events(connection, chain, within, events)

    def recompute_if_outdated(self) -> int:
        """Derives all messages, receipts and pauses again from the store's events if a different version of the code derived them.

        After an interruption, the next call starts over. Events, marks and retry requests stay as they are.

        Returns:
            Number of messages that were derived again.
        """
        with self.engine.connect() as connection:
            made_by = connection.scalar(select(tables.facts.c.value).where(tables.facts.c.name == _DERIVATION))
            if made_by == derivation_fingerprint():
                return 0
            of_events = select(tables.events.c.message_id).where(tables.events.c.message_id.is_not(None))
            ids = set(connection.scalars(of_events.union(select(tables.messages.c.message_id))))
            chains = list(connection.scalars(select(tables.chains.c.chain_id)))
        for part in parts(ids):
            with self.engine.begin() as connection:
                _recompute(connection, part)
        for chain in chains:
            with self.engine.begin() as connection:
                recompute_pauses(connection, chain)
        with self.engine.begin() as connection:
            _note_derivation(connection)
        return len(ids)

    def mark(self, chain: int, marks: Sequence[tuple[bytes, int, str]], now: float) -> None:
        """Marks messages whose final events a chain reverted as DIVERGED, until the chain is repaired. Idempotent.

        Args:
            chain: chain id.
            marks: message id, lowest affected block, and evidence.
            now: current time in Unix seconds.
        """
        mark = tables.marks.c
        of_kind = (mark.chain_id == chain) & (mark.kind == FINALITY_VIOLATED)
        with self.engine.begin() as connection:
            open_ = set(connection.scalars(select(mark.message_id).where(of_kind, mark.repaired_at.is_(None))))
            new = [one for one in marks if one[0] not in open_]
            for message_id, block, evidence in new:
                connection.execute(delete(tables.marks).where(of_kind, mark.message_id == message_id))
                key = {"message_id": message_id, "chain_id": chain, "kind": FINALITY_VIOLATED}
                values = {"block_number": block, "evidence": evidence, "noted_at": now}
                connection.execute(insert(tables.marks).values(**key, **values))
            _recompute(connection, [message_id for message_id, _, _ in new])

    def note_repair(self, chain: int, now: float) -> None:
        """Clears the halt and the marks of a repaired chain, and derives the messages' states from their events."""
        mark = tables.marks.c
        with self.engine.begin() as connection:
            repaired = (mark.chain_id == chain) & (mark.kind == FINALITY_VIOLATED) & mark.repaired_at.is_(None)
            ids = connection.scalars(select(mark.message_id).where(repaired)).all()
            connection.execute(update(tables.marks).where(repaired).values(repaired_at=now))
            connection.execute(update(tables.chains).where(tables.chains.c.chain_id == chain).values(halted=None))
            _recompute(connection, ids)

    def hash_of(self, chain: int, number: int) -> bytes | None:
        """Returns the prefix of a block's hash, or None if the store does not know it."""
        with self.engine.connect() as connection:
            row = _row_of(connection, chain)
            return None if row is None else hash_of_block(connection, chain, position_of(row), number)

    def lake_block(self, chain: int) -> int | None:
        """Returns the chain's last block in the lake, as of the last `note_lake`."""
        with self.engine.connect() as connection:
            chosen = select(tables.chains.c.lake_block).where(tables.chains.c.chain_id == chain)
            block: int | None = connection.scalar(chosen)
            return block

    def has_pruned(self) -> bool:
        """Returns whether the store has ever pruned a message. The events of pruned messages are only in the lake."""
        with self.engine.connect() as connection:
            return has_pruned(connection)

    def note_lake(self, blocks: Mapping[int, int]) -> None:
        """Stores each chain's last block in the lake."""
        with self.engine.begin() as connection:
            for chain, block in blocks.items():
                connection.execute(
                    update(tables.chains).where(tables.chains.c.chain_id == chain).values(lake_block=block)
                )


def derivation_fingerprint() -> int:
    """Returns a fingerprint of the code that derives messages, receipts and pauses: 56 bits of its source's hash.

    A version number would have to be raised by hand, and forgetting it would mix rows of two derivations. The
    cost is that even a changed comment causes a recomputation.
    """
    texts = f"{_INSERT_MESSAGES}{_INSERT_RECEIPTS}{getsource(pause_log)}"
    return int.from_bytes(sha256(texts.encode()).digest()[:7], "big")


def adapters_of(engine: Engine) -> dict[int, frozenset[bytes]]:
    """Returns, by chain, the adapters (20 bytes each) that the router registered in the blocks read so far."""
    place = tables.events.c
    taken = place.event.in_(("AdapterAdded", "AdapterReplaced")) & place.error.is_(None)
    found: dict[int, set[bytes]] = {}
    with engine.connect() as connection:
        chosen = select(place.chain_id, place.adapter).where(place.message_id.is_(None), taken)
        for row in connection.execute(chosen):
            found.setdefault(row.chain_id, set()).add(row.adapter[12:])
    return {chain: frozenset(adapters) for chain, adapters in found.items()}


def events_between(
    engine: Engine, chain: int, first: int, last: int, columns: Sequence[str] = schemas.EVENTS.names
) -> pa.Table:
    """Returns the given columns of the stored events in a range of blocks, in order."""
    place = tables.events.c
    chosen = (
        select(*(place[name] for name in columns))
        .where(place.chain_id == chain, place.block_number.between(first, last))
        .order_by(place.block_number, place.log_index)
    )
    schema = pa.schema([schemas.EVENTS.field(name) for name in columns])
    parts = [schema.empty_table()]
    streaming = {"yield_per": _ROWS_IN_A_BATCH}
    with engine.connect() as connection, connection.execute(chosen, execution_options=streaming) as result:
        for rows in result.partitions():
            arrays = [
                pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            parts.append(pa.Table.from_arrays(arrays, schema=schema))
    return pa.concat_tables(parts)


def position_of(row: RowMapping) -> ChainPosition:
    """Returns a chain's position, from its row of `chains`."""
    return ChainPosition(
        block=row["block"], hashes=row["hashes"], final_block=row["final_block"], final_hash=row["final_hash"]
    )


def _row_of(connection: Connection, chain: int) -> RowMapping | None:
    return connection.execute(select(tables.chains).where(tables.chains.c.chain_id == chain)).mappings().first()


def hash_of_block(connection: Connection, chain: int, position: ChainPosition, number: int) -> bytes | None:
    """Returns the prefix of a block's hash from the chain's position or from an event in the block, or None."""
    if (known := position.known_hash(number)) is not None:
        return known
    place = tables.events.c
    chosen = select(place.block_hash).where(place.chain_id == chain, place.block_number == number).limit(1)
    found: bytes | None = connection.scalar(chosen)
    return None if found is None else found[:HASH_PREFIX]


def _replace_events(connection: Connection, chain: int, blocks: ColumnElement[bool], events: pa.Table) -> None:
    place = tables.events.c
    replaced = (place.chain_id == chain) & blocks
    gone = connection.execute(
        select(tables.events).where(replaced, place.event.in_(_CREATIONS), place.error.is_(None))
    ).mappings()
    gone_routes = {row["message_id"]: row for row in gone}
    touched = set(connection.scalars(select(place.message_id).where(replaced).distinct()))
    connection.execute(delete(tables.events).where(replaced))
    rows = events.to_pylist()
    if rows:
        connection.execute(insert(tables.events), rows)
    touched |= {row["message_id"] for row in rows}
    if None in touched:
        recompute_pauses(connection, chain)
        touched.discard(None)
    _recompute(connection, touched)
    _note_orphans(connection, gone_routes, rows)


def _check_follows(connection: Connection, chain: int, position: ChainPosition, range_: BlockRange) -> None:
    """Checks that a range follows the stored block before it, by that block's hash.

    Raises:
        RangeGapError: the range does not follow, or the store does not know the block's hash.
    """
    before = range_.first - 1
    if before > position.block:
        raise RangeGapError(
            f"chain {chain}: the store ends at block {position.block}, but the new range begins at block {range_.first}"
        )
    if range_.parent_hash is None:
        place = tables.events.c
        below = select(place.block_number).where(place.chain_id == chain, place.block_number < range_.first).limit(1)
        if connection.scalar(below) is not None:
            raise RangeGapError(
                f"chain {chain}: the new range claims that block {range_.first} is the first, but the store has earlier events"
            )
        return
    ours = hash_of_block(connection, chain, position, before)
    if ours is None:
        raise RangeGapError(
            f"chain {chain}: the store does not know the hash of block {before}, which the new range follows"
        )
    if ours != range_.parent_hash:
        raise RangeGapError(
            f"chain {chain}: the new range does not extend stored block {before}: "
            f"parent hash 0x{range_.parent_hash.hex()}…, stored hash 0x{ours.hex()}…"
        )


def _recompute(connection: Connection, ids: Iterable[bytes]) -> None:
    """Derives messages and receipts again from all events of these messages."""
    for part in parts(ids):
        connection.execute(delete(tables.messages).where(tables.messages.c.message_id.in_(part)))
        connection.execute(delete(tables.receipts).where(tables.receipts.c.message_id.in_(part)))
        derive(connection, part)
        complete_pruned(connection, part)
        for statement in (_SHOW_MARKS, _CLOSE_REQUESTS):
            connection.execute(statement, {"ids": part})


def derive(connection: Connection, ids: Sequence[bytes]) -> None:
    """Inserts rows for messages that have none yet, and for their receipts, from all of their events; see `parts`."""
    for statement in (_INSERT_MESSAGES, _INSERT_RECEIPTS):
        connection.execute(statement, {"ids": ids})


def recompute_pauses(connection: Connection, chain: int) -> None:
    """Derives a chain's pauses again from all events about its router."""
    place = tables.events.c
    chosen = (
        select(tables.events)
        .where(place.message_id.is_(None), place.event.in_(PAUSE_EVENTS), place.chain_id == chain)
        .order_by(place.block_number, place.log_index)
    )
    found = pauses([dict(row) for row in connection.execute(chosen).mappings()])
    connection.execute(delete(tables.pauses).where(tables.pauses.c.chain_id == chain))
    if found:
        connection.execute(insert(tables.pauses), found)


def _note_derivation(connection: Connection) -> None:
    """Stores the fingerprint of the code that derived the store's contents."""
    connection.execute(delete(tables.facts).where(tables.facts.c.name == _DERIVATION))
    connection.execute(insert(tables.facts).values(name=_DERIVATION, value=derivation_fingerprint()))


def parts(ids: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yields sorted ids in chunks that fit into one statement."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), _IDS_IN_A_STATEMENT):
        yield ordered[start : start + _IDS_IN_A_STATEMENT]


def _note_orphans(
    connection: Connection, gone_routes: Mapping[bytes, RowMapping], rows: Sequence[Mapping[str, Any]]
) -> None:
    back = {row["message_id"] for row in rows if row["event"] in _CREATIONS and row["error"] is None}
    kept = set(connection.scalars(_CREATED, {"ids": list(gone_routes)})) if gone_routes else set()
    orphaned = [row for message_id, row in gone_routes.items() if message_id not in back | kept]
    for part in parts(back | gone_routes.keys()):
        connection.execute(delete(tables.orphans).where(tables.orphans.c.message_id.in_(part)))
    if orphaned:
        names = [column.name for column in tables.orphans.c]
        connection.execute(insert(tables.orphans), [{name: row[name] for name in names} for row in orphaned])


def _save_position(connection: Connection, chain: int, range_: BlockRange, *, is_new: bool) -> None:
    position = range_.position
    values = {
        "block": position.block,
        "block_hash": range_.block_hash,
        "block_time": range_.block_time,
        "hashes": position.hashes,
        "final_block": position.final_block,
        "final_hash": position.final_hash,
        "head_block": range_.head_block,
    }
    if is_new:
        connection.execute(insert(tables.chains).values(chain_id=chain, **values))
    else:
        connection.execute(update(tables.chains).where(tables.chains.c.chain_id == chain).values(**values))
