"""Writes tables derived from the lake's events next to them, for users who query them with an engine of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from sqlalchemy import Engine, Executable, select, text

from indexer.lake.derived import DerivedTable, Made
from indexer.lake.increment import (
    ADDED_UP,
    INCREMENTAL,
    NOTHING,
    OF_EVENTS,
    Others,
    bronze_of,
    changes_since,
    made_with,
    paths_of,
    without,
)
from indexer.lake.lake import Lake, Reach
from indexer.lake.lake_tables import DUCKDB
from indexer.model import schemas
from indexer.model.tables import KEPT, MADE_OF, SCHEMAS, Bronze, Changes, Noted, TableEngine, Tables
from indexer.store import tables
from indexer.store.divergences import NOTED
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

    Rows of messages are computed for those to which something happened since the last run, and are added to what totals are
    made of. It is safe to interrupt and to repeat: what was not committed does not count, and is deleted after a
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
    before = {name: tables_[name].made(reach.blocks) for name in INCREMENTAL}
    run = _Run(version=version, reach=reach, tables=tables_, before=before, progress=progress)
    changes = None if full else changes_since(pinned, before, reach)
    bronze = Bronze(files=pinned.files(), folder=lake.folder)
    noted = replace(noted_in(engine), paid=paid)
    if changes is None:
        progress(f"all messages of version {version}")
    else:
        progress(f"{changes.messages} messages with {changes.events} new events up to version {version}")
        with bronze_of(pinned, changes) as changed:
            _add(run, by, changes, changed, bronze)
    with by.tables(bronze, noted) as made:

        def write(name: str) -> None:
            table = run.tables[name]
            if name == "costs" and paid is None and table.files():
                run.computed[name] = 0
            elif name in run.computed:
                made.use(name, table.files(), table.folder)
            else:
                progress(f"{name}: from version {version}")
                run.replace(name, made.write(name, table.folder))

        _in_order(write, run.tables, by.at_once)
    return [
        Written(
            name=name,
            folder=str(table.folder),
            rows=table.rows(),
            computed=run.computed[name],
            events_version=version,
        )
        for name, table in run.tables.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run: to which version of the events it brings which tables, and how many rows of each it has computed so far."""

    version: int
    reach: Reach
    tables: Mapping[str, DerivedTable]
    before: Mapping[str, Made | None]
    progress: Callable[[str], None]
    texts: str = field(default_factory=made_with)
    computed: dict[str, int] = field(default_factory=dict[str, int])

    def replace(self, name: str, manifests: list[dict[str, Any]], others: Others | None = None) -> None:
        """Commits what was written for a table, and what stays of it."""
        table = self.tables[name]
        self.computed[name] = sum(manifest["rows"] for manifest in manifests)
        if others is None:
            table.replace(manifests, self.version, self.reach, self.texts)
            return
        filled = [manifest for manifest in manifests if manifest["rows"]]
        kept = self.there(name), others.kept
        table.replace([*filled, *others.written], self.version, self.reach, self.texts, kept)

    def there(self, name: str) -> Made:
        """The table so far."""
        before = self.before[name]
        assert before is not None  # else there were no changes, but everything
        return before


def _add(run: _Run, by: TableEngine, changes: Changes, changed: Bronze, all_events: Bronze) -> None:
    """Adds what is new to the tables of `INCREMENTAL`.

    Args:
        run: this one.
        by: what computes the tables.
        changes: what is new.
        changed: the events of messages to which something happened.
        all_events: of which those about routers count.
    """
    new, removed = dict[str, list[str]](), dict[str, list[str]]()

    def add(made: Tables, name: str) -> None:
        table, before = run.tables[name], run.there(name)
        run.progress(f"{name}: with what is new")
        others = NOTHING if name == "tallies" else without(table, before, changes.ids)
        if changes.events or len(changes.ids):
            there = before.files if name == "tallies" else others.paths(table.folder)
            manifests = made.write(name, table.folder, there if name in ADDED_UP else ())
            run.replace(name, manifests, NOTHING if name in ADDED_UP else others)
            new[name], removed[name] = paths_of(manifests, table.folder), others.removed
        else:
            run.replace(name, [], Others(kept=list(before.files)))

    with by.tables(changed, Noted()) as made:
        _in_order(partial(add, made), OF_EVENTS, by.at_once)
    with by.tables(all_events, Noted()) as made:
        for name in new:
            made.use(name, new[name], run.tables[name].folder, removed[name])
        _in_order(partial(add, made), KEPT, by.at_once)


def _in_order(make: Callable[[str], None], names: Iterable[str], at_once: int) -> None:
    """Makes tables, each after those that it is made of.

    Args:
        make: makes one.
        names: in an order in which they could be made one after the other.
        at_once: how many are made at a time.
    """
    if at_once == 1:
        for name in names:
            make(name)
        return

    def when_possible(name: str, sources: list[Future[None]]) -> None:
        for source in sources:
            source.result()
        make(name)

    with ThreadPoolExecutor(at_once, "tables") as pool:
        made = dict[str, Future[None]]()
        try:
            for name in names:
                sources = [made[source] for source in MADE_OF.get(name, ()) if source in made]
                made[name] = pool.submit(when_possible, name, sources)
            for one in wait(made.values(), return_when=FIRST_EXCEPTION).done:
                one.result()
        finally:
            pool.shutdown(cancel_futures=True)  # after an error what is under way ends, and nothing more begins


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
