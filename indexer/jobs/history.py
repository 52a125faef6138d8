"""Reads the whole history: from the lake up to its last block, then from the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from sqlalchemy import Engine, select

from indexer.model import schemas
from indexer.pipeline.bronze import Lake
from indexer.sources.position import ChainPosition
from indexer.store import tables
from indexer.store.store import events_between, position_of

_FIRST_PART: Final = 1_000  # blocks
_ROWS_IN_A_PART: Final = 100_000  # about


class History:
    """Reads lake and store as one history. The index may be running meanwhile."""

    def __init__(self, engine: Engine, lake: Lake) -> None:
        """Creates the reader of the store behind `engine`, and of `lake`."""
        self._engine = engine
        self._lake = lake

    def positions(self) -> dict[int, ChainPosition]:
        """Returns each chain's position."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(tables.chains)).mappings()
            return {row["chain_id"]: position_of(row) for row in rows}

    def last_of_lake(self, chain: int) -> tuple[int, bytes] | None:
        """Returns the number and hash of the chain's last block in the lake; see `Lake.last_known`."""
        return self._lake.last_known(chain)

    def events(self, chain: int, first: int, last: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the events of a range of blocks, in order.

        Args:
            chain: chain id.
            first: the first block.
            last: the last block (inclusive).
            columns: columns of `schemas.EVENTS` to return; all by default.
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

    def parts(self, chain: int, first: int, last: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields the events of a range of blocks in parts, so that any history fits into memory.

        Each part consists of whole blocks and has about a hundred thousand events. See `events` for the arguments.
        """
        blocks = _FIRST_PART
        while first <= last:
            end = min(last, first + blocks - 1)
            part = self.events(chain, first, end, columns)
            yield part
            first = end + 1
            blocks = 2 * blocks if len(part) < _ROWS_IN_A_PART else max(1, blocks // 2)

    def blocks(self, chain: int, first: int, last: int) -> list[tuple[int, bytes]]:
        """Returns the number and hash of each block with logs in a range, in order."""
        in_lake = self._lake.last_block(chain)
        found: set[tuple[int, bytes]] = set()
        if in_lake is not None and first <= in_lake:
            found |= self._lake.blocks(chain, first, min(last, in_lake))
            first = in_lake + 1
        block = tables.events.c
        chosen = select(block.block_number, block.block_hash).where(block.chain_id == chain)
        with self._engine.connect() as connection:
            rows = connection.execute(chosen.where(block.block_number.between(first, last)).distinct())
            found |= {(row.block_number, row.block_hash) for row in rows}
        return sorted(found)


PLACE: Final = ("block_number", "log_index", "block_hash", "event", "message_id")
"""The columns of `schemas.EVENTS` that identify a log."""


def places(events: pa.Table) -> set[tuple[object, ...]]:
    """Returns each event's place on the chain: the values of the columns in `PLACE`."""
    columns = [events[name].to_pylist() for name in PLACE]
    return set(zip(*columns, strict=True))
