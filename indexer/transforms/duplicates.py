"""Deliveries that changed nothing, because the same GMP had delivered before."""

from __future__ import annotations

from pyspark.sql import DataFrame


def duplicates(events: DataFrame) -> DataFrame:
    """One row per duplicate that an adapter absorbed: where, when, of which message, over which GMP."""
    return events.where("event = 'DuplicateAbsorbed' and error is null").select(
        "message_id", "gmp", "chain_id", "block_number", "log_index", "block_time", "transaction_hash"
    )
