"""The whole pipeline, for Spark: each table as a DataFrame of others.

bronze      silver          kept                    gold
events ─┬─▶ messages ───┬─▶ tallies ──────────────▶ lanes, latencies, redundancy
        ├─▶ receipts ───┼─▶ findings, candidates ─▶ divergences, with the events about routers
        ├─▶ attempts    ├─▶ fan_outs ─────────────▶ divergences
        │               └─────────────────────────▶ costs
        └─────────────────────────────────────────▶ duplicates
"""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.model.tables import MADE_OF, SCHEMAS, Noted
from indexer.transforms import gold, silver


class Pipeline:
    """The tables by their names, each planned when it is asked for. To set one is to have the later ones read that instead."""

    def __init__(self, events: DataFrame, noted: Noted) -> None:
        """Plans nothing yet.

        Args:
            events: `schemas.EVENTS`.
            noted: what events do not say.

        Attributes:
            removed: by table, rows that those which are set replace.
            before: by table, rows that it is added to.
        """
        self.spark = events.sparkSession
        self.events = events
        self.removed: dict[str, DataFrame] = {}
        self.before: dict[str, DataFrame] = {}
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
    def findings(self) -> DataFrame:
        """Those of `divergences` that the receipts of a message show."""
        return gold.findings(self.messages, self.receipts, self.duplicates, self.events)

    @cached_property
    def candidates(self) -> DataFrame:
        """Those of `messages` that other divergences may be about."""
        return gold.candidates(self.messages)

    @cached_property
    def fan_outs(self) -> DataFrame:
        """`schemas.FAN_OUTS`."""
        return gold.fan_outs(self.messages, self._before("fan_outs"))

    @cached_property
    def tallies(self) -> DataFrame:
        """`schemas.TALLIES`."""
        removed = self._removed("messages"), self._removed("receipts")
        return gold.tallies(self.messages, self.receipts, removed, self._before("tallies"))

    @cached_property
    def lanes(self) -> DataFrame:
        """`schemas.LANES`."""
        return gold.lanes(self.tallies)

    @cached_property
    def latencies(self) -> DataFrame:
        """`schemas.LATENCIES`."""
        attested = None if self._noted.attested is None else self._frame(self._noted.attested)
        final_times = self._frame(self._noted.final_times)
        return gold.latencies(self.tallies, self.messages, self.receipts, final_times, attested)

    @cached_property
    def redundancy(self) -> DataFrame:
        """`schemas.REDUNDANCY`."""
        return gold.redundancy(self.tallies)

    @cached_property
    def costs(self) -> DataFrame:
        """`schemas.COSTS`."""
        paid = schemas.PAID.empty_table() if self._noted.paid is None else self._noted.paid
        return gold.costs(self.messages, self.receipts, self._frame(paid))

    @cached_property
    def divergences(self) -> DataFrame:
        """`schemas.DIVERGENCES`, with those that were noted."""
        chains = gold.chains(self.events) if self._noted.chains is None else self._frame(self._noted.chains)
        kept = {name: getattr(self, name) for name in MADE_OF["divergences"]}
        limits = self._frame(self._noted.limits)
        found = gold.divergences(kept, self.events, chains, self._noted.policy, limits=limits)
        return found.unionByName(self._frame(self._noted.divergences))

    def _removed(self, name: str) -> DataFrame:
        return self.removed[name] if name in self.removed else self._frame(SCHEMAS[name].empty_table())

    def _before(self, name: str) -> DataFrame:
        return self.before[name] if name in self.before else self._frame(SCHEMAS[name].empty_table())

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(rows, spark_schema(rows.schema))
