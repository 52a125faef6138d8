"""Facts on the chains that contradict one another."""

from __future__ import annotations

from pyspark.sql import DataFrame

from indexer import schemas
from indexer.settings import StallPolicy
from indexer.spark_types import spark_schema
from indexer.transforms.queries import query
from indexer.transforms.stalled import with_pauses


def divergences(
    messages: DataFrame,
    receipts: DataFrame,
    chains: DataFrame,
    events: DataFrame,
    policy: StallPolicy,
    *,
    pauses: DataFrame | None = None,
) -> DataFrame:
    """What contradicts, as `schemas.DIVERGENCES`.

    Args:
        messages: `schemas.MESSAGES`.
        receipts: `schemas.RECEIPTS`.
        chains: `chain_id`, and `block_time` and `final_block` of the last blocks read, in Unix seconds and as a number.
        events: `schemas.EVENTS`, of which those about adapters count.
        policy: `max_lag` is how much later than a receipt the source must have been read to, `silence_after` how long a
            message may be without any receipt.
        pauses: `schemas.PAUSES`; none if not given.
    """
    text = query(
        "divergences",
        messages="{messages}",
        fan_outs="{messages}",
        receipts="{receipts}",
        chains="{chains}",
        adapters="{adapters}",
        executed_paused="m.executed_paused",
        pruned="0",
        text="string",
    )
    registrations = (
        "message_id is null and error is null and event in ('AdapterAdded', 'AdapterReplaced', 'AdapterRevoked')"
    )
    found = messages.sparkSession.sql(
        text,
        args={"max_lag": policy.max_lag, "silence_after": policy.silence_after},
        messages=with_pauses(messages, chains, pauses),
        receipts=receipts,
        chains=chains,
        adapters=events.where(registrations),
    )
    return found.to(spark_schema(schemas.DIVERGENCES))
