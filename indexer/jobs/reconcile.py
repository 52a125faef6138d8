"""Compares what is served with what the lake alone says."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from indexer.sinks.lake import Lake
from indexer.transforms.bucketed import lifecycles


def messages_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """Messages made anew from the lake's events, as `schemas.MESSAGES`.

    Reads the files of the table's newest version, not whatever lies in its folder. With `Lake.at` it is the state of then.
    """
    return lifecycles(spark, lake.files())
