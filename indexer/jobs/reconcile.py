"""Compares what is served with what the lake alone says."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from indexer import schemas
from indexer.sinks.lake import Lake
from indexer.spark_types import spark_schema
from indexer.transforms import lifecycle


def messages_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """Messages made anew from the lake's events, as `schemas.MESSAGES`.

    Reads the files of the table's newest version, not whatever lies in its folder. With `Lake.at` it is the state of then.
    """
    return lifecycle.messages(events_of_lake(spark, lake))


def events_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """All events in the lake, as `schemas.EVENTS`."""
    schema = spark_schema(schemas.EVENTS)
    files = lake.files()
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
