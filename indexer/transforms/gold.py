"""What all messages add up to (gold): duplicates, lanes, latencies, redundancy and divergences."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, col, collect_list, struct

from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.transforms import divergences as divergence_rules
from indexer.transforms import pauses as pause_log
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
    none = spark.createDataFrame(schemas.ATTESTED.empty_table(), spark_schema(schemas.ATTESTED))
    known = none if attested is None else attested
    asked = "false" if attested is None else "true"
    text = query("latencies", deliveries="{deliveries}", attested="{attested}", asked=asked)
    return spark.sql(text, deliveries=deliveries, attested=known).to(spark_schema(schemas.LATENCIES))


def redundancy(deliveries: DataFrame) -> DataFrame:
    """One row per GMP, as `schemas.REDUNDANCY`."""
    text = query("redundancy", deliveries="{deliveries}")
    return deliveries.sparkSession.sql(text, deliveries=deliveries).to(spark_schema(schemas.REDUNDANCY))


def costs(messages: DataFrame, receipts: DataFrame, paid: DataFrame) -> DataFrame:
    """One row per lane and GMP, as `schemas.COSTS`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        paid: `schemas.PAID`.
    """
    text = query("costs", messages="{messages}", receipts="{receipts}", paid="{paid}")
    found = messages.sparkSession.sql(text, messages=messages, receipts=receipts, paid=paid)
    return found.to(spark_schema(schemas.COSTS))


def chains(events: DataFrame) -> DataFrame:
    """How far each chain was read, as `schemas.CHAINS`, where only its events tell: up to the newest one."""
    found = events.sparkSession.sql(query("chains", events="{events}"), events=events)
    return _small(found.to(spark_schema(schemas.CHAINS)))


def _small(frame: DataFrame) -> DataFrame:
    """The same rows, which are few, read once: every plan has them at hand, and needs no stage to send them to its tasks."""
    return frame.sparkSession.createDataFrame(frame.toArrow(), frame.schema)


def _pauses(events: DataFrame) -> DataFrame:
    """By chain, when its lanes and GMPs were paused: an array of structs of the other columns of `schemas.PAUSES`."""
    columns = ("chain_id", "block_number", "log_index", "block_time", "event", "error", "chain", "until", "gmp")
    told = events.where(events.event.isin(*pause_log.PAUSE_EVENTS)).select(*columns).toArrow().to_pylist()
    told.sort(key=lambda row: (row["block_number"], row["log_index"]))
    rows = pa.Table.from_pylist(pause_log.pauses(told), schema=schemas.PAUSES)
    found = events.sparkSession.createDataFrame(rows, spark_schema(schemas.PAUSES))
    return _small(
        found.groupBy("chain_id").agg(collect_list(struct("other_chain", "kind", "begins", "ends")).alias("pauses"))
    )


def _paused(kind: str, since: str, until: str = "d.block_time") -> str:
    """The same as `indexer.transforms.queries.paused`, of a message that has its chain's `pauses`."""
    return f"""coalesce(aggregate(
      filter(m.pauses, p -> p.kind = '{kind}' and p.other_chain in (0, m.source_chain) and p.ends > {since} and p.begins < {until}),
      cast(0 as bigint), (total, p) -> total + least(p.ends, {until}) - greatest(p.begins, {since})
    ), 0)"""


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
    rules = _small(events.where(RULES))
    of_one = divergence_rules.of_one(
        messages="{messages}",
        chains="{chains}",
        limits="{limits}",
        lane_paused=_paused("lane", "m.attempted_time"),
        executed_paused=_paused("clock", "m.sent_at", "m.executed_time"),
        expired_paused=_paused("clock", "m.sent_at", "m.expired_time"),
        text="string",
        received_count="bit_count(m.received)",
    )
    of_more = divergence_rules.of_more(
        messages="{messages}",
        fan_outs="{messages}",
        receipts="{receipts}",
        duplicates="{duplicates}",
        reports="(select * from {messages} where kind = 12)",
        periods="{periods}",
        registrations="{registrations}",
        pruned="0",
        text="string",
    )
    frames: dict[str, Any] = {
        "messages": messages,
        "receipts": receipts,
        "duplicates": duplicates(events),
        "periods": _small(spark.sql(query("periods", rules="{rules}"), rules=rules)),
        "registrations": _small(spark.sql(query("registrations", rules="{rules}"), rules=rules)),
    }
    of_messages = spark.sql(
        of_one,
        args={"max_lag": policy.max_lag, "silence_after": policy.silence_after},
        messages=messages.join(broadcast(_pauses(events)), messages.destination_chain == col("chain_id"), "left"),
        chains=chains,
        limits=limits,
    )
    found = [of_messages, *(spark.sql(text, **frames) for text in of_more)]
    columns = spark_schema(schemas.DIVERGENCES)
    return reduce(DataFrame.unionByName, (one.to(columns) for one in found))
