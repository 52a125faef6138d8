"""Writes tables derived from the lake's events next to them, for users who query them with an engine of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from sqlalchemy import Engine, Executable, select, text

from indexer.lake.derived import DerivedTable
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model import schemas
from indexer.model.tables import SCHEMAS, Bronze, Noted, TableEngine
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
    engine: Engine, lake: Lake, by: TableEngine = DUCKDB, progress: Callable[[str], None] = lambda _: None
) -> list[Written]:
    """Makes the tables again, all of them from the same version of the events, and replaces each by one commit.

    May be cut off anywhere, and repeated: what was not committed does not count, and is deleted after a week.

    Args:
        engine: the store's, for reading: what counts as silent, and which divergences the index has noted.
        lake: the lake.
        by: what computes them.
        progress: told what is being done.

    Raises:
        LakeUnreachableError: the lake's bucket refuses, or does not answer.
        IndexerError: somebody else writes the same table.
    """
    version = lake.version
    pinned = lake.at(version)
    bronze = Bronze(files=pinned.files(), folder=lake.folder)
    reach = pinned.reach(pinned.chains())
    done = []
    with by.tables(bronze, noted_in(engine)) as made:
        for name, schema in SCHEMAS.items():
            progress(f"{name}: from {len(bronze.files)} files of version {version}")
            table = DerivedTable(lake.place, name, schema)
            manifests = made.write(name, table.folder)
            table.replace(manifests, version, reach)
            rows = sum(manifest["rows"] for manifest in manifests)
            done.append(Written(name=name, folder=str(table.folder), rows=rows, events_version=version))
    return done


def noted_in(engine: Engine, *, with_chains: bool = False) -> Noted:
    """What the running index has noted in its store.

    Args:
        engine: the store's, for reading.
        with_chains: how far the chains were read, too, which the lake alone does not say.
    """
    chain, final = tables.chains.c, tables.final_times.c
    chosen: dict[pa.Schema, Executable] = {
        schemas.LIMITS: select(tables.stall_limits),
        schemas.DIVERGENCES: text(NOTED),
        schemas.FINAL_TIMES: select(final.chain_id, final.block_number, final.final_time),
        schemas.CHAINS: select(chain.chain_id, chain.block_time, chain.final_block),
    }
    with engine.connect() as connection:
        limits, divergences, final_times, chains = (
            pa.Table.from_pylist([dict(row) for row in connection.execute(rows).mappings()], schema=schema)
            for schema, rows in chosen.items()
        )
    return Noted(
        policy=saved_policy(engine),
        limits=limits,
        divergences=divergences,
        final_times=final_times,
        chains=chains if with_chains else None,
    )
