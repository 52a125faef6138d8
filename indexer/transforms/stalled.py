"""Messages that are overdue."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.transforms.queries import RULES, query

_WITH_PAUSES: Final = """
select m.*,
  coalesce(sum(least(p.ends, d.block_time) - greatest(p.begins, m.attempted_time)) filter (
    where p.kind = 'lane' and p.ends > m.attempted_time), 0) as lane_paused,
  coalesce(sum(least(p.ends, d.block_time) - greatest(p.begins, m.sent_at)) filter (
    where p.kind = 'clock' and p.ends > m.sent_at), 0) as clock_paused,
  coalesce(sum(least(p.ends, m.executed_time) - greatest(p.begins, m.sent_at)) filter (
    where p.kind = 'clock' and p.ends > m.sent_at and p.begins < m.executed_time), 0) as executed_paused,
  coalesce(sum(least(p.ends, m.expired_time) - greatest(p.begins, m.sent_at)) filter (
    where p.kind = 'clock' and p.ends > m.sent_at and p.begins < m.expired_time), 0) as expired_paused
from {messages} m
left join {chains} d on d.chain_id = m.destination_chain
left join {pauses} p
  on p.chain_id = m.destination_chain and p.other_chain in (0, m.source_chain) and p.begins < d.block_time
group by all
"""


def with_pauses(messages: DataFrame, chains: DataFrame, pauses: DataFrame | None) -> DataFrame:
    """Messages with the seconds for which pauses held them up: since the last attempt, since the sending, until execution."""
    spark = messages.sparkSession
    pauses = or_none(spark, pauses, schemas.PAUSES)
    return spark.sql(_WITH_PAUSES, messages=messages, chains=chains, pauses=pauses)


def with_effective_status(
    messages: DataFrame,
    chains: DataFrame,
    policy: StallPolicy,
    now: int,
    *,
    pauses: DataFrame | None = None,
    limits: DataFrame | None = None,
    receipts: DataFrame | None = None,
    events: DataFrame | None = None,
) -> DataFrame:
    """Messages with `deadline`, `counted`, `needed` and `effective_status`, which adds what time tells: STALLED, EXPIRED, UNKNOWN.

    Args:
        messages: `schemas.MESSAGES`.
        chains: `chain_id` and `block_time`, the time of the last block read, Unix seconds.
        policy: when a message is overdue.
        now: Unix seconds.
        pauses: `schemas.PAUSES`; none if not given.
        limits: `schemas.LIMITS`, where a lane and kind has a limit other than the policy's.
        receipts: `schemas.RECEIPTS`, of which those count that the routers count now; all that ever did if not given.
        events: `schemas.EVENTS`, of which those about GMPs and recipients count.
    """
    spark = messages.sparkSession
    arguments = {"stall_after": policy.stall_after, "max_lag": policy.max_lag, "now": now}
    text = query(
        "effective_status",
        messages="{messages}",
        chains="{chains}",
        limits="{limits}",
        lane_paused="m.lane_paused",
        clock_paused="m.clock_paused",
        counted="m.counted_now",
        needed="m.needed_now",
    )
    return spark.sql(
        text,
        args=arguments,
        messages=_with_counts(with_pauses(messages, chains, pauses), chains, receipts, events),
        chains=chains,
        limits=or_none(spark, limits, schemas.LIMITS),
    ).drop("lane_paused", "clock_paused", "executed_paused", "expired_paused", "counted_now", "needed_now")


def or_none(spark: SparkSession, rows: DataFrame | None, schema: pa.Schema) -> DataFrame:
    """The rows, or none of that schema if they are not given."""
    return spark.createDataFrame([], spark_schema(schema)) if rows is None else rows


def _with_counts(
    messages: DataFrame, chains: DataFrame, receipts: DataFrame | None, events: DataFrame | None
) -> DataFrame:
    spark = messages.sparkSession
    periods = query("periods", rules="{rules}")
    counts = query("counts", messages="{messages}", receipts="{receipts}", chains="{chains}", periods=periods)
    return spark.sql(
        f"select m.*, k.counted as counted_now, k.needed as needed_now from {{messages}} m "  # noqa: S608  our own texts
        f"left join ({counts}) k on k.message_id = m.message_id",
        messages=messages,
        chains=chains,
        receipts=or_none(spark, receipts, schemas.RECEIPTS),
        rules=or_none(spark, events, schemas.EVENTS).where(RULES),
    )


def stalled(messages: DataFrame, chains: DataFrame, policy: StallPolicy, now: int, **facts: DataFrame) -> DataFrame:
    """The messages that are overdue for certain; arguments as for `with_effective_status`."""
    return with_effective_status(messages, chains, policy, now, **facts).where("effective_status = 'STALLED'")
