"""The whole history: the lake as far as it reaches, and behind that the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from sqlalchemy import Engine, select

from bridge.protocol.indexed import DivergenceRecord
from indexer import schemas
from indexer.divergences import MEANINGS
from indexer.sinks import tables
from indexer.sinks.lake import Lake
from indexer.sinks.retention import has_pruned
from indexer.sinks.store import events_between, position_of
from indexer.sources.position import ChainPosition

STORE_DIFFERS: Final = "STORE_DIFFERS_FROM_LAKE"
_BLOCKS_AT_ONCE: Final = 50_000
_IDS_AT_ONCE: Final = 500


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

    def disagreements(self) -> Iterator[DivergenceRecord]:
        """Chains of which store and lake hold different events, where both should hold the same; see `differs`."""
        meaning = MEANINGS[STORE_DIFFERS]
        for chain in sorted(self.positions()):
            _, evidence = self.differs(chain)
            if evidence is not None:
                yield DivergenceRecord(
                    kind=STORE_DIFFERS,
                    message_id=None,
                    source_chain=chain,
                    destination_chain=None,
                    evidence=evidence,
                    severity=meaning.severity.value,
                    next_action=meaning.next_action,
                )

    def differs(self, chain: int, first: int = 0, most: int | None = None) -> tuple[int, str | None]:
        """Compares the events of a chain in store and lake, some blocks at a time.

        The store may lack events of messages that it has let go of, and only of those; then the lake must have all that it
        ever had.

        Args:
            chain: its id.
            first: the block to begin with.
            most: how many blocks to compare at most; all if not given.

        Returns:
            The last block compared, and what differs; None if nothing does.
        """
        with self._engine.connect() as connection:
            row = connection.execute(select(tables.chains).where(tables.chains.c.chain_id == chain)).mappings().one()
            pruned = has_pruned(connection)
        in_lake = self._lake.last_block(chain)
        there = -1 if in_lake is None else in_lake
        if pruned and row["lake_block"] is not None and there < row["lake_block"]:
            return there, f"the lake had blocks up to {row['lake_block']}, and now ends before block {there + 1}"
        last = min(there, row["block"])
        if most is not None:
            last = min(last, first + most - 1)
        missing = surplus = 0
        for start in range(first, last + 1, _BLOCKS_AT_ONCE):
            end = min(start + _BLOCKS_AT_ONCE - 1, last)
            stored = places(events_between(self._engine, chain, start, end, PLACE))
            lasting = places(self._lake.events(chain, start, end, PLACE))
            missing += self._not_let_go_of(lasting - stored)
            surplus += len(stored - lasting)
        if not missing and not surplus:
            return last, None
        return last, (
            f"up to block {last}: {missing} events of the lake are not in the store, {surplus} of the store not in the lake"
        )

    def _not_let_go_of(self, missing: set[tuple[object, ...]]) -> int:
        """How many of these events, which the store lacks, are of messages that it has, or of none."""
        ids = [place[PLACE.index("message_id")] for place in missing]
        distinct = list({message_id for message_id in ids if message_id is not None})
        kept: set[object] = {None}
        message_id = tables.messages.c.message_id
        with self._engine.connect() as connection:
            for start in range(0, len(distinct), _IDS_AT_ONCE):
                chosen = select(message_id).where(message_id.in_(distinct[start : start + _IDS_AT_ONCE]))
                kept |= set(connection.scalars(chosen))
        return sum(one in kept for one in ids)


PLACE: Final = ("block_number", "log_index", "block_hash", "event", "message_id")
"""The columns of `schemas.EVENTS` that tell one log from another."""


def places(events: pa.Table) -> set[tuple[object, ...]]:
    """What `PLACE` names, per event."""
    columns = [events[name].to_pylist() for name in PLACE]
    return set(zip(*columns, strict=True))
