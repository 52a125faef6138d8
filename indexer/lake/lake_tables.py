"""The tables, computed by DuckDB in this process: no JVM has to start, and no cluster helps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import duckdb
import pyarrow as pa
from pyarrow.dataset import dataset

from indexer.lake import bucketed_tables as bucketed
from indexer.lake.bucketed_tables import typed, write_rows
from indexer.lake.files import check_there, explained, files_of
from indexer.model import schemas
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import MADE_OF, SCHEMAS, Bronze, Explain, Noted, Tables
from indexer.transforms import divergences as divergence_rules
from indexer.transforms.pauses import PAUSE_EVENTS, pauses
from indexer.transforms.queries import ABOUT_ROUTERS, WITH_BIT_OR, paused, query, signed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A table that is read: its files of one version, where they are, and its columns."""

    files: Sequence[str]
    folder: StorageLocation
    schema: pa.Schema


class DuckdbEngine:
    """Computes tables in this process, one at a time, by all cores."""

    at_once: Final = 1

    def __init__(self, explain: Explain | None = None) -> None:
        """`explain` gets each plan before it runs."""
        self._explain = explain

    @contextmanager
    def tables(self, bronze: Bronze, noted: Noted) -> Iterator[Tables]:
        """The tables of these events."""
        yield DuckdbTables(bronze, noted, self._explain)


DUCKDB: Final = DuckdbEngine()


