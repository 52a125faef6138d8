"""Makes messages and receipts again, from the lake alone or from the chains alone, and compares them with what is served."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import Connection, Engine, exists, select

from indexer.lake.history import History, places
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model import schemas
from indexer.model.tables import Bronze, Noted, TableEngine
from indexer.sources.chain import ChainReader
from indexer.sources.position import ChainPosition
from indexer.store import tables
from indexer.store.blocks import BlockRange
from indexer.store.store import Store

_COMPARED: Final = ("messages", "receipts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """How what was rebuilt compares with what is served.

    Attributes:
        events: that were read for it.
        messages: that were compared, field by field.
        receipts: of those messages, compared in the same way.
        pruned: messages that the store has pruned, all of which have ended.
        too_new: served messages to which something has happened behind the blocks that were read.
        different: ids of messages that differ, themselves or in their receipts, or that only one of the two has.
        reasons: where each of those differs.
        different_events: events that only one of the two has.
    """

    events: int
    messages: int
    receipts: int
    pruned: int
    too_new: int
    different: tuple[bytes, ...]
    reasons: tuple[str, ...] = ()
    different_events: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not self.different and not self.different_events


def from_lake(engine: Engine, lake: Lake, by: TableEngine = DUCKDB) -> Rebuilt:
    """From the lake's files alone. Messages with events that are not yet in the lake are skipped.

    Args:
        engine: the store's, for reading.
        lake: the lake.
        by: what computes them.
    """
    with engine.connect() as connection:
        chains = list(connection.scalars(select(tables.chains.c.chain_id)))
    last = {chain: lake.last_block(chain) for chain in chains}
    rebuilt = _made(Bronze(files=lake.files(), folder=lake.folder), by)
    events = sum(
        len(lake.events(chain, 0, block, ["message_id"])) for chain, block in last.items() if block is not None
    )
    reached = {chain: -1 if block is None else block for chain, block in last.items()}
    return _compared(engine, rebuilt, reached, events, History(engine, lake).pruned())


def from_history(engine: Engine, history: History, by: TableEngine = DUCKDB) -> Rebuilt:
    """From all events that are served, those of the lake and those behind it: whatever the index has derived from them.

    Args:
        engine: the store's, for reading.
        history: lake and store, as they are served.
        by: what computes them.
    """
    last = {chain: position.block for chain, position in history.positions().items()}
    rebuilt = _made(history.bronze(last), by)
    events = sum(len(history.events(chain, 0, block, ["message_id"])) for chain, block in last.items())
    return _compared(engine, rebuilt, last, events, history.pruned())


def _made(bronze: Bronze, by: TableEngine) -> dict[str, list[Row]]:
    with by.tables(bronze, Noted()) as tables:
        return {name: tables.rows(name).to_pylist() for name in _COMPARED}


def from_chains(
    readers: Sequence[ChainReader], history: History, engine: Engine, progress: Callable[[str], None] = lambda _: None
) -> Rebuilt:
    """From the chains alone, read again from their first block to the last that the index has.

    Args:
        readers: of the chains.
        history: lake and store, as they are served.
        engine: the store's, for reading.
        progress: told what is being done.

    Raises:
        RpcError: a chain can't be read, or has changed meanwhile: try again.
    """
    positions = history.positions()
    events = different = 0
    with tempfile.TemporaryDirectory(prefix="waybill-rebuild-") as folder:
        fresh = Store(f"sqlite:///{Path(folder) / 'index.db'}")
        try:
            for reader in readers:
                chain = reader.config.chain_id
                if chain not in positions:
                    continue
                last = positions[chain].block
                progress(f"chain {chain}: reading blocks {reader.config.start_block}…{last} again")
                read = _read_into(fresh, reader, last)
                events += len(read)
                different += len(places(read) ^ places(history.events(chain, reader.config.start_block, last)))
            with fresh.engine.connect() as connection:
                rebuilt = _rows(connection)
        finally:
            fresh.close()
    reached = {chain: position.block for chain, position in positions.items()}
    compared = _compared(engine, rebuilt, reached, events, history.pruned())
    return replace(compared, different_events=different)


def _read_into(store: Store, reader: ChainReader, last: int) -> pa.Table:
    first = reader.config.start_block
    header = reader.header(last)
    position = ChainPosition(block=last, final_block=first - 1)
    range_ = BlockRange(
        first=first,
        parent_hash=None,
        position=position,
        block_hash=header.hash,
        block_time=header.time,
        head_block=last,
    )
    parts = list(reader.read_final(first, last)) if first <= last else []
    events = pa.concat_tables(parts) if parts else schemas.EVENTS.empty_table()
    store.apply(events, {reader.config.chain_id: range_})
    return events


Row = Mapping[str, Any]


def _rows(connection: Connection) -> dict[str, list[Row]]:
    """The tables as a store has them, by the names that they have in the lake."""
    chosen = {"messages": tables.messages, "receipts": tables.receipts}
    return {name: [dict(row) for row in connection.execute(select(table)).mappings()] for name, table in chosen.items()}


def _by_message(rows: Mapping[str, Sequence[Row]]) -> dict[bytes, tuple[Row, dict[int, Row]]]:
    """Each message with its receipts by GMP; of one that only receipts tell of, an empty row."""
    found: dict[bytes, tuple[Row, dict[int, Row]]] = {row["message_id"]: (row, {}) for row in rows["messages"]}
    for receipt in rows["receipts"]:
        found.setdefault(receipt["message_id"], ({}, {}))[1][receipt["gmp"]] = receipt
    return found


def _compared(
    engine: Engine, rebuilt: Mapping[str, Sequence[Row]], last: Mapping[int, int], events: int, pruned: set[bytes]
) -> Rebuilt:
    """Compares with the store's rows, but for messages to which something has happened behind `last`."""
    place = tables.events.c
    behind = [(place.chain_id == chain) & (place.block_number > block) for chain, block in last.items()]
    marked = exists().where(
        tables.marks.c.message_id == tables.messages.c.message_id, tables.marks.c.repaired_at.is_(None)
    )
    with engine.connect() as connection:
        new = set[bytes]()
        for condition in behind:
            new |= set(connection.scalars(select(place.message_id).where(condition, place.message_id.is_not(None))))
        served = _by_message(_rows(connection))
        new |= set(connection.scalars(select(tables.messages.c.message_id).where(marked)))
    made = _by_message(rebuilt)
    gone = (pruned & made.keys()) - served.keys() - new
    judged = (served.keys() | made.keys()) - new - gone
    different = sorted(one for one in judged if served.get(one) != made.get(one))
    return Rebuilt(
        events=events,
        messages=len(judged),
        receipts=sum(len(served[one][1]) for one in judged & served.keys()),
        pruned=len(gone),
        too_new=len(new & served.keys()),
        different=tuple(different),
        reasons=tuple(_reason(one, served.get(one), made.get(one)) for one in different),
    )


def _reason(
    message_id: bytes, served: tuple[Row, dict[int, Row]] | None, made: tuple[Row, dict[int, Row]] | None
) -> str:
    """Where a message and its receipts differ."""
    name = f"0x{message_id.hex()}"
    if made is None:
        return f"{name} is in the store, and no event tells of it"
    if served is None:
        return f"{name} is not in the store"
    places = [("", served[0], made[0])]
    places += [
        (f"receipt of GMP {gmp}: ", served[1].get(gmp, {}), made[1].get(gmp, {}))
        for gmp in sorted(served[1].keys() | made[1].keys())
    ]
    found = [
        f"{place}{field} is {_shown(ours.get(field))} in the store, and {_shown(theirs.get(field))} by its events"
        for place, ours, theirs in places
        for field in sorted(ours.keys() | theirs.keys())
        if ours.get(field) != theirs.get(field)
    ]
    return f"{name}: {'; '.join(found)}"


def _shown(value: object) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
