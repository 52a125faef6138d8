"""The Spark streaming source `evm`: events of Waybill's contracts on many chains.

One reader in the driver follows all chains. An offset states only what was actually read, so a chain that
reorganises, hangs or fails does not advance. Backfills read final ranges on executors instead
(`indexer.sources.backfill_task`).

Spark starts several processes that import this module only for planning. So the modules that read chains are
imported only where they are used, which saves half a second in each process.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import orjson
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from indexer.model.errors import RangeGapError

if TYPE_CHECKING:
    from indexer.sources.tail import ChainTail

FORMAT: Final = "evm"

# Options of the source; `indexer.sources.options` encodes their values.
CHAINS: Final = "chains"
LIMITS: Final = "limits"
POSITIONS: Final = "positions"


class EvmDataSource(DataSource):
    """Spark's entry point to the source."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `spark.readStream.format`."""
        return FORMAT

    def schema(self) -> StructType:
        """Returns `schemas.SOURCE`, the schema of events and of the block ranges that they belong to."""
        from indexer.model import schemas
        from indexer.model.spark_types import spark_schema

        return spark_schema(schemas.SOURCE)

    def simpleStreamReader(self, schema: StructType) -> EvmTail:  # noqa: ARG002, N802  Spark's interface
        """Returns a reader that starts at the option `positions`."""
        return EvmTail(dict(self.options))


class EvmTail(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader, which runs in the driver."""

    def __init__(self, settings: dict[str, str]) -> None:
        """Connects lazily, since Spark also pickles the reader for processes that do not read."""
        self._settings = settings

    @cached_property
    def _tail(self) -> ChainTail:
        from indexer.sources import options
        from indexer.sources.tail import ChainTail

        chains = options.decode_chains(self._settings[CHAINS])
        return ChainTail(chains, options.decode_limits(self._settings[LIMITS]))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's interface
        """Returns the store's positions."""
        positions: dict[str, Any] = orjson.loads(self._settings[POSITIONS])
        return positions

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's interface
        """Makes the stream end at the current heads."""
        self._tail.stop_at_heads()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Any], dict[str, Any]]:
        """Returns the rows after `start` and the offset after them; see `ChainTail.read`."""
        from indexer.sources import options

        positions, batches = self._tail.read(options.decode_positions(start))
        return iter(batches), options.encode_positions(positions)

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any]:  # noqa: N802  Spark's interface
        """Returns no rows.

        Spark calls this if there was nothing new at the start, or if it lost the rows that `read` returned.

        Raises:
            RangeGapError: Spark lost rows. The chain may have changed since, so the stream restarts from the store.
        """
        if start != end:
            raise RangeGapError("Spark lost rows that `read` had returned")
        return iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing, since store and lake own the offsets."""
