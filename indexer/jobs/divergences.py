"""What contradicts: by the store of what it holds, by the gold table of what the store has pruned."""

from __future__ import annotations

from typing import Any

from bridge.protocol.indexed import DivergenceRecord
from indexer.lake.reading import AsOf, as_of, rows_of
from indexer.model import schemas
from indexer.model.divergences import MEANINGS
from indexer.model.storage_location import StorageLocation
from indexer.store.reader import IndexReader


def all_divergences(reader: IndexReader, lake: StorageLocation) -> tuple[list[DivergenceRecord], AsOf | None]:
    """All divergences, and as of when the gold table is.

    A message that the store still has is judged as it is now; the table may be an hour old.

    Args:
        reader: of the store.
        lake: whose gold table has the rest.
    """
    live = reader.divergences()
    older = [row for row in rows_of(lake, "gold.divergences").to_pylist() if row["message_id"] is not None]
    pruned = reader.pruned_among([row["message_id"] for row in older])
    found = [_record(row) for row in older if row["message_id"] in pruned]
    return sorted([*live, *found], key=lambda one: (one.kind, one.message_id or b"", one.evidence)), as_of(lake)


def _record(row: dict[str, Any]) -> DivergenceRecord:
    meaning = MEANINGS[row["kind"]]
    stated = {name: row[name] for name in schemas.DIVERGENCES.names}
    return DivergenceRecord(**stated, severity=meaning.severity.value, next_action=meaning.next_action)
