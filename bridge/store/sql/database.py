"""The connection to the store's database: its settings, its transactions, and the version of its tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, make_url, select, update
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError

from bridge.records.errors import StoreBusyError, StoreError, StoreVersionError
from bridge.store.sql.tables import METADATA, schema_version

Migration = Callable[[Connection], None]

MIGRATIONS: Final[Sequence[Migration]] = ()
"""What turns tables of version n into those of version n + 1, for n = 1, 2, …"""

_BUSY_SECONDS = 5


class Database:
    """A database whose tables are of this version."""

    def __init__(self, url: str, *, migrations: Sequence[Migration] = MIGRATIONS) -> None:
        """Connects, makes the tables of a new store, and brings those of an older one up to date.

        Raises:
            StoreVersionError: a newer version of Waybill made the store.
            StoreError: the URL is not one, or there is no database behind it.
        """
        self._url = url
        self._engine = _engine(url)
        self._version = len(migrations) + 1
        with self.transaction() as connection:
            self._prepare(connection, migrations)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that can write; it commits at the end, or not at all.

        Raises:
            StoreBusyError: the database was locked or not there.
            StoreError: the database is no store, or can't be written.
        """
        with self._errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads, and waits for no writer."""
        with self._errors(), self._engine.connect().execution_options(waybill_reads_only=True) as connection:
            yield connection

    def close(self) -> None:
        """Closes every connection."""
        self._engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            text = str(error.orig)
            if "unable to open" in text:
                raise StoreError(f"store {self._url}: {text}; does its folder exist, and may it be written?") from error
            raise StoreBusyError(f"store {self._url}: {text}") from error
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.DatabaseError) and "not a database" in str(error.orig):
                raise StoreError(f"store {self._url} is not a SQLite database; name another file") from error
            raise

    def _prepare(self, connection: Connection, migrations: Sequence[Migration]) -> None:
        if not inspect(connection).has_table(schema_version.name):
            METADATA.create_all(connection)
            connection.execute(insert(schema_version).values(version=self._version))
            return
        found = connection.execute(select(schema_version.c.version)).scalar_one()
        if found > self._version:
            raise StoreVersionError(
                f"store {self._url} is of version {found}, made by a newer Waybill; this one reads up to version"
                f" {self._version}: upgrade Waybill, or use another store"
            )
        for migrate in migrations[found - 1 :]:
            migrate(connection)
        METADATA.create_all(connection)  # tables that this version adds need no migration
        connection.execute(update(schema_version).values(version=self._version))


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed)
    except (ArgumentError, ModuleNotFoundError, OSError) as error:
        raise StoreError(f"store {url!r} can't be opened: {error}; an URL looks like sqlite:///bridge.db") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    # The driver's own transactions begin too late and upgrade their lock in the middle: we begin them ourselves.
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        f"busy_timeout = {_BUSY_SECONDS * 1000}",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    reads_only = connection.get_execution_options().get("waybill_reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
