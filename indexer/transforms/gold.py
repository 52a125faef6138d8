"""What all messages add up to (gold): duplicates, lanes, latencies, redundancy and divergences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from indexer.transforms.queries import ABOUT_ROUTERS, query, signed


def duplicates(events: DataFrame) -> DataFrame:
    """One row per duplicate that an adapter absorbed, as `schemas.DUPLICATES`."""
    found = events.sparkSession.sql(query("duplicates", events="{events}"), events=events)
    return found.to(spark_schema(schemas.DUPLICATES))


def tallies(
    messages: DataFrame, receipts: DataFrame, removed: tuple[DataFrame, DataFrame], before: DataFrame
) -> DataFrame:
    """What totals are made of, as `schemas.TALLIES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        removed: messages and receipts that these replace.
        before: tallies that have `removed` and lack what is new.
    """
    text = query(
        "tallies",
        messages=signed("{messages}", schemas.MESSAGES),
        receipts=signed("{receipts}", schemas.RECEIPTS),
        before="{before}",
    )
    old: dict[str, Any] = {"removed_messages": removed[0], "removed_receipts": removed[1], "before": before}
    found = messages.sparkSession.sql(text, messages=messages, receipts=receipts, **old)
    return found.to(spark_schema(schemas.TALLIES))


def lanes(tallies: DataFrame) -> DataFrame:
    """One row per lane and day, as `schemas.LANES`."""
    return tallies.sparkSession.sql(query("lanes", tallies="{tallies}"), tallies=tallies).to(
        spark_schema(schemas.LANES)
    )


def latencies(
    tallies: DataFrame, messages: DataFrame, receipts: DataFrame, final_times: DataFrame, attested: DataFrame | None
) -> DataFrame:
    """One row per lane and stage, as `schemas.LATENCIES`.

    Args:
        tallies: `schemas.TALLIES`.
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        final_times: `schemas.FINAL_TIMES`.
        attested: `schemas.ATTESTED`; None if no relayer was asked.
    """
    spark = tallies.sparkSession
    none = spark.createDataFrame(schemas.ATTESTED.empty_table(), spark_schema(schemas.ATTESTED))
    text = query(
        "latencies",
        tallies="{tallies}",
        messages="{messages}",
        receipts="{receipts}",
        final_times="{final_times}",
        attested="{attested}",
        asked="false" if attested is None else "true",
    )
    frames: dict[str, Any] = {
        "tallies": tallies,
        "messages": messages,
        "receipts": receipts,
        "final_times": final_times,
    }
    found = spark.sql(text, attested=none if attested is None else attested, **frames)
    return found.to(spark_schema(schemas.LATENCIES))


def redundancy(tallies: DataFrame) -> DataFrame:
    """One row per GMP, as `schemas.REDUNDANCY`."""
    found = tallies.sparkSession.sql(query("redundancy", tallies="{tallies}"), tallies=tallies)
    return found.to(spark_schema(schemas.REDUNDANCY))


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
    told = (
        events.where(events.message_id.isNull() & events.event.isin(*pause_log.PAUSE_EVENTS))
        .select(*columns)
        .toArrow()
        .to_pylist()
    )
    told.sort(key=lambda row: (row["block_number"], row["log_index"]))
    rows = pa.Table.from_pylist(pause_log.pauses(told), schema=schemas.PAUSES)
    found = events.sparkSession.createDataFrame(rows, spark_schema(schemas.PAUSES))
    return _small(
        found.groupBy("chain_id").agg(collect_list(struct("other_chain", "kind", "begins", "ends")).alias("pauses"))
    )


def _paused(kind: str, since: str, until: str = "d.block_time") -> str:
    """The same as `indexer.transforms.queries.paused`, of a message that has its chain's `pauses`."""
    return f"""coalesce(aggregate(
      filter(m.pauses, p -> p.kind = '{kind}' and p.other_chain = m.source_chain and p.ends > {since} and p.begins < {until}),
      cast(0 as bigint), (total, p) -> total + least(p.ends, {until}) - greatest(p.begins, {since})
    ), 0)"""


def candidates(messages: DataFrame) -> DataFrame:
    """Messages that a rule may be about, as `schemas.MESSAGES`: what they show may change with the clocks of their chains."""
    text = divergence_rules.candidates("{messages}")
    return messages.sparkSession.sql(text, messages=messages).to(spark_schema(schemas.MESSAGES))


def fan_outs(messages: DataFrame, before: DataFrame) -> DataFrame:
    """Messages of transactions that created several, as `schemas.FAN_OUTS`.

    Args:
        messages: `schemas.MESSAGES`.
        before: other messages of such transactions.
    """
    text = query("fan_outs", messages="{messages}", before="{before}")
    found = messages.sparkSession.sql(text, messages=messages, before=before)
    return found.to(spark_schema(schemas.FAN_OUTS))


def findings(messages: DataFrame, receipts: DataFrame, duplicates: DataFrame, events: DataFrame) -> DataFrame:
    """What receipts contradict, as `schemas.DIVERGENCES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`, of these messages.
        duplicates: `schemas.DUPLICATES`, of these messages.
        events: `schemas.EVENTS`, of which those about GMPs, recipients and lanes count.
    """
    spark = messages.sparkSession
    about_routers = _small(events.where(ABOUT_ROUTERS))
    frames: dict[str, Any] = {
        "messages": messages,
        "receipts": receipts,
        "duplicates": duplicates,
        "periods": _small(spark.sql(query("periods", about_routers="{about_routers}"), about_routers=about_routers)),
        "registrations": _small(
            spark.sql(query("registrations", about_routers="{about_routers}"), about_routers=about_routers)
        ),
    }
    found = divergence_rules.findings(text="string", **{name: f"{{{name}}}" for name in frames})
    return _united([spark.sql(text, **frames) for text in found])


def divergences(
    kept: Mapping[str, DataFrame],
    events: DataFrame,
    chains: DataFrame,
    policy: StallPolicy,
    *,
    limits: DataFrame,
) -> DataFrame:
    """What contradicts, as `schemas.DIVERGENCES`.

    Args:
        kept: the tables messages, findings, candidates, fan_outs and tallies, by their names.
        events: `schemas.EVENTS`, of which those about pauses count.
        chains: `schemas.CHAINS`.
        policy: `max_lag` is how much later than a receipt the source must have been read to, `silence_after` how long a
            message may be without any receipt.
        limits: `schemas.LIMITS`: a lane and kind is silent no sooner than it is stalled.
    """
    spark = events.sparkSession
    of_one = divergence_rules.of_one(
        messages="{messages}",
        chains="{chains}",
        limits="{limits}",
        lane_paused=_paused("lane", "m.attempted_time"),
        text="string",
        received_count="bit_count(m.received)",
    )
    of_more = divergence_rules.of_more(
        messages="{messages}",
        fan_outs="{fan_outs}",
        tallies="{tallies}",
        reports=divergence_rules.reports("{candidates}"),
        text="string",
    )
    judged = kept["candidates"].join(broadcast(_pauses(events)), col("destination_chain") == col("chain_id"), "left")
    of_messages = spark.sql(
        of_one,
        args={"max_lag": policy.max_lag, "silence_after": policy.silence_after},
        messages=judged,
        chains=chains,
        limits=limits,
    )
    frames: dict[str, Any] = dict(kept)
    return _united([kept["findings"], of_messages, *(spark.sql(text, **frames) for text in of_more)])


def _united(found: Sequence[DataFrame]) -> DataFrame:
    columns = spark_schema(schemas.DIVERGENCES)
    return reduce(DataFrame.unionByName, (one.to(columns) for one in found))
