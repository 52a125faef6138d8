"""The Spark data source `evm`: events of Waybill's contracts on many chains.

As a stream, one reader in the driver follows all chains: an offset says what has really been read, so that a chain that
reorganises, hangs or fails while it is read simply does not move on. As a batch, executors read ranges that are final.

Spark starts several processes that import this module only to plan with it. So what reads chains is imported where it is
used: that takes half a second in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from indexer.model.errors import RangeGapError

if TYPE_CHECKING:
    import pyarrow as pa

    from indexer.sources.tail import ChainTail

FORMAT: Final = "evm"

# Its options; `indexer.sources.options` says how their values are written.
CHAINS: Final = "chains"
LIMITS: Final = "limits"
POSITIONS: Final = "positions"
RANGES: Final = "ranges"


class EvmDataSource(DataSource):
    """Reads events; its options are named above."""

    @classmethod
    def name(cls) -> str:
        """What `spark.read.format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """`schemas.SOURCE`: events, and the ranges of blocks that they are of."""
        from indexer.model import schemas
        from indexer.model.spark_types import spark_schema

        return spark_schema(schemas.SOURCE)

    def simpleStreamReader(self, schema: StructType) -> EvmTail:  # noqa: ARG002, N802  Spark's interface
        """Follows the chains from the option `positions` on."""
        return EvmTail(dict(self.options))

    def reader(self, schema: StructType) -> EvmRanges:  # noqa: ARG002  Spark's interface
        """Reads the option `ranges`."""
        return EvmRanges(dict(self.options))


class EvmTail(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream."""

    def __init__(self, told: dict[str, str]) -> None:
        """Makes no connection: Spark also pickles the reader, for processes that do not read with it."""
        self._told = told

    @cached_property
    def _tail(self) -> ChainTail:
        from indexer.sources import options
        from indexer.sources.tail import ChainTail

        chains = options.decode_chains(self._told[CHAINS])
        return ChainTail(chains, options.decode_limits(self._told[LIMITS]))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's interface
        """Where the store says that reading ended."""
        positions: dict[str, Any] = orjson.loads(self._told[POSITIONS])
        return positions

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's interface
        """Makes the heads of now the end."""
        self._tail.stop_at_heads()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        """What is new since `start`, and the offset after it; see `ChainTail.read`."""
        from indexer.sources import options

        positions, batches = self._tail.read(options.decode_positions(start))
        return iter(batches), options.encode_positions(positions)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802  Spark's interface
        """Spark asks for this when there was nothing new at the start, or when it has lost what `read` gave it.

        Raises:
            RangeGapError: it has lost rows. The chain may have changed since, so reading starts again from the store.
        """
        if start != end:
            raise RangeGapError("Spark lost rows that it had been given")
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: store and lake own the offsets."""


class BlockRange(InputPartition):
    """Final blocks of one chain, read by one task."""

    def __init__(self, chain_id: int, first: int, last: int) -> None:
        """Blocks `first`…`last` of a chain."""
        super().__init__((chain_id, first, last))
        self.chain_id = chain_id
        self.first = first
        self.last = last


class EvmRanges(DataSourceReader):
    """The batch."""

    def __init__(self, told: dict[str, str]) -> None:
        """Connects when it reads."""
        self._told = told

    def partitions(self) -> list[InputPartition]:
        """One per range, of which the option has chain, first and last block."""
        ranges: list[tuple[int, int, int]] = orjson.loads(self._told[RANGES])
        return [BlockRange(*chosen) for chosen in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of one range."""
        from indexer.model import schemas
        from indexer.sources import options
        from indexer.sources.chain import ChainReader

        assert isinstance(partition, BlockRange)
        chains = {chain.chain_id: chain for chain in options.decode_chains(self._told[CHAINS])}
        limits = options.decode_limits(self._told[LIMITS])
        chain = chains[partition.chain_id]
        shared = replace(
            chain, endpoints=chain.endpoints.shared_by(len(self.partitions()))
        )  # all of them may run at once
        with ChainReader(shared, limits) as reader:
            for events in reader.read_final(partition.first, partition.last):
                yield from schemas.as_source(events).to_batches()
