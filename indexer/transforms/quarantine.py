"""Logs that carry one of Waybill's events but can't be right."""

from __future__ import annotations

from pyspark.sql import DataFrame


def quarantined(events: DataFrame) -> DataFrame:
    """The malformed logs as they were, with the reason."""
    return events.where("error is not null").select(
        "chain_id", "block_number", "log_index", "transaction_hash", "address", "event", "topics", "data", "error"
    )
