"""Reads the lake's tables with DuckDB, without Spark, and the time of their last refresh."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import dataset

from indexer.model.dictionary import TABLES
from indexer.model.storage_location import StorageLocation
from indexer.pipeline.files import check_there, explained, files_in, files_of, root_of

_LAST_TABLE: Final = "gold.divergences"  # a table that every refresh writes
_AS_OF: Final = "waybill.asOf"  # its property with the time as of which all tables are current


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """The state that the tables reflect.

    Attributes:
        blocks: last final block included, by chain.
        refreshed_at: Unix seconds of the refresh.
        inputs: hash of the inputs from which the tables were computed.
    """

    blocks: Mapping[int, int] = field(default_factory=dict[int, int])
    refreshed_at: int
    inputs: str = ""

    def to_json(self) -> str:
        """Serialises the state for `from_json`."""
        blocks = {str(chain): block for chain, block in self.blocks.items()}
        return json.dumps({"blocks": blocks, "at": self.refreshed_at, "inputs": self.inputs})

    @classmethod
    def from_json(cls, text: str) -> AsOf | None:
        """Parses the output of `to_json`. Returns None if the text is empty."""
        if not text:
            return None
        stated = json.loads(text)
        blocks = {int(chain): block for chain, block in stated["blocks"].items()}
        return cls(blocks=blocks, refreshed_at=stated["at"], inputs=stated.get("inputs", ""))


def as_of(lake: StorageLocation) -> AsOf | None:
    """Returns the state of the gold tables, or None if they have never been refreshed."""
    folder = lake.table(_LAST_TABLE)
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return None
        properties = DeltaTable(folder.root, storage_options=folder.options).metadata().configuration
        return AsOf.from_json(str(properties.get(_AS_OF, "")))


def state_as_of(lake: StorageLocation, stated: AsOf) -> None:
    """Records the state of the tables as a table property, since Spark makes no commit for a table that stays empty."""
    folder = lake.table(_LAST_TABLE)
    table = DeltaTable(folder.root, storage_options=folder.options)
    table.alter.set_table_properties({_AS_OF: stated.to_json()}, raise_if_not_exists=False)


def rows_of(lake: StorageLocation, name: str) -> pa.Table:
    """Returns all rows of a table, or no rows if the table does not exist.

    Raises:
        LakeDamagedError: a file of the table is missing.
        LakeUnreachableError: the bucket denies access, or does not respond.
    """
    schema, _ = TABLES[name]
    folder = lake.table(name)
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return schema.empty_table()
        found = DeltaTable(folder.root, storage_options=folder.options).to_pyarrow_dataset().to_table()
        return found.select(schema.names).cast(schema)


@contextmanager
def opened(lake: StorageLocation, names: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens a DuckDB connection with tables of the lake, each in its latest version.

    Args:
        lake: the lake.
        names: table names by their alias in queries. A table that was never written is empty.

    Raises:
        LakeDamagedError: a file of a table is missing, possibly only when the `with` block reads it.
        LakeUnreachableError: the bucket denies access, or does not respond.
    """
    folders = [lake.table(name) for name in names.values()]
    with explained(*folders), duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
        for alias, name in names.items():
            register(connection, alias, lake, name)
        yield connection


def register(connection: duckdb.DuckDBPyConnection, alias: str, lake: StorageLocation, name: str) -> None:
    """Registers the latest version of a table in a DuckDB connection."""
    schema, _ = TABLES[name]
    folder = lake.table(name)
    names: list[str] = []
    if DeltaTable.is_deltatable(folder.root, folder.options):
        table = DeltaTable(folder.root, storage_options=folder.options)
        files = files_in(table, folder)
        check_there(files, folder)
        root = f"{folder.root}/" if folder.is_bucket else root_of(table)
        names = [path.removeprefix(root) for path in files]
    rows = (
        dataset(names, schema=schema, format="parquet", filesystem=files_of(folder)) if names else schema.empty_table()
    )
    connection.register(alias, rows)