class DuckdbTables:
    """The tables of some events."""

    def __init__(self, bronze: Bronze, noted: Noted, explain: Explain | None) -> None:
        """Computes nothing yet."""
        self._bronze = bronze
        self._noted = noted
        self._explain = explain
        self._made: dict[str, pa.Table] = {}
        self._parts = {"events": Part(files=bronze.files, folder=bronze.folder, schema=schemas.EVENTS)}

    def rows(self, name: str) -> pa.Table:
        """See `indexer.model.tables.Tables`. What others are made of is kept for them."""
        if name in self._made:
            return self._made[name]
        with self._opened_for(name) as connection:
            text = self._planned(name, connection)
            found = connection.sql(text).to_arrow_table().cast(SCHEMAS[name])
        if any(name in sources for sources in MADE_OF.values()):
            self._made[name] = found
        return found

    def write(self, name: str, target: StorageLocation, before: Sequence[str] = ()) -> list[dict[str, Any]]:
        """See `indexer.model.tables.Tables`. Large tables are written a bucket of messages at a time."""
        whole = len(self._bronze.tail) == 0 and self._bronze.condition == "true" and self._bronze.changes is None
        if whole and self._bronze.files and name in bucketed.TABLES:
            if self._explain is not None:
                with self._opened_for(name) as connection:
                    self._planned(name, connection)
            manifests = bucketed.write_table(name, self._bronze.files, self._bronze.folder, target)
        else:
            self._parts["before"] = Part(files=before, folder=target, schema=SCHEMAS[name])
            with self._opened_for(name) as connection:
                manifests = [write_rows(connection, [self._planned(name, connection)], SCHEMAS[name], target)]
        self.use(name, [f"{target.root}/{manifest['path']}" for manifest in manifests], target)
        return manifests

    def use(self, name: str, files: Sequence[str], folder: StorageLocation, removed: Sequence[str] = ()) -> None:
        """See `indexer.model.tables.Tables`."""
        self._parts[name] = Part(files=files, folder=folder, schema=SCHEMAS[name])
        self._parts[f"removed_{name}"] = Part(files=removed, folder=folder, schema=SCHEMAS[name])

    @contextmanager
    def _opened_for(self, name: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection with what the table is made of."""
        sources = MADE_OF.get(name, ())
        made = {one: self.rows(one) for one in sources if one not in self._parts}
        read = [*sources, *(f"removed_{one}" for one in sources), "before"]
        parts = {"lasting": self._parts["events"]} | {one: self._parts[one] for one in read if one in self._parts}
        changes = self._bronze.changes
        if changes is not None:
            parts["added"] = Part(files=changes.files, folder=self._bronze.folder, schema=schemas.EVENTS)
        with opened(parts) as connection:
            connection.register("tail", self._bronze.tail)
            names = ", ".join(schemas.EVENTS.names)
            lasting = f"select {names} from lasting"
            if changes is not None:
                lasting += f" union all select {names} from added where not {changes.is_old}"
            connection.execute(
                f"create temp view events as select * from ({lasting} "
                f"union all select {names} from tail) e where {self._bronze.condition}"
            )
            for one, rows in made.items():
                connection.register(one, rows)
            for one in (one for one in read if one not in parts and one not in made):
                of_table = name if one == "before" else one.removeprefix("removed_")
                connection.register(one, SCHEMAS[of_table].empty_table())
            yield connection

    def _planned(self, name: str, connection: duckdb.DuckDBPyConnection) -> str:
        text = typed(text_of(name, connection, self._noted), SCHEMAS[name])
        if self._explain is not None:
            ((_, plan),) = connection.execute(f"explain {text}").fetchall()
            self._explain(name, plan.strip())
        return text


_OF_TABLES: Final = {
    "candidates": divergence_rules.candidates("messages"),
    "fan_outs": query("fan_outs", messages="messages", before="before"),
    "tallies": query(
        "tallies",
        messages=signed("messages", schemas.MESSAGES),
        receipts=signed("receipts", schemas.RECEIPTS),
        before="before",
    ),
    "lanes": query("lanes", tallies="tallies"),
    "redundancy": query("redundancy", tallies="tallies"),
}
"""The queries for tables that are made of others alone."""


def text_of(name: str, connection: duckdb.DuckDBPyConnection, noted: Noted) -> str:
    """The query for a table.

    Args:
        name: of the table.
        connection: that has `events` and what the table is made of; what is read besides is made on it.
        noted: what events do not say.
    """
    if name in bucketed.TABLES:
        return query(bucketed.TABLES[name][0], events="events", **WITH_BIT_OR)
    if name in _OF_TABLES:
        return _OF_TABLES[name]
    if name == "findings":
        return _findings(connection)
    if name == "costs":
        connection.register("paid", schemas.PAID.empty_table() if noted.paid is None else noted.paid)
        return query("costs", messages="messages", receipts="receipts", paid="paid")
    if name == "divergences":
        return _divergences(connection, noted)
    connection.register("final_times", noted.final_times)
    connection.register("attested", schemas.ATTESTED.empty_table() if noted.attested is None else noted.attested)
    names = ("tallies", "messages", "receipts", "final_times", "attested")
    return query("latencies", asked=str(noted.attested is not None).lower(), **{one: one for one in names})


@contextmanager
def opened(parts: Mapping[str, Part]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that knows each part by its name.

    Raises:
        LakeDamagedError: a file of a part is lost or can't be read, also while the block reads it.
        LakeUnreachableError: their bucket refuses, or does not answer.
    """
    with explained(*(part.folder for part in parts.values())), duckdb.connect() as connection:
        for name, part in parts.items():
            if not part.files:
                connection.register(name, part.schema.empty_table())
            elif part.folder.is_bucket:
                names = [PurePosixPath(path).name for path in part.files]
                of_bucket = dataset(names, schema=part.schema, format="parquet", filesystem=files_of(part.folder))
                connection.register(name, of_bucket)
            else:
                check_there(part.files, part.folder)
                connection.read_parquet(list(part.files), union_by_name=True).create_view(name)
        yield connection


def _findings(connection: duckdb.DuckDBPyConnection) -> str:
    """The query for what receipts contradict; what it reads besides is made on the connection."""
    connection.execute(f"create temp table about_routers as select * from events where {ABOUT_ROUTERS}")
    found = divergence_rules.findings(
        messages="messages",
        receipts="receipts",
        duplicates="duplicates",
        periods=query("periods", about_routers="about_routers"),
        registrations=query("registrations", about_routers="about_routers"),
        text="varchar",
    )
    return " union all ".join(found)


def _divergences(connection: duckdb.DuckDBPyConnection, noted: Noted) -> str:
    """The query for what contradicts, as `schemas.DIVERGENCES`; what it reads besides is made on the connection."""
    if noted.chains is None:
        connection.execute(f"create temp table chains as {query('chains', events='events')}")
    else:
        connection.register("chains", noted.chains)
    told = connection.sql(
        "select * from events where message_id is null and event in (select unnest($names)) order by block_number, log_index",
        params={"names": list(PAUSE_EVENTS)},
    ).to_arrow_table()
    connection.register("pauses", pa.Table.from_pylist(pauses(told.to_pylist()), schema=schemas.PAUSES))
    connection.register("stall_limits", noted.limits)
    connection.register("noted", noted.divergences)
    of_one = divergence_rules.rules_of_one(
        messages="candidates",
        chains="chains",
        limits="stall_limits",
        lane_paused=paused("lane", "m.attempted_time"),
        text="varchar",
        received_count="bit_count(m.received)",
    )
    of_more = divergence_rules.of_more(
        messages="messages",
        fan_outs="fan_outs",
        tallies="tallies",
        reports=divergence_rules.reports("candidates"),
        text="varchar",
    )
    text = " union all ".join([*of_one, *of_more])
    for name, seconds in (("max_lag", noted.policy.max_lag), ("silence_after", noted.policy.silence_after)):
        text = text.replace(f":{name}", str(int(seconds)))
    return f"select * from ({text}) union all by name select * from findings union all by name select * from noted"
