"""Gold: aggregates over all messages, and divergences. Each table is computed by a pure function of DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, create_map, lit, try_element_at

from bridge.protocol.gmps import gmp_label
from indexer.model import schemas
from indexer.model.dictionary import NAME_COLUMNS
from indexer.model.settings import StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.pipeline import divergences as divergence_rules
from indexer.pipeline.queries import ABOUT_ROUTERS, query

_HIGHEST_GMP: Final = 16  # maximum that a contract accepts


def duplicates(events: DataFrame) -> DataFrame:
    """Returns one row per repeated delivery that an adapter absorbed, as `schemas.DUPLICATES`."""
    return _table("duplicates", schemas.DUPLICATES, events=events)


def deliveries(messages: DataFrame, receipts: DataFrame) -> DataFrame:
    """Returns one row per receipt, with its rank among its message's receipts.

    This is the input of the next three tables.
    """
    text = query("deliveries", messages="{messages}", receipts="{receipts}")
    return messages.sparkSession.sql(text, messages=messages, receipts=receipts)


def lanes(messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Returns one row per lane and day, as `schemas.LANES`."""
    return _table("lanes", schemas.LANES, messages=messages, deliveries=deliveries)


def latencies(messages: DataFrame, deliveries: DataFrame, attested: DataFrame | None) -> DataFrame:
    """Returns one row per lane and stage, as `schemas.LATENCIES`.

    Args:
        messages: rows of `schemas.MESSAGES`.
        deliveries: rows returned by `deliveries`.
        attested: rows of `schemas.ATTESTED`; None without a relayer.
    """
    spark = messages.sparkSession
    none = spark.createDataFrame(schemas.ATTESTED.empty_table(), spark_schema(schemas.ATTESTED))
    text = query(
        "latencies",
        messages="{messages}",
        deliveries="{deliveries}",
        attested="{attested}",
        asked="false" if attested is None else "true",
    )
    found = spark.sql(
        text,
        messages=messages,
        deliveries=deliveries,
        attested=none if attested is None else attested,
    )
    return found.to(spark_schema(schemas.LATENCIES))


def redundancy(deliveries: DataFrame) -> DataFrame:
    """Returns one row per GMP, as `schemas.REDUNDANCY`."""
    return _table("redundancy", schemas.REDUNDANCY, deliveries=deliveries)


def costs(messages: DataFrame, receipts: DataFrame, paid: DataFrame) -> DataFrame:
    """Returns one row per lane and GMP, as `schemas.COSTS`. `paid` has the schema `schemas.PAID`."""
    return _table("costs", schemas.COSTS, messages=messages, receipts=receipts, paid=paid)


def router_rules(events: DataFrame, messages: DataFrame) -> dict[str, DataFrame]:
    """Returns the small inputs of `divergences`.

    These are the progress of `chains`, and the routers' `periods` and `registrations`.

    Args:
        events: rows of `schemas.EVENTS`, of which those about GMPs, recipients and lanes are used.
        messages: rows of `schemas.MESSAGES`.
    """
    spark, about_routers = events.sparkSession, _about_routers(events, messages)
    of_routers = {name: query(name, about_routers="{about_routers}") for name in ("periods", "registrations")}
    return {
        "chains": spark.sql(query("chains", events="{events}"), events=events),
        **{name: spark.sql(text, about_routers=about_routers) for name, text in of_routers.items()},
    }


def divergences(
    messages: DataFrame,
    receipts: DataFrame,
    duplicates: DataFrame,
    rules: Mapping[str, DataFrame],
    *,
    limits: DataFrame,
    policy: StallPolicy,
) -> DataFrame:
    """Returns one row per contradiction, as `schemas.DIVERGENCES`.

    The store applies the same rules to its messages. Here a chain's time is that of its newest log, so a
    message may count as silent later than in the store, but never sooner.

    Args:
        messages: rows of `schemas.MESSAGES`.
        receipts: rows of `schemas.RECEIPTS`.
        duplicates: rows of `schemas.DUPLICATES`.
        rules: frames returned by `router_rules`.
        limits: rows of `schemas.LIMITS`. A message counts as silent no sooner than it counts as stalled.
        policy: stall policy. `max_lag` is how far beyond a receipt's time the source must have been read;
            `silence_after` is how long a message may have no receipt at all.
    """
    spark = messages.sparkSession
    frames: dict[str, Any] = {
        "messages": messages,
        "receipts": receipts,
        "duplicates": duplicates,
        "limits": limits,
        "fan_outs": spark.sql(divergence_rules.with_ends("{messages}"), messages=messages),
        **rules,
    }
    values = {name: f"{{{name}}}" for name in frames}
    texts = divergence_rules.for_spark(
        **values,
        reports=divergence_rules.reports("{messages}"),
        pruned="0",
        text="string",
        received_count="bit_count(m.received)",
    )
    return _united([spark.sql(_with_times(text, policy), **frames) for text in texts])


def _with_times(text: str, policy: StallPolicy) -> str:
    """Inserts into the SQL the two values that the store binds as parameters.

    Delta's parser for Spark supports none.
    """
    return text.replace(":max_lag", f"{policy.max_lag:d}").replace(":silence_after", f"{policy.silence_after:d}")


def _about_routers(events: DataFrame, messages: DataFrame) -> DataFrame:
    """Returns events about GMPs, lanes and recipients.

    Leaves out policies of recipients without messages, since anyone may set those.
    """
    about_routers = events.where(ABOUT_ROUTERS)
    policies = about_routers.where(col("event") == "PolicySet")
    recipients = messages.select("recipient").distinct()
    return about_routers.where(col("event") != "PolicySet").unionByName(
        policies.join(recipients, "recipient", "left_semi")
    )


def frame(rows: pa.Table, like: DataFrame) -> DataFrame:
    """Returns rows of this process as a DataFrame in the session of `like`."""
    return like.sparkSession.createDataFrame(rows, spark_schema(rows.schema))


def with_names(rows: DataFrame, chains: Mapping[int, str]) -> DataFrame:
    """Adds a column with the name of the chain or GMP beside each column in `NAME_COLUMNS`.

    Args:
        rows: rows of a gold table, without names.
        chains: chain names by EIP-155 id. A chain that is missing here is shown by its number.
    """
    gmps = {number: gmp_label(number) for number in range(1, _HIGHEST_GMP + 1)}
    for column, name in NAME_COLUMNS.items():
        if column in rows.columns:
            rows = rows.withColumn(name, _name_of(column, gmps if column == "gmp" else chains))
    return rows


def _name_of(column: str, names: Mapping[int, str]) -> Column:
    number = col(column).cast("bigint")
    if not names:
        return number.cast("string")
    pairs = [part for key, name in names.items() for part in (lit(key).cast("bigint"), lit(name))]
    return coalesce(try_element_at(create_map(*pairs), number), number.cast("string"))


def _table(name: str, schema: pa.Schema, **frames: Any) -> DataFrame:
    """Runs a query from `pipeline/sql` on frames, and casts the result to a schema."""
    spark: SparkSession = next(iter(frames.values())).sparkSession
    text = query(name, **{one: f"{{{one}}}" for one in frames})
    return spark.sql(text, **frames).to(spark_schema(schema))


def _united(found: Sequence[DataFrame]) -> DataFrame:
    columns = spark_schema(schemas.DIVERGENCES)
    return reduce(DataFrame.unionByName, (one.to(columns) for one in found))
