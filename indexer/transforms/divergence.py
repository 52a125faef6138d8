"""Facts on two chains that contradict one another."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer import schemas
from indexer.settings import StallPolicy
from indexer.transforms.queries import query


def divergences(messages: DataFrame, receipts: DataFrame, chains: DataFrame, policy: StallPolicy) -> DataFrame:
    """What contradicts, as `schemas.DIVERGENCES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        chains: `chain_id` and `block_time`, the time of the last block read, Unix seconds.
        policy: its `max_lag` is how much later than a receipt the source must have been read to.
    """
    text = query("divergences", messages="{messages}", receipts="{receipts}", chains="{chains}", text="string")
    found = messages.sparkSession.sql(
        text, args={"max_lag": policy.max_lag}, messages=messages, receipts=receipts, chains=chains
    )
    return found.to(schemas.spark_schema(schemas.DIVERGENCES))
