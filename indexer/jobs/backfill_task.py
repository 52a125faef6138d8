"""What one Spark task of a backfill does. It has a module of its own since each of Spark's processes imports all of that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from indexer.lake.files import write_files
from indexer.model.settings import SourceLimits
from indexer.model.storage_location import StorageLocation
from indexer.sources.chain import ChainConfig, ChainReader


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
