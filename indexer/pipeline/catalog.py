"""Registers the tables in a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from indexer.model.dictionary import TABLES
from indexer.model.storage_location import StorageLocation


def register(spark: SparkSession, lake: StorageLocation) -> None:
    """Registers the tables in the session's own catalog, so that `spark.table("gold.lanes")` works."""
    for name in TABLES:
        spark.sql(f"create database if not exists {name.partition('.')[0]}")
        spark.sql(f"drop table if exists {name}")  # the entry of another lake; its files stay
        spark.sql(f"create table {name} using delta location '{lake.table(name).uri}'")
