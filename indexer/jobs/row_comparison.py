"""Compares rows: what the store serves with the events it comes from, and the lake's own tables with the lake's events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
from pyarrow.dataset import dataset
from sqlalchemy import Engine

from indexer.jobs.rebuild import from_history
from indexer.lake.derived import events_version_of_table, files_of_table
from indexer.lake.files import explained, files_of
from indexer.lake.history import History
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model.errors import LakeDamagedError
from indexer.model.tables import SCHEMAS, SILVER, Bronze, Noted, TableEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """Rows that should be the same in two places.

    Attributes:
        table: what was compared.
        rows: how many.
        different: each row that differs, and how.
    """

    table: str
    rows: int
    different: tuple[str, ...] = ()


_OF_EVENTS: Final = (*SILVER, "duplicates")
"""Tables that follow from the events alone, without what the store has noted."""


def compare_rows(
    engine: Engine, lake: Lake, progress: Callable[[str], None] = lambda _: None, by: TableEngine = DUCKDB
) -> list[TableCheck]:
    """Compares every row of the index that can be compared, field by field.

    The events of store and lake, as far as both have them; messages and receipts of the store with what all events say;
    each table of the lake with the events of the version that it was made of.

    Args:
        engine: the store's, for reading.
        lake: the lake.
        progress: told what is being done.
        by: what computes the tables to compare with.

    Raises:
        IndexerError: the lake can't be read.
    """
    history = History(engine, lake)
    progress("comparing the rows of store and lake")
    found = []
    for check in history.compare_all():
        different = [str(one) for one in check.differences] + ([check.problem] if check.problem else [])
        name = f"events of chain {check.chain_id} in store and lake"
        found.append(TableCheck(table=name, rows=check.rows, different=tuple(different)))
    served = from_history(engine, history, by)
    rows = served.messages + served.receipts
    found.append(TableCheck(table="messages and receipts of the store", rows=rows, different=served.reasons))
    for name in _OF_EVENTS:
        progress(f"comparing the lake's table {name}")
        found += _of_lake(name, lake, by)
    return found


def _of_lake(name: str, lake: Lake, by: TableEngine) -> list[TableCheck]:
    folder, schema = lake.place / name, SCHEMAS[name]
    version = events_version_of_table(folder)
    if version is None:
        return []
    try:
        files = lake.at(version).files()
        with by.tables(Bronze(files=files, folder=lake.folder), Noted()) as tables:
            made = tables.rows(name)
    except LakeDamagedError:
        return []  # the version that it was made of can't be read any more: the next `waybill index tables` makes it again
    names = [PurePosixPath(path).name for path in files_of_table(folder)]
    with explained(folder):
        there = dataset(names, schema=schema, format="parquet", filesystem=files_of(folder)).to_table()
    ours, theirs = _counted(there), _counted(made)
    different = [f"{_named(schema, row)} is in the table alone" for row in (ours - theirs).elements()]
    different += [f"{_named(schema, row)} is not in the table" for row in (theirs - ours).elements()]
    table = f"{name} of the lake, made of version {version} of its events"
    return [TableCheck(table=table, rows=len(made), different=tuple(sorted(different)))]


def _counted(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _named(schema: pa.Schema, row: tuple[Any, ...]) -> str:
    keys = ("message_id", "gmp", "attempt", "block_number", "log_index")
    values = {key: row[schema.get_field_index(key)] for key in keys if key in schema.names}
    return ", ".join(
        f"{key} {f'0x{value.hex()}' if isinstance(value, bytes) else value}" for key, value in values.items()
    )
