"""Events to messages and receipts."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.transforms.queries import query


def messages(events: DataFrame) -> DataFrame:
    """One row per message, as `schemas.MESSAGES`."""
    found = events.sparkSession.sql(query("lifecycle", events="{events}"), events=events)
    return found.to(spark_schema(schemas.MESSAGES))


def receipts(events: DataFrame) -> DataFrame:
    """One row per message and GMP, as `schemas.RECEIPTS`."""
    found = events.sparkSession.sql(query("receipts", events="{events}"), events=events)
    return found.to(spark_schema(schemas.RECEIPTS))
