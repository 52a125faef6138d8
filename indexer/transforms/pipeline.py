"""The whole pipeline, for Spark: each table as a DataFrame of others.

bronze      silver          gold
events ─┬─▶ messages ───┬─▶ lanes
        ├─▶ receipts ───┼─▶ latencies, redundancy, costs
        ├─▶ attempts    └─▶ divergences, with the events about routers
        └─────────────────▶ duplicates
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.model.tables import Noted
from indexer.transforms import gold, silver


class Pipeline:
    """The tables by their names, each planned when it is asked for. To set one is to have the later ones read that instead."""

    def __init__(self, events: DataFrame, noted: Noted) -> None:
        """Plans nothing yet.

        Args:
            events: `schemas.EVENTS`.
            noted: what events do not say.
        """
        self.spark = events.sparkSession
        self.events = events
        self._noted = noted

    @cached_property
    def messages(self) -> DataFrame:
        """`schemas.MESSAGES`."""
        return silver.messages(self.events)

    @cached_property
    def receipts(self) -> DataFrame:
        """`schemas.RECEIPTS`."""
        return silver.receipts(self.events)

    @cached_property
    def attempts(self) -> DataFrame:
        """`schemas.ATTEMPTS`."""
        return silver.attempts(self.events)

    @cached_property
    def duplicates(self) -> DataFrame:
        """`schemas.DUPLICATES`."""
        return gold.duplicates(self.events)

    @cached_property
    def lanes(self) -> DataFrame:
        """`schemas.LANES`."""
        return gold.lanes(self.messages, self.receipts)

    @cached_property
    def latencies(self) -> DataFrame:
        """`schemas.LATENCIES`."""
        attested = self._noted.attested
        return gold.latencies(self._deliveries, None if attested is None else self._frame(attested))

    @cached_property
    def redundancy(self) -> DataFrame:
        """`schemas.REDUNDANCY`."""
        return gold.redundancy(self._deliveries)

    @cached_property
    def costs(self) -> DataFrame:
        """`schemas.COSTS`."""
        paid = schemas.PAID.empty_table() if self._noted.paid is None else self._noted.paid
        return gold.costs(self.messages, self.receipts, self._frame(paid))

    @cached_property
    def divergences(self) -> DataFrame:
        """`schemas.DIVERGENCES`, with those that were noted."""
        chains = gold.chains(self.events) if self._noted.chains is None else self._frame(self._noted.chains)
        limits, policy = self._frame(self._noted.limits), self._noted.policy
        found = gold.divergences(self.messages, self.receipts, self.events, chains, policy, limits=limits)
        return found.unionByName(self._frame(self._noted.divergences))

    @cached_property
    def _deliveries(self) -> DataFrame:
        return gold.deliveries(self.messages, self.receipts, self._frame(self._noted.final_times))

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(rows, spark_schema(rows.schema))
