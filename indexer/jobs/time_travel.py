"""What the index knew at an earlier block or moment: messages rebuilt from the events up to there."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from indexer.lake.history import History
from indexer.lake.lake_tables import DUCKDB
from indexer.model.tables import Noted, TableEngine


def messages_as_of(
    history: History, *, blocks: Mapping[int, int] | None = None, time: int | None = None, by: TableEngine = DUCKDB
) -> pa.Table:
    """The messages as they were, as `schemas.MESSAGES`.

    Args:
        history: lake and store.
        blocks: by chain, the last block that counts; chains that are not named count whole.
        time: Unix seconds of block time; later blocks do not count.
        by: what computes them.

    Returns:
        One row per message that an event up to there tells of.
    """
    with by.tables(history.bronze(blocks, time), Noted()) as tables:
        return tables.rows("messages")
