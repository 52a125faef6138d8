"""What contradicts, found in all events: those of the lake, and behind them those of the store."""

from __future__ import annotations

from sqlalchemy import Engine

from bridge.protocol.indexed import DivergenceRecord
from indexer.jobs.tables import noted_in
from indexer.lake.history import STORE_DIFFERS, History
from indexer.lake.lake import Lake
from indexer.model.divergences import MEANINGS
from indexer.model.tables import TableEngine


def contradictions(engine: Engine, lake: Lake, by: TableEngine) -> list[DivergenceRecord]:
    """The divergences of a history, with what the running index has noted.

    What it noted of store and lake is left out: that is of its last look. `History.disagreements` compares them now.

    Args:
        engine: the store's, for reading.
        lake: the lake.
        by: what computes them.
    """
    noted = noted_in(engine, with_chains=True)
    with by.tables(History(engine, lake).bronze(), noted) as tables:
        rows = tables.rows("divergences").to_pylist()
    found = [
        DivergenceRecord(
            **row, severity=MEANINGS[row["kind"]].severity.value, next_action=MEANINGS[row["kind"]].next_action
        )
        for row in rows
        if row["kind"] != STORE_DIFFERS
    ]
    return sorted(found, key=lambda one: (one.kind, one.message_id or b"", one.evidence))
