"""Events (bronze) to what became of each message (silver): messages, receipts and attempts."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.transforms.queries import FOR_SPARK, query


def messages(events: DataFrame) -> DataFrame:
    """One row per message, as `schemas.MESSAGES`."""
    found = events.sparkSession.sql(query("lifecycle", events="{events}", **FOR_SPARK), events=events)
    return found.to(spark_schema(schemas.MESSAGES))


def receipts(events: DataFrame) -> DataFrame:
    """One row per message and GMP, as `schemas.RECEIPTS`."""
    found = events.sparkSession.sql(query("receipts_by_struct", events="{events}"), events=events)
    return found.to(spark_schema(schemas.RECEIPTS))


def attempts(events: DataFrame) -> DataFrame:
    """One row per message and attempt, as `schemas.ATTEMPTS`."""
    found = events.sparkSession.sql(query("attempts", events="{events}", **FOR_SPARK), events=events)
    return found.to(spark_schema(schemas.ATTEMPTS))
