"""Messages that Spark makes of the lake alone: what the index serves is compared with them."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from indexer.lake.lake import Lake
from indexer.model.tables import Bronze, Noted
from indexer.spark.tables import events_of
from indexer.transforms.pipeline import Pipeline


def messages_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """Messages rebuilt from the lake's events, as `schemas.MESSAGES`; with `Lake.at` the state of then."""
    events = events_of(spark, Bronze(files=lake.files(), folder=lake.folder))
    return Pipeline(events, Noted()).messages
