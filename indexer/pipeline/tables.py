"""Reads and writes the lake's tables for a refresh."""

from __future__ import annotations

from typing import Final

from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from indexer.model.dictionary import TABLES
from indexer.model.spark_types import spark_schema
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.files import explained
from indexer.pipeline.reading import rows_of

_KEYS: Final = {
    "silver.events": ("chain_id", "block_number", "log_index"),
    "silver.messages": ("message_id",),
    "silver.receipts": ("message_id", "gmp"),
    "silver.attempts": ("message_id", "attempt"),
}


class Tables:
    """The tables of a lake. Each change is one commit.

    Spark runs several jobs for each Delta table that it reads and for each commit, regardless of the number of
    rows. For a short history these jobs would take most of the time. So Spark only computes its rows, and this
    process reads and commits them.
    """

    def __init__(self, spark: SparkSession, place: StorageLocation, *, is_short: bool) -> None:
        """Stores the session and the lake.

        `is_short` states whether the history is short and Spark runs on this machine.
        """
        self._spark = spark
        self._place = place
        self._is_short = is_short

    def read(self, name: str) -> DataFrame:
        """Returns the rows of a table's latest version."""
        if self._is_short:
            rows = rows_of(self._place, name)
            return self.once(self._spark.createDataFrame(rows, spark_schema(rows.schema)))
        return self._spark.read.format("delta").load(self._place.table(name).uri)

    def once(self, rows: DataFrame) -> DataFrame:
        """Returns rows that are computed only once. With a long history, they survive the loss of a worker."""
        return rows.coalesce(1).localCheckpoint() if self._is_short else rows.persist()

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """Replaces a table's rows."""
        folder = self._place.table(name)
        if not self._is_short:
            rows.write.format("delta").mode("overwrite").save(folder.uri)
            return
        schema, _ = TABLES[name]
        found = rows.select(schema.names).toArrow().cast(schema)
        with explained(folder):
            write_deltalake(folder.root, found, mode="overwrite", storage_options=folder.options)

    def merge(self, name: str, rows: DataFrame) -> None:
        """Updates the rows whose key is in the table, and inserts the others."""
        target = SparkTable.forPath(self._spark, self._place.table(name).uri)
        same = " and ".join(f"old.{column} = new.{column}" for column in _KEYS[name])
        merge = target.alias("old").merge(rows.alias("new"), same)
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def maintain(self, name: str, keep_hours: int) -> None:
        """Compacts small files, and deletes files to which no version of the last `keep_hours` hours refers."""
        folder = self._place.table(name)
        if not self._is_short:
            table = SparkTable.forPath(self._spark, folder.uri)
            table.optimize().executeCompaction()
            table.vacuum(keep_hours)
            return
        with explained(folder):
            opened = DeltaTable(folder.root, storage_options=folder.options)
            opened.optimize.compact()
            opened.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False)
