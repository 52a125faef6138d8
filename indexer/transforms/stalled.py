"""Messages that are overdue."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer.settings import StallPolicy
from indexer.transforms.queries import query


def with_shown_status(messages: DataFrame, chains: DataFrame, policy: StallPolicy, now: int) -> DataFrame:
    """Messages with `deadline` and `shown_status`, which adds what time tells: STALLED, EXPIRED, UNKNOWN.

    Args:
        messages: `schemas.MESSAGES`.
        chains: `chain_id` and `block_time`, the time of the last block read, Unix seconds.
        policy: when a message is overdue.
        now: Unix seconds.
    """
    arguments = {"stall_after": policy.stall_after, "max_lag": policy.max_lag, "now": now}
    text = query("shown_status", messages="{messages}", chains="{chains}")
    return messages.sparkSession.sql(text, args=arguments, messages=messages, chains=chains)


def stalled(messages: DataFrame, chains: DataFrame, policy: StallPolicy, now: int) -> DataFrame:
    """The messages that are overdue for certain; arguments as for `with_shown_status`."""
    return with_shown_status(messages, chains, policy, now).where("shown_status = 'STALLED'")
