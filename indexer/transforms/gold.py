"""What all messages add up to (gold): duplicates, lanes, latencies, redundancy and divergences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.transforms import pauses as pause_log
from indexer.transforms.arrow import map_in_arrow
from indexer.transforms.queries import RULES, query


def duplicates(events: DataFrame) -> DataFrame:
    """One row per duplicate that an adapter absorbed, as `schemas.DUPLICATES`."""
    found = events.sparkSession.sql(query("duplicates", events="{events}"), events=events)
    return found.to(spark_schema(schemas.DUPLICATES))


def lanes(messages: DataFrame, receipts: DataFrame) -> DataFrame:
    """One row per lane and day, as `schemas.LANES`."""
    text = query("lanes", messages="{messages}", receipts="{receipts}")
    found = messages.sparkSession.sql(text, messages=messages, receipts=receipts)
    return found.to(spark_schema(schemas.LANES))


def deliveries(messages: DataFrame, receipts: DataFrame, final_times: DataFrame) -> DataFrame:
    """One row per receipt of a message whose source is known, as `schemas.DELIVERIES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        final_times: `schemas.FINAL_TIMES`.
    """
    text = query("deliveries", messages="{messages}", receipts="{receipts}", final_times="{final_times}")
    found = messages.sparkSession.sql(text, messages=messages, receipts=receipts, final_times=final_times)
    return found.to(spark_schema(schemas.DELIVERIES))


def latencies(deliveries: DataFrame, attested: DataFrame | None) -> DataFrame:
    """One row per lane and stage, as `schemas.LATENCIES`.

    Args:
        deliveries: `schemas.DELIVERIES`.
        attested: `schemas.ATTESTED`; None if no relayer was asked.
    """
    spark = deliveries.sparkSession
    known = spark.createDataFrame([], spark_schema(schemas.ATTESTED)) if attested is None else attested
    asked = "false" if attested is None else "true"
    text = query("latencies", deliveries="{deliveries}", attested="{attested}", asked=asked)
    return spark.sql(text, deliveries=deliveries, attested=known).to(spark_schema(schemas.LATENCIES))


def redundancy(deliveries: DataFrame) -> DataFrame:
    """One row per GMP, as `schemas.REDUNDANCY`."""
    text = query("redundancy", deliveries="{deliveries}")
    return deliveries.sparkSession.sql(text, deliveries=deliveries).to(spark_schema(schemas.REDUNDANCY))


def chains(events: DataFrame) -> DataFrame:
    """How far each chain was read, as `schemas.CHAINS`, where only its events tell: up to the newest one."""
    found = events.sparkSession.sql(query("chains", events="{events}"), events=events)
    return found.to(spark_schema(schemas.CHAINS))


def pauses(events: DataFrame) -> DataFrame:
    """When lanes and GMPs were paused, as `schemas.PAUSES`."""
    columns = ("chain_id", "block_number", "log_index", "block_time", "event", "error", "chain", "until", "gmp")
    told = events.where(events.event.isin(*pause_log.PAUSE_EVENTS)).select(*columns)
    return map_in_arrow(told.repartition(1), _pauses_of, spark_schema(schemas.PAUSES))


def _pauses_of(told: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [row for batch in told for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["block_number"], row["log_index"]))
    yield pa.RecordBatch.from_pylist(pause_log.pauses(rows), schema=schemas.PAUSES)


def divergences(
    messages: DataFrame,
    receipts: DataFrame,
    events: DataFrame,
    chains: DataFrame,
    policy: StallPolicy,
    *,
    limits: DataFrame,
) -> DataFrame:
    """What contradicts, as `schemas.DIVERGENCES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        events: `schemas.EVENTS`, of which those about GMPs, recipients and lanes count.
        chains: `schemas.CHAINS`.
        policy: `max_lag` is how much later than a receipt the source must have been read to, `silence_after` how long a
            message may be without any receipt.
        limits: `schemas.LIMITS`: a lane and kind is silent no sooner than it is stalled.
    """
    spark = messages.sparkSession
    held_up = query("held_up", messages="{messages}", chains="{chains}", pauses="{pauses}")
    text = query(
        "divergences",
        messages="{messages}",
        fan_outs="{messages}",
        receipts="{receipts}",
        chains="{chains}",
        limits="{limits}",
        rules="{rules}",
        periods=query("periods", rules="{rules}"),
        lane_paused="m.lane_paused",
        executed_paused="m.executed_paused",
        expired_paused="m.expired_paused",
        pruned="0",
        text="string",
    )
    found = spark.sql(
        text,
        args={"max_lag": policy.max_lag, "silence_after": policy.silence_after},
        messages=spark.sql(held_up, messages=messages, chains=chains, pauses=pauses(events)),
        receipts=receipts,
        chains=chains,
        limits=limits,
        rules=events.where(RULES),
    )
    return found.to(spark_schema(schemas.DIVERGENCES))
