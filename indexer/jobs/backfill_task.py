"""The work of one Spark task in a backfill. Every Spark process imports this module, so it imports little itself."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from indexer.model.settings import SourceLimits
from indexer.model.storage_location import StorageLocation
from indexer.pipeline import log_files
from indexer.sources.blocks import AdaptiveRanges
from indexer.sources.chain import ChainConfig, ChainReader


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of final blocks, and writes their logs to files of `bronze.logs`, which the driver commits.

    Pass it to `DataFrame.mapInArrow` on a column with the first block of each range.

    Attributes:
        chain: chain to read, with its known adapters.
        limits: limits on requests and batches.
        final: number and hash of the last final block that the driver saw. Endpoints that do not have it are skipped.
        step: number of blocks in a range. The range that ends with the final block may be shorter.
        folder: location of `bronze.logs`.
        at_once: number of ranges that one task reads concurrently.
    """

    chain: ChainConfig
    limits: SourceLimits
    final: tuple[int, bytes]
    step: int
    folder: StorageLocation
    at_once: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the written files, with the schema `log_files.FILES`."""
        firsts = [first for batch in batches for first in batch.column(0).to_pylist()]
        parts = [part for number in range(self.at_once) if (part := firsts[number :: self.at_once])]
        with _without_collector(), ThreadPoolExecutor(self.at_once) as pool:
            for files in pool.map(self._copy, parts):
                yield from files.to_batches()

    def _copy(self, firsts: list[int]) -> pa.Table:
        """Reads several ranges with the same reader, and writes their logs to one file."""
        ranges = _ranges.setdefault(self.chain.urls, AdaptiveRanges())
        with ChainReader(self.chain, self.limits, ranges=ranges) as reader:
            reader.follow(self.final)
            logs = [
                table for first in firsts for table in reader.read_final_logs(first, self._last(first), self.final[0])
            ]
            return log_files.write(self.folder, logs, reader.adapters)

    def _last(self, first: int) -> int:
        return min(first + self.step - 1, self.final[0])


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pauses the garbage collector. It would search the many objects of each response several times, and they have no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_ranges: dict[tuple[str, ...], AdaptiveRanges] = {}
"""By endpoints, the range limits that this process's readers have learned."""
