"""Writes the lake's messages and receipts, for whoever queries them with an engine of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from indexer.sinks.derived import DerivedTable
from indexer.sinks.lake import Lake
from indexer.transforms.bucketed import TABLES, write_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table that was written.

    Attributes:
        name: of the table.
        folder: where it is.
        rows: that it has.
        events_version: of the table `events`, of which it was made.
    """

    name: str
    folder: str
    rows: int
    events_version: int


def write_tables(
    lake: Lake, spark: SparkSession | None = None, progress: Callable[[str], None] = lambda _: None
) -> list[Written]:
    """Makes the tables anew, all of them from the same version of the events, and replaces each by one commit.

    May be cut off anywhere, and repeated: what was not committed does not count, and is deleted after a week.

    Args:
        lake: the lake.
        spark: whose tasks do it; None is this process.
        progress: told what is being done.

    Raises:
        LakeUnreachableError: the lake's bucket refuses, or does not answer.
        IndexerError: somebody else writes the same table.
    """
    version = lake.version
    files = lake.at(version).files()
    done = []
    for name, (_, schema) in TABLES.items():
        progress(f"{name}: from {len(files)} files of version {version}")
        table = DerivedTable(lake.place, name, schema)
        manifests = write_table(name, files, lake.folder, table.folder, spark)
        table.replace(manifests, version)
        rows = sum(manifest["rows"] for manifest in manifests)
        done.append(Written(name=name, folder=str(table.folder), rows=rows, events_version=version))
    return done
