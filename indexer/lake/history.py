"""The whole history: the lake as far as it reaches, and behind that the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine, select

from bridge.protocol.indexed import DivergenceRecord
from bridge.protocol.message import decode_envelope
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import Part, opened
from indexer.model import schemas
from indexer.model.divergences import MEANINGS
from indexer.model.tables import Bronze
from indexer.sources.position import ChainPosition
from indexer.store import tables
from indexer.store.retention import ENDED, PRUNED_BEFORE, has_pruned
from indexer.store.store import events_between, ids_checked, position_of
from indexer.transforms.queries import WITH_BIT_OR, query

STORE_DIFFERS: Final = "STORE_DIFFERS_FROM_LAKE"
ID_DIFFERS: Final = "ID_DIFFERS"
_WITH_ENVELOPE: Final = ("message_id", "block_number", "log_index", "event", "envelope")
_LANE: Final = ("source_chain", "source_router", "destination_chain")
_BLOCKS_AT_ONCE: Final = 50_000
_NAMED: Final = 5  # rows that evidence names; `verify --json` names all


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An event that store and lake do not have alike.

    Attributes:
        where: which of the two has it: lake, store, or both, each with other content.
    """

    block_number: int
    log_index: int
    event: str | None
    message_id: bytes | None
    where: str

    def __str__(self) -> str:
        about = "" if self.message_id is None else f" of 0x{self.message_id.hex()}"
        has_it = "differs" if self.where == "both" else f"is in the {self.where} alone"
        return f"{self.event or 'unknown log'}{about} in block {self.block_number}, log {self.log_index}, {has_it}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCheck:
    """The events of one chain in store and lake, compared field by field.

    Attributes:
        last: the last block compared.
        rows: events that were compared.
        differences: in the order of the chain.
        problem: what is wrong beyond single events; empty if nothing is.
    """

    chain_id: int
    last: int
    rows: int = 0
    differences: tuple[Difference, ...] = ()
    problem: str = ""

    @property
    def evidence(self) -> str | None:
        """What differs, in words; None if nothing does."""
        if not self.differences:
            return self.problem or None
        count = Counter(one.where for one in self.differences)
        named = "; ".join(str(one) for one in self.differences[:_NAMED])
        more = len(self.differences) - _NAMED
        text = (
            f"up to block {self.last}: {count['lake']} events of the lake are not in the store, "
            f"{count['store']} of the store not in the lake, {count['both']} have other content: {named}"
        )
        return "; ".join([text, *([f"and {more} more"] if more > 0 else []), *([self.problem] if self.problem else [])])


