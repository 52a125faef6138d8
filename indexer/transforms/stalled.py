"""Messages that are overdue."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from indexer import schemas
from indexer.settings import StallPolicy
from indexer.spark_types import spark_schema
from indexer.transforms.queries import query

_WITH_PAUSES: Final = """
select m.*,
  coalesce(sum(least(p.ends, d.block_time) - greatest(p.begins, m.attempted_time)) filter (
    where p.kind = 'lane' and p.ends > m.attempted_time), 0) as lane_paused,
  coalesce(sum(least(p.ends, d.block_time) - greatest(p.begins, m.sent_at)) filter (
    where p.kind = 'clock' and p.ends > m.sent_at), 0) as clock_paused,
  coalesce(sum(least(p.ends, m.executed_time) - greatest(p.begins, m.sent_at)) filter (
    where p.kind = 'clock' and p.ends > m.sent_at and p.begins < m.executed_time), 0) as executed_paused
from {messages} m
left join {chains} d on d.chain_id = m.destination_chain
left join {pauses} p
  on p.chain_id = m.destination_chain and p.other_chain in (0, m.source_chain) and p.begins < d.block_time
group by all
"""


def with_pauses(messages: DataFrame, chains: DataFrame, pauses: DataFrame | None) -> DataFrame:
    """Messages with the seconds for which pauses held them up: since the last attempt, since the sending, until execution."""
    spark = messages.sparkSession
    if pauses is None:
        pauses = spark.createDataFrame([], spark_schema(schemas.PAUSES))
    return spark.sql(_WITH_PAUSES, messages=messages, chains=chains, pauses=pauses)


def with_shown_status(
    messages: DataFrame,
    chains: DataFrame,
    policy: StallPolicy,
    now: int,
    *,
    pauses: DataFrame | None = None,
    limits: DataFrame | None = None,
) -> DataFrame:
    """Messages with `deadline` and `shown_status`, which adds what time tells: STALLED, EXPIRED, UNKNOWN.

    Args:
        messages: `schemas.MESSAGES`.
        chains: `chain_id` and `block_time`, the time of the last block read, Unix seconds.
        policy: when a message is overdue.
        now: Unix seconds.
        pauses: `schemas.PAUSES`; none if not given.
        limits: `schemas.LIMITS`, where a lane and kind has a limit other than the policy's.
    """
    spark = messages.sparkSession
    arguments = {"stall_after": policy.stall_after, "max_lag": policy.max_lag, "now": now}
    text = query(
        "shown_status",
        messages="{messages}",
        chains="{chains}",
        limits="{limits}",
        lane_paused="m.lane_paused",
        clock_paused="m.clock_paused",
    )
    return spark.sql(
        text,
        args=arguments,
        messages=with_pauses(messages, chains, pauses),
        chains=chains,
        limits=spark.createDataFrame([], spark_schema(schemas.LIMITS)) if limits is None else limits,
    ).drop("lane_paused", "clock_paused", "executed_paused")


def stalled(messages: DataFrame, chains: DataFrame, policy: StallPolicy, now: int, **facts: DataFrame) -> DataFrame:
    """The messages that are overdue for certain; arguments as for `with_shown_status`."""
    return with_shown_status(messages, chains, policy, now, **facts).where("shown_status = 'STALLED'")
