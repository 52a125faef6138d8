"""Facts on the chains that contradict one another."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.transforms.queries import RULES, query
from indexer.transforms.stalled import or_none, with_pauses


def divergences(
    messages: DataFrame,
    receipts: DataFrame,
    chains: DataFrame,
    events: DataFrame,
    policy: StallPolicy,
    *,
    pauses: DataFrame | None = None,
    limits: DataFrame | None = None,
) -> DataFrame:
    """What contradicts, as `schemas.DIVERGENCES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        chains: `chain_id`, and `block_time` and `final_block` of the last blocks read, in Unix seconds and as a number.
        events: `schemas.EVENTS`, of which those about GMPs, recipients and lanes count.
        policy: `max_lag` is how much later than a receipt the source must have been read to, `silence_after` how long a
            message may be without any receipt.
        pauses: `schemas.PAUSES`; none if not given.
        limits: `schemas.LIMITS`: a lane and kind is silent no sooner than it is stalled.
    """
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
    found = messages.sparkSession.sql(
        text,
        args={"max_lag": policy.max_lag, "silence_after": policy.silence_after},
        messages=with_pauses(messages, chains, pauses),
        receipts=receipts,
        chains=chains,
        limits=or_none(messages.sparkSession, limits, schemas.LIMITS),
        rules=events.where(RULES),
    )
    return found.to(spark_schema(schemas.DIVERGENCES))
