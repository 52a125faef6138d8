"""What the index knew at an earlier block or moment: messages rebuilt from the events up to there."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from indexer.lake.history import History
from indexer.model import schemas
from indexer.transforms.queries import query


def messages_as_of(history: History, *, blocks: Mapping[int, int] | None = None, time: int | None = None) -> pa.Table:
    """The messages as they were, as `schemas.MESSAGES`.

    Args:
        history: lake and store.
        blocks: by chain, the last block that counts; chains that are not named count whole.
        time: Unix seconds of block time; later blocks do not count.

    Returns:
        One row per message that an event up to there tells of.
    """
    told = blocks or {}
    parts = [
        history.events(chain, 0, min(position.block, told.get(chain, position.block)))
        for chain, position in sorted(history.positions().items())
    ]
    events = pa.concat_tables(parts) if parts else schemas.EVENTS.empty_table()
    if time is not None:
        events = events.filter(pc.less_equal(events["block_time"], time))
    with duckdb.connect() as connection:
        connection.register("past", events)
        found = connection.sql(query("lifecycle", events="past")).to_arrow_table()
    return found.cast(schemas.MESSAGES)
