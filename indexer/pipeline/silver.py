"""Silver: decoded events, and the state of each message. Each table is computed by a pure function of DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from indexer.decode.events import events_of_logs
from indexer.model import schemas
from indexer.model.spark_types import spark_schema
from indexer.pipeline.queries import FOR_SPARK, query


def events(logs: DataFrame) -> DataFrame:
    """Returns one row per log, as `schemas.EVENTS`. The live store uses the same decoder."""
    return logs.select(*schemas.LOGS.names).mapInArrow(_decode, spark_schema(schemas.EVENTS))


def _decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from events_of_logs(pa.Table.from_batches([batch]).cast(schemas.LOGS)).to_batches()


def messages(events: DataFrame) -> DataFrame:
    """Returns one row per message, as `schemas.MESSAGES`."""
    found = events.sparkSession.sql(query("lifecycle", events="{events}", **FOR_SPARK), events=events)
    return found.to(spark_schema(schemas.MESSAGES))


def receipts(events: DataFrame) -> DataFrame:
    """Returns one row per message and GMP, as `schemas.RECEIPTS`."""
    found = events.sparkSession.sql(query("receipts", events="{events}"), events=events)
    return found.to(spark_schema(schemas.RECEIPTS))


def attempts(events: DataFrame) -> DataFrame:
    """Returns one row per message and attempt, as `schemas.ATTEMPTS`."""
    found = events.sparkSession.sql(query("attempts", events="{events}"), events=events)
    return found.to(spark_schema(schemas.ATTEMPTS))
