"""Writes tables derived from the lake's events next to them, for users who query them with an engine of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlalchemy import Engine, Executable, select, text

from indexer.lake.derived import DerivedTable
from indexer.lake.increment import OF_EVENTS, bronze_of, changes_since, made_with, without
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
        computed: how many of these this run has computed.
        events_version: of the table `events`, of which it was made.
    """

    name: str
    folder: str
    rows: int
    computed: int
    events_version: int


def write_tables(
    engine: Engine,
    lake: Lake,
    by: TableEngine = DUCKDB,
    progress: Callable[[str], None] = lambda _: None,
    *,
    full: bool = False,
    paid: pa.Table | None = None,
) -> list[Written]:
    """Brings the tables up to the lake's newest version, all of them to the same one, each by one commit.

    Rows of messages are computed for those to which something happened since the last run, and totals from these rows. It is
    safe to interrupt and to repeat: what was not committed does not count, and is deleted after a
    week.

    Args:
        engine: the store's, for reading: what counts as silent, and which divergences the index has noted.
        lake: the lake.
        by: what computes them.
        progress: told what is being done.
        full: compute every row, even if little is new.
        paid: `schemas.PAID`, by which the costs are computed; None leaves them as they are.

    Raises:
        LakeUnreachableError: the lake's bucket refuses, or does not answer.
        IndexerError: somebody else writes the same table.
    """
    version = lake.version
    pinned = lake.at(version)
    reach = pinned.reach(pinned.chains())
    tables_ = {name: DerivedTable(lake.place, name, schema) for name, schema in SCHEMAS.items()}
    before = {name: tables_[name].made(reach.blocks) for name in OF_EVENTS}
    changes = None if full else changes_since(pinned, before, reach)
    texts, computed = made_with(), dict[str, int]()
    if changes is None:
        progress(f"all messages of version {version}")
    else:
        progress(f"{changes.messages} messages with {changes.events} new events up to version {version}")
        with by.tables(bronze_of(pinned, changes), Noted()) as made:
            for name in OF_EVENTS:
                table, old = tables_[name], before[name]
                assert old is not None  # else there were no changes, but everything
                progress(f"{name}: of messages with new events")
                manifests = made.write(name, table.folder) if changes.events else []
                computed[name] = sum(manifest["rows"] for manifest in manifests)
                kept, others = without(table, old, changes.ids)
                filled = [manifest for manifest in manifests if manifest["rows"]]
                table.replace([*filled, *others], version, reach, texts, (old, kept))
    with by.tables(Bronze(files=pinned.files(), folder=lake.folder), replace(noted_in(engine), paid=paid)) as made:
        for name, table in tables_.items():
            if name == "costs" and paid is None and table.files():
                computed[name] = 0
            elif name in computed:
                made.use(name, table.files(), table.folder)
            else:
                progress(f"{name}: from version {version}")
                manifests = made.write(name, table.folder)
                table.replace(manifests, version, reach, texts)
                computed[name] = sum(manifest["rows"] for manifest in manifests)
    return [
        Written(
            name=name,
            folder=str(table.folder),
            rows=table.rows(),
            computed=computed[name],
            events_version=version,
        )
        for name, table in tables_.items()
    ]


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
