"""The whole history: the lake as far as it reaches, and behind that the store."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlalchemy import Engine, select

from indexer import schemas
from indexer.sinks import tables
from indexer.sinks.lake import Lake
from indexer.sinks.store import events_between, position_of
from indexer.sources.position import ChainPosition


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
            parts.append(events_between(self._engine, chain, first, last).select(names))
        return pa.concat_tables(parts) if parts else schemas.EVENTS.empty_table().select(names)
