"""Messages that Spark makes of the lake alone: what the index serves is compared with them."""

from __future__ import annotations

from pathlib import PurePosixPath

from pyarrow.dataset import dataset
from pyspark.sql import DataFrame, SparkSession

from indexer.lake.files import files_of
from indexer.lake.lake import Lake
from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.transforms import lifecycle


def messages_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """Messages rebuilt from the lake's events, as `schemas.MESSAGES`.

    Reads the files of the table's newest version, not whatever lies in its folder. With `Lake.at` it is the state of then.
    """
    return lifecycle.messages(events_of_lake(spark, lake))


def events_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """All events in the lake, as `schemas.EVENTS`."""
    schema = spark_schema(schemas.EVENTS)
    files = lake.files()
    if files and lake.folder.is_bucket:
        # Spark's own S3 reader is a jar apart from its wheel. What this is for, checks, does with the driver's memory.
        names = [PurePosixPath(path).name for path in files]
        source = dataset(names, schema=schemas.EVENTS, format="parquet", filesystem=files_of(lake.folder))
        return spark.createDataFrame(source.to_table(), schema)
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
