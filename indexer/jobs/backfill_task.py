"""What one Spark task of a backfill does. It has a module of its own since each of Spark's processes imports all of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexer.settings import SourceLimits
from indexer.sinks.parquet import write_files
from indexer.sources.chain import ChainConfig, ChainReader


def read_into_files(
    chain: ChainConfig, limits: SourceLimits, folder: Path, first: int, last: int
) -> Iterator[dict[str, Any]]:
    """Reads final blocks into Parquet files.

    Args:
        chain: the chain, with all adapters that its router had in these blocks.
        limits: how to read it.
        folder: of the Delta table.
        first: the first block.
        last: the last block, included.

    Yields:
        Of each file, once it is on disk, what `write_files` says.

    Raises:
        RpcError: no usable answer.
    """
    with ChainReader(chain, limits) as reader:
        yield from write_files(
            folder, (piece for events in reader.read_final(first, last) for piece in events.to_batches())
        )
