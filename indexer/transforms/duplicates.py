"""Deliveries that changed nothing, because the same GMP had delivered before."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.transforms.queries import query


def duplicates(events: DataFrame) -> DataFrame:
    """One row per duplicate that an adapter absorbed, as `schemas.DUPLICATES`."""
    found = events.sparkSession.sql(query("duplicates", events="{events}"), events=events)
    return found.to(spark_schema(schemas.DUPLICATES))
