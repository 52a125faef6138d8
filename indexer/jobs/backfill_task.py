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
    """

    chain: ChainConfig
    limits: SourceLimits
    folder: StorageLocation
    final: tuple[int, bytes]
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the files' manifests. One reader for all ranges: it knows the next time how many blocks the endpoint takes."""
        with ChainReader(self.chain, self.limits) as reader:
            reader.follow(self.final)
            for batch in batches:
                for first in batch.column(0).to_pylist():
                    for manifest in read_into_files(
                        reader, self.folder, first, min(first + self.step - 1, self.final[0])
                    ):
                        yield pa.RecordBatch.from_pylist([manifest], schema=_ROW)


def read_into_files(reader: ChainReader, folder: StorageLocation, first: int, last: int) -> Iterator[dict[str, Any]]:
    """Reads final blocks into Parquet files.

    Args:
        reader: of the chain, which asks no endpoint that lacks the last final block.
        folder: of the Delta table.
        first: the first block.
        last: the last block, included.

    Yields:
        Of each file, once its content lasts, what `write_files` says, and `new_adapters`.

    Raises:
        RpcError: no usable answer.
    """
    pieces = (piece for events in reader.read_final(first, last) for piece in events.to_batches())
    for manifest in write_files(folder, pieces):
        yield {**manifest, "new_adapters": sorted(reader.new_adapters)}
