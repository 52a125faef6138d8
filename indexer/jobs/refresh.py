"""Implements `waybill index refresh`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indexer.jobs.lock import exclusive
from indexer.jobs.store_facts import read_facts
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexSettings
from indexer.pipeline.bronze import Lake
from indexer.pipeline.reading import AsOf
from indexer.pipeline.refresh import refresh, unchanged
from indexer.spark.outage import SPARK_ERRORS, reason_of
from indexer.spark.session import batch_session
from indexer.store.engine import reading_engine


def run_refresh(
    settings: IndexSettings,
    *,
    attested: pa.Table | None,
    paid: pa.Table | None,
    chain_names: Mapping[int, str],
    full: bool,
    keep_hours: int,
    master: str | None = None,
) -> AsOf:
    """Refreshes the tables in a new Spark session, unless they are up to date; see `indexer.pipeline.refresh.refresh`.

    Args:
        settings: settings of the index.
        attested: rows of `schemas.ATTESTED`; None without a relayer.
        paid: rows of `schemas.PAID`; None without a relayer.
        chain_names: chain names by EIP-155 id.
        full: whether to recompute everything from bronze.
        keep_hours: number of hours for which earlier versions of the tables stay readable.
        master: master URL of a Spark cluster; see `batch_session`.

    Raises:
        IndexerError: Spark fails, or another refresh is running.
    """
    lock = exclusive(settings.folder.path / "refresh.lock", "a refresh", "wait until it has ended")
    store = reading_engine(settings.folder.store_url)
    try:
        lake = Lake(settings.folder.lake)
        with lock:
            facts = read_facts(store, attested=attested, paid=paid, chain_names=chain_names)
            if not full and (state := unchanged(lake, facts)) is not None:
                return state
            with batch_session(master, events=lake.rows()) as spark:
                return refresh(spark, lake, facts, full=full, keep_hours=keep_hours)
    except SPARK_ERRORS as error:
        raise IndexerError(f"Spark failed: {reason_of(error)}") from error
    finally:
        store.dispose()
