"""What one Spark task of a backfill does. A module of its own with few imports: every process of Spark imports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from indexer.lake.files import write_files
from indexer.model.settings import SourceLimits
from indexer.model.storage_location import StorageLocation
from indexer.sources.chain import ChainConfig, ChainReader

MANIFEST: Final = "path string, size bigint, stats string"
"""The columns of what `RangeReader` yields."""


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads ranges of final blocks into files, given the first block of each: a function for `DataFrame.mapInArrow`.

    Attributes:
        chain: see `read_into_files`, as for `limits`, `folder` and `final`.
        step: how many blocks a range has, but for the one that ends with the final block.
    """

    chain: ChainConfig
    limits: SourceLimits
    folder: StorageLocation
    final: tuple[int, bytes]
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the files' manifests."""
        for batch in batches:
            for first in batch.column(0).to_pylist():
                blocks = first, min(first + self.step - 1, self.final[0])
                for manifest in read_into_files(self.chain, self.limits, self.folder, self.final, blocks):
                    yield pa.RecordBatch.from_pylist([manifest])


def read_into_files(
    chain: ChainConfig, limits: SourceLimits, folder: StorageLocation, final: tuple[int, bytes], blocks: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    """Reads final blocks into Parquet files.

    Args:
        chain: the chain, with all adapters that its router had in these blocks.
        limits: how to read it.
        folder: of the Delta table.
        final: number and hash of the last final block that the driver has seen: no endpoint is asked that lacks it.
        blocks: the first and the last, included.

    Yields:
        Of each file, once its content lasts, what `write_files` says.

    Raises:
        RpcError: no usable answer.
    """
    with ChainReader(chain, limits) as reader:
        reader.follow(final)
        yield from write_files(
            folder, (piece for events in reader.read_final(*blocks) for piece in events.to_batches())
        )
