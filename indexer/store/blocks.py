"""The block ranges of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from indexer.model import schemas
from indexer.sources.position import HASH_PREFIX, ChainPosition

MAX_ROWS: Final = 2_000
"""Maximum number of events in one transaction. Longer transactions would delay other writers to the same disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRange:
    """Blocks `first`…`position.block` of a chain. Their events replace everything from `first` on.

    Attributes:
        first: first block; it is above `position.block` if a reorg only removed blocks.
        parent_hash: prefix of the hash of block `first` - 1 on the branch from which the range was read; None
            if the chain is read from `first` on. It must equal the stored hash, so that a range is never joined to
            a different history.
        position: position of the chain after the range.
        block_hash: hash of the last block.
        block_time: Unix seconds of the last block.
        head_block: newest block that the chain was known to have.
    """

    first: int
    parent_hash: bytes | None
    position: ChainPosition
    block_hash: bytes
    block_time: int
    head_block: int

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> BlockRange:
        """Parses the range from a row of `schemas.SOURCE`."""
        return cls(
            first=row["range_first"],
            parent_hash=row["parent_hash"],
            position=ChainPosition(
                block=row["block_number"],
                hashes=row["range_hashes"],
                final_block=row["final_block"],
                final_hash=row["final_hash"],
            ),
            block_hash=row["block_hash"],
            block_time=row["block_time"],
            head_block=row["head_block"],
        )

    def up_to(self, block: int, block_hash: bytes, block_time: int) -> BlockRange:
        """Returns the part of the range that ends at an earlier block."""
        hashes = self.position.back_to(block).hashes or block_hash[:HASH_PREFIX]
        final = self.position.final_block <= block
        return replace(
            self,
            position=replace(
                self.position,
                block=block,
                hashes=hashes,
                final_block=self.position.final_block if final else block,
                final_hash=self.position.final_hash if final else block_hash,
            ),
            block_hash=block_hash,
            block_time=block_time,
        )

    def after(self, block: int, block_hash: bytes) -> BlockRange:
        """Returns the part of the range after a block."""
        return replace(self, first=block + 1, parent_hash=block_hash[:HASH_PREFIX])


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch: events, their block ranges, and the chains that are halted."""

    events: pa.Table
    ranges: dict[int, BlockRange]
    halted: dict[int, str]

    @classmethod
    def from_source(cls, rows: pa.Table) -> Batch:
        """Parses the batch from rows of `schemas.SOURCE`."""
        is_range = pc.is_valid(rows["range_first"])
        is_halt = pc.is_valid(rows["halted"])
        ranges = rows.filter(is_range).to_pylist()
        halts = rows.filter(is_halt).to_pylist()
        events = rows.filter(pc.invert(pc.or_(is_range, is_halt))).select(schemas.EVENTS.names)
        return cls(
            events=events.cast(schemas.EVENTS),
            ranges={row["chain_id"]: BlockRange.from_row(row) for row in ranges},
            halted={row["chain_id"]: row["halted"] for row in halts},
        )


def in_pieces(events: pa.Table, range_: BlockRange, max_rows: int) -> Iterator[tuple[pa.Table, BlockRange]]:
    """Splits a range of one chain at block boundaries, so that no piece has more than `max_rows` events if possible.

    Args:
        events: events of that chain, in chain order.
        range_: block range of these events.
        max_rows: maximum number of events in a piece. A single block with more events is not split.
    """
    start = 0
    numbers = events["block_number"].to_numpy()
    while len(events) - start > max_rows:
        last = int(numbers[start + max_rows])
        end = int((numbers < last).sum())
        if end <= start:
            end = int((numbers <= last).sum())
        if end == len(events):
            break
        row = events.slice(end - 1, 1).to_pylist()[0]
        yield (
            events.slice(start, end - start),
            range_.up_to(row["block_number"], row["block_hash"], row["block_time"]),
        )
        range_ = range_.after(row["block_number"], row["block_hash"])
        start = end
    yield events.slice(start), range_
