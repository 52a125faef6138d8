"""What one Spark task of a backfill does. A module of its own with few imports: every process of Spark imports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa

from indexer.lake.files import write_files
from indexer.model.settings import SourceLimits
from indexer.model.storage_location import StorageLocation
from indexer.sources.blocks import AdaptiveRanges
from indexer.sources.chain import ChainConfig, ChainReader

MANIFEST: Final = "path string, size bigint, stats string, new_adapters array<binary>"
"""The columns of what `RangeReader` yields; `new_adapters` are those that the chain's configuration does not name."""

_ROW: Final = pa.schema(
    {"path": pa.string(), "size": pa.int64(), "stats": pa.string(), "new_adapters": pa.list_(pa.binary())}
)


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of final blocks into files, given the first block of each: a function for `DataFrame.mapInArrow`.

    Attributes:
        chain: the chain, with the adapters that are known.
        limits: how to read it.
        folder: of the Delta table.
        final: number and hash of the last final block that the driver has seen: no endpoint is asked that lacks it.
        step: how many blocks a range has, but for the one that ends with the final block.
        at_once: how many ranges one task reads at once.
    """

    chain: ChainConfig
    limits: SourceLimits
    folder: StorageLocation
    final: tuple[int, bytes]
    step: int
    at_once: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the files' manifests."""
        firsts = [first for batch in batches for first in batch.column(0).to_pylist()]
        parts = [part for number in range(self.at_once) if (part := firsts[number :: self.at_once])]
        with ThreadPoolExecutor(self.at_once) as pool:
            for manifests in pool.map(self._read, parts):
                yield pa.RecordBatch.from_pylist(manifests, schema=_ROW)

    def _read(self, firsts: list[int]) -> list[dict[str, Any]]:
        """One reader for all these ranges; how many blocks the endpoint takes, all readers of this process know."""
        with ChainReader(self.chain, self.limits, ranges=_ranges_of(self.chain.urls)) as reader:
            reader.follow(self.final)
            manifests: list[dict[str, Any]] = []
            for first in firsts:
                last = min(first + self.step - 1, self.final[0])
                manifests += read_into_files(reader, self.folder, first, last, self.final[0])
            return manifests


@cache
def _ranges_of(urls: tuple[str, ...]) -> AdaptiveRanges:  # noqa: ARG001  what the cache goes by
    return AdaptiveRanges()


def read_into_files(
    reader: ChainReader, folder: StorageLocation, first: int, last: int, final: int
) -> Iterator[dict[str, Any]]:
    """Reads final blocks into Parquet files.

    Args:
        reader: of the chain, which asks no endpoint that lacks the last final block.
        folder: of the Delta table.
        first: the first block.
        last: the last block, included.
        final: the last block that is known to be final.

    Yields:
        Of each file, once its content lasts, what `write_files` says, and `new_adapters`.

    Raises:
        RpcError: no usable answer.
    """
    pieces = (piece for events in reader.read_final(first, last, final) for piece in events.to_batches())
    for manifest in write_files(folder, pieces):
        yield {**manifest, "new_adapters": sorted(reader.new_adapters)}
