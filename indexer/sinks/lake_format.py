"""The Spark data source `waybill_lake`: executors write Parquet files, and one commit makes them part of the lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from indexer import schemas
from indexer.sinks.lake import FinalBlocks, Lake
from indexer.sinks.parquet import write_files
from indexer.spark_types import spark_schema

FORMAT: Final = "waybill_lake"
FOLDER: Final = "folder"
BLOCKS: Final = "blocks"


class LakeDataSource(DataSource):
    """Appends rows of `schemas.EVENTS`.

    Its options are `folder`, the lake's, and `blocks`, the blocks that the rows are all events of (`encode_blocks`).
    """

    @classmethod
    def name(cls) -> str:
        """What `df.write.format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """`schemas.EVENTS`."""
        return spark_schema(schemas.EVENTS)

    def writer(self, schema: StructType, overwrite: bool) -> LakeWriter:  # noqa: ARG002, FBT001  Spark's interface
        """Writes to the folder in the options."""
        return LakeWriter(Path(self.options[FOLDER]), decode_blocks(self.options[BLOCKS]))


class Written(WriterCommitMessage):
    """What one task has written."""

    def __init__(self, manifests: list[dict[str, Any]]) -> None:
        """What `write_files` said of its files."""
        self.manifests = manifests


class LakeWriter(DataSourceArrowWriter):
    """Writes in the executors, commits in the driver."""

    def __init__(self, folder: Path, blocks: dict[int, FinalBlocks]) -> None:
        """Writes to the lake in `folder` all events of `blocks`."""
        self._folder = folder
        self._blocks = blocks

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes one task's rows. Nobody sees the files until the commit."""
        events = (batch.cast(schemas.EVENTS) for batch in iterator)
        return Written(list(write_files(Lake(self._folder).folder, events)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Adds what all tasks have written to the table, at once.

        Raises:
            RangeGapError: the blocks do not follow those in the lake.
        """
        manifests = [manifest for message in messages if isinstance(message, Written) for manifest in message.manifests]
        Lake(self._folder).commit(manifests, self._blocks)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Leaves the files: without a commit they do not count."""


def encode_blocks(blocks: Mapping[int, FinalBlocks]) -> str:
    """Blocks as an option's text."""
    return orjson.dumps(
        [(chain, final.first, final.last, final.last_hash.hex()) for chain, final in blocks.items()]
    ).decode()


def decode_blocks(text: str) -> dict[int, FinalBlocks]:
    """What `encode_blocks` wrote."""
    return {
        chain: FinalBlocks(first, last, bytes.fromhex(last_hash))
        for chain, first, last, last_hash in orjson.loads(text)
    }
