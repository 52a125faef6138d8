"""The work of one Spark task in a backfill. Every Spark process imports this module, so it imports little itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from indexer.model.settings import SourceLimits
from indexer.sources.blocks import AdaptiveRanges
from indexer.sources.chain import ChainConfig, ChainReader


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of final blocks. Pass it to `DataFrame.mapInArrow` on a column with the first block of each range.

    Attributes:
        chain: chain to read, with its known adapters.
        limits: limits on requests and batches.
        final: number and hash of the last final block that the driver saw. Endpoints that do not have it are skipped.
        step: number of blocks in a range. The range that ends with the final block may be shorter.
        at_once: number of ranges that one task reads concurrently.
    """

    chain: ChainConfig
    limits: SourceLimits
    final: tuple[int, bytes]
    step: int
    at_once: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the logs, with the schema `schemas.LOGS`."""
        firsts = [first for batch in batches for first in batch.column(0).to_pylist()]
        parts = [part for number in range(self.at_once) if (part := firsts[number :: self.at_once])]
        with ThreadPoolExecutor(self.at_once) as pool:
            for logs in pool.map(self._read, parts):
                yield from logs

    def _read(self, firsts: list[int]) -> list[pa.RecordBatch]:
        """Reads several ranges with the same reader."""
        ranges = _ranges.setdefault(self.chain.urls, AdaptiveRanges())
        with ChainReader(self.chain, self.limits, ranges=ranges) as reader:
            reader.follow(self.final)
            tables = (
                table for first in firsts for table in reader.read_final_logs(first, self._last(first), self.final[0])
            )
            return [batch for table in tables for batch in table.to_batches()]

    def _last(self, first: int) -> int:
        return min(first + self.step - 1, self.final[0])


_ranges: dict[tuple[str, ...], AdaptiveRanges] = {}
"""By endpoints, the range limits that this process's readers have learned."""
