"""Writes tables derived from the lake's events next to them, for users who query them with an engine of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlalchemy import Engine, select, text

from indexer.lake import bucketed_tables as bucketed
from indexer.lake import lake_tables as whole
from indexer.lake.derived import DerivedTable
from indexer.lake.lake import Lake
from indexer.model import schemas
from indexer.store import tables
from indexer.store.effective_status import NOTED
from indexer.store.limits import saved_policy


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
    engine: Engine,
    lake: Lake,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Written]:
    """Makes the tables again, all of them from the same version of the events, and replaces each by one commit.

    May be cut off anywhere, and repeated: what was not committed does not count, and is deleted after a week.

    Args:
        engine: the store's, for reading: what counts as silent, and which divergences the index has noted.
        lake: the lake.
        spark: whose tasks make what is made a message at a time; None is this process.
        progress: told what is being done.

    Raises:
        LakeUnreachableError: the lake's bucket refuses, or does not answer.
        IndexerError: somebody else writes the same table.
    """
    version = lake.version
    pinned = lake.at(version)
    files = pinned.files()
    parts = {"events": whole.Part(files=files, folder=lake.folder, schema=schemas.EVENTS)}
    reach = pinned.reach(_chains_in(parts))
    noted = noted_in(engine)
    done = []
    for name in (*bucketed.TABLES, *whole.TABLES):
        progress(f"{name}: from {len(files)} files of version {version}")
        schema = whole.TABLES[name] if name in whole.TABLES else bucketed.TABLES[name][1]
        table = DerivedTable(lake.place, name, schema)
        if name in whole.TABLES:
            manifests = whole.write_whole(name, parts, noted, table.folder)
        else:
            manifests = bucketed.write_table(name, files, lake.folder, table.folder, spark)
        table.replace(manifests, version, reach)
        parts[name] = whole.Part(files=table.files(), folder=table.folder, schema=schema)
        rows = sum(manifest["rows"] for manifest in manifests)
        done.append(Written(name=name, folder=str(table.folder), rows=rows, events_version=version))
    return done


def _chains_in(parts: Mapping[str, whole.Part]) -> list[int]:
    with whole.opened(parts) as connection:
        return [chain for (chain,) in connection.execute("select distinct chain_id from events").fetchall()]


def noted_in(engine: Engine) -> whole.Noted:
    """What the running index has noted in its store."""
    with engine.connect() as connection:
        limits = [dict(row) for row in connection.execute(select(tables.stall_limits)).mappings()]
        found = [dict(row) for row in connection.execute(text(NOTED)).mappings()]
    return whole.Noted(
        policy=saved_policy(engine),
        limits=pa.Table.from_pylist(limits, schema=schemas.LIMITS),
        divergences=pa.Table.from_pylist(found, schema=schemas.DIVERGENCES),
    )