class History:
    """Reads lake ∪ store, which is what the index serves. The index may be running."""

    def __init__(self, engine: Engine, lake: Lake) -> None:
        """Reads through `engine`, and from `lake`."""
        self._engine = engine
        self._lake = lake

    def positions(self) -> dict[int, ChainPosition]:
        """How far each chain has been read."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(tables.chains)).mappings()
            return {row["chain_id"]: position_of(row) for row in rows}

    def last_of_lake(self, chain: int) -> tuple[int, bytes] | None:
        """The highest block, number and hash, of the chain in the lake; see `Lake.last_known`."""
        return self._lake.last_known(chain)

    def events(self, chain: int, first: int, last: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The events of a range of blocks, in order.

        Args:
            chain: its id.
            first: the first block.
            last: the last block, included.
            columns: of `schemas.EVENTS`; all if not given.
        """
        names = schemas.EVENTS.names if columns is None else list(columns)
        in_lake = self._lake.last_block(chain)
        parts = []
        if in_lake is not None and first <= in_lake:
            parts.append(self._lake.events(chain, first, min(last, in_lake), columns=names))
            first = in_lake + 1
        if first <= last:
            parts.append(events_between(self._engine, chain, first, last, names))
        return pa.concat_tables(parts) if parts else schemas.EVENTS.empty_table().select(names)

    def bronze(self, blocks: Mapping[int, int] | None = None, time: int | None = None) -> Bronze:
        """All events that are served, to compute tables from: those of the lake, and behind them those of the store.

        Args:
            blocks: by chain, the last block that counts; chains that are not named count whole.
            time: Unix seconds of block time; later events do not count.
        """
        pinned = self._lake.at(
            self._lake.version
        )  # before the store is read: what moves to the lake later is in its tail
        told = blocks or {}
        last = {
            chain: min(position.block, told.get(chain, position.block)) for chain, position in self.positions().items()
        }
        tail = [schemas.EVENTS.empty_table()]
        for chain, block in sorted(last.items()):
            in_lake = pinned.last_block(chain)
            first = 0 if in_lake is None else in_lake + 1
            if first <= block:
                tail.append(events_between(self._engine, chain, first, block))
        return Bronze(
            files=pinned.files(),
            folder=pinned.folder,
            tail=pa.concat_tables(tail),
            last_blocks=last,
            last_time=time,
        )

    def disagreements(self) -> Iterator[DivergenceRecord]:
        """What contradicts and is not in the store: see `compare`, and `wrong_ids` of blocks that are not checked yet."""
        for check in self.compare_all():
            if check.evidence is not None:
                yield _record(STORE_DIFFERS, None, check.chain_id, check.evidence)
        for chain, position in sorted(self.positions().items()):
            for message_id, _, evidence in self.wrong_ids(chain, self.ids_checked(chain) + 1, position.block):
                yield _record(ID_DIFFERS, message_id, chain, evidence)

    def ids_checked(self, chain: int) -> int:
        """The block up to which the running index has compared the chain's message ids with their envelopes."""
        fact = tables.facts.c
        with self._engine.connect() as connection:
            found = connection.scalar(select(fact.value).where(fact.name == ids_checked(chain)))
        return -1 if found is None else int(found)

    def wrong_ids(self, chain: int, first: int, last: int) -> list[tuple[bytes, int, str]]:
        """The messages created in some blocks whose ids are not the hashes of their envelopes: id, block and evidence.

        Args:
            chain: its id.
            first: the first block.
            last: the last block, included.
        """
        found = []
        for start in range(first, last + 1, _BLOCKS_AT_ONCE):
            events = self.events(chain, start, min(start + _BLOCKS_AT_ONCE - 1, last), _WITH_ENVELOPE)
            for row in events.filter(pc.is_valid(events["envelope"])).to_pylist():
                computed = decode_envelope(row["envelope"]).message.id
                if computed != row["message_id"]:
                    text = (
                        f"{row['event']} in block {row['block_number']}, log {row['log_index']} names it, and its envelope "
                        f"is that of 0x{computed.hex()}"
                    )
                    found.append((row["message_id"], row["block_number"], text))
        return found

    def compare_all(self) -> list[RowCheck]:
        """Compares all events of every chain, and how many messages of each lane the store has pruned; by chain id."""
        checks = [self.compare(chain) for chain in sorted(self.positions())]
        miscounted = self._miscounted()
        return [
            replace(check, problem="; ".join(filter(None, [check.problem, miscounted.get(check.chain_id, "")])))
            for check in checks
        ]

    def compare(self, chain: int, first: int = 0, most: int | None = None) -> RowCheck:
        """Compares the events of a chain in store and lake, some blocks at a time.

        The store may lack events of messages that it has pruned, and only of those; then the lake must have all that it ever
        had.

        Args:
            chain: its id.
            first: the block to begin with.
            most: how many blocks to compare at most; all if not given.
        """
        with self._engine.connect() as connection:
            row = connection.execute(select(tables.chains).where(tables.chains.c.chain_id == chain)).mappings().one()
            pruned = has_pruned(connection)
        in_lake = self._lake.last_block(chain)
        there = -1 if in_lake is None else in_lake
        if pruned and row["lake_block"] is not None and there < row["lake_block"]:
            problem = f"the lake had blocks up to {row['lake_block']}, and now ends before block {there + 1}"
            return RowCheck(chain_id=chain, last=there, problem=problem)
        last = min(there, row["block"])
        if most is not None:
            last = min(last, first + most - 1)
        rows = 0
        found: list[Difference] = []
        for start in range(first, last + 1, _BLOCKS_AT_ONCE):
            end = min(start + _BLOCKS_AT_ONCE - 1, last)
            stored = events_between(self._engine, chain, start, end)
            lasting = self._lake.events(chain, start, end)
            rows += len(lasting)
            if not stored.equals(lasting):
                found += _differences(lasting, stored)
        missing = {one.message_id for one in found if one.where == "lake" and one.message_id is not None}
        allowed = self.pruned(missing) if missing and pruned else set[bytes]()
        kept = [one for one in found if one.where != "lake" or one.message_id not in allowed]
        return RowCheck(chain_id=chain, last=last, rows=rows - (len(found) - len(kept)), differences=tuple(kept))

    def pruned(self, among: Iterable[bytes] | None = None) -> set[bytes]:
        """The messages that the lake has and the store may have pruned: they ended, all of it before what it pruned last.

        Args:
            among: these messages alone; all that the store does not have if not given.
        """
        return {row["message_id"] for row in self._pruned(among)}

    def _pruned(self, among: Iterable[bytes] | None) -> list[dict[str, Any]]:
        with self._engine.connect() as connection:
            before = connection.scalar(select(tables.facts.c.value).where(tables.facts.c.name == PRUNED_BEFORE))
            if before is None:
                return []
            kept = list(connection.scalars(select(tables.messages.c.message_id)))
        part = Part(files=self._lake.files(), folder=self._lake.folder, schema=schemas.EVENTS)
        with opened({"events": part}) as connection:
            connection.register("kept", pa.table({"message_id": pa.array(kept, pa.binary())}))
            chosen = "message_id not in (select message_id from kept)"
            if among is not None:
                connection.register("among", pa.table({"message_id": pa.array(list(among), pa.binary())}))
                chosen += " and message_id in (select message_id from among)"
            connection.execute(f"create temp table lacked as select * from events where {chosen}")
            rows: list[dict[str, Any]] = (
                connection.sql(
                    f"select message_id, source_chain, source_router, destination_chain "
                    f"from ({query('lifecycle', events='lacked', **WITH_BIT_OR)}) m "
                    "where status in (select unnest($ended)) and source_block is not null and not exists "
                    "(select 1 from lacked l where l.message_id = m.message_id and l.block_time >= $before)",
                    params={"ended": [status.value for status in ENDED], "before": before},
                )
                .to_arrow_table()
                .to_pylist()
            )
        return rows

    def _miscounted(self) -> dict[int, str]:
        """By source chain, lanes of which the store lacks more or fewer messages than it has pruned."""
        tallied = self._tallied()
        while tallied:
            lacked = Counter(tuple(row[name] for name in _LANE) for row in self._pruned(None))
            if tallied == (after := self._tallied()):
                break
            tallied = after  # the index has pruned meanwhile
        else:
            return {}
        return {
            one[0]: f"of lane {one[0]} → {one[2]} the store lacks {lacked[one]} ended messages, and has pruned "
            f"{tallied.get(one, 0)}"
            for one in sorted(tallied.keys() | lacked.keys())
            if lacked[one] != tallied.get(one, 0)
        }

    def _tallied(self) -> dict[tuple[Any, ...], int]:
        """How many messages of each lane the store has pruned."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(tables.pruned_lanes).where(tables.pruned_lanes.c.messages != 0)).mappings()
            return {tuple(row[name] for name in _LANE): row["messages"] for row in rows}


def _record(kind: str, message_id: bytes | None, chain: int, evidence: str) -> DivergenceRecord:
    meaning = MEANINGS[kind]
    return DivergenceRecord(
        kind=kind,
        message_id=message_id,
        source_chain=chain,
        destination_chain=None,
        evidence=evidence,
        severity=meaning.severity.value,
        next_action=meaning.next_action,
    )


def _differences(lasting: pa.Table, stored: pa.Table) -> list[Difference]:
    of_lake, of_store = _rows(lasting), _rows(stored)
    missing, surplus = list((of_lake - of_store).elements()), list((of_store - of_lake).elements())
    both = {_key(row) for row in missing} & {_key(row) for row in surplus}
    found = {(*_key(row), "both" if _key(row) in both else "lake"): row for row in missing}
    found |= {(*_key(row), "store"): row for row in surplus if _key(row) not in both}
    return [_difference(found[key], key[2]) for key in sorted(found)]


def _rows(events: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in events.columns), strict=True))


_BLOCK, _LOG, _EVENT, _MESSAGE = (
    schemas.EVENTS.get_field_index(name) for name in ("block_number", "log_index", "event", "message_id")
)


def _key(row: tuple[Any, ...]) -> tuple[int, int]:
    return row[_BLOCK], row[_LOG]


def _difference(row: tuple[Any, ...], where: str) -> Difference:
    return Difference(
        block_number=row[_BLOCK], log_index=row[_LOG], event=row[_EVENT], message_id=row[_MESSAGE], where=where
    )


PLACE: Final = ("block_number", "log_index", "block_hash", "event", "message_id")
"""The columns of `schemas.EVENTS` that tell one log from another."""


def places(events: pa.Table) -> set[tuple[object, ...]]:
    """What `PLACE` names, per event."""
    columns = [events[name].to_pylist() for name in PLACE]
    return set(zip(*columns, strict=True))
