"""The connection to a store's database: engine settings, transactions, and the schema version.

SQLite writers exclude each other from their first statement on. PostgreSQL writers do not, so operations that
must not run concurrently, such as reserving an account's nonces, share a name in
`Database.transaction(exclusive=…)`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    RowMapping,
    Table,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import NullPool, QueuePool

from bridge.protocol.errors import StoreBusyError, StoreError, StoreVersionError
from bridge.store.tables import METADATA, schema_version

VERSION: Final = 1
"""The schema version. A release that changes the tables increments it."""

_BUSY_SECONDS = 5
_NOT_ALLOWED: Final = "42501"  # insufficient_privilege, in PostgreSQL
_NAME_OTHER: Final = "name another file, or create a store with `waybill relayer run --new-store --store URL`"
_EXAMPLES = "a URL looks like sqlite:///bridge.db or postgresql://user:password@host/database"

_IN_MEMORY: Final[Mapping[str, Any]] = {
    "poolclass": QueuePool,
    "pool_size": 1,
    "max_overflow": 0,
    "connect_args": {"check_same_thread": False},
}
"""A database in memory lives in its one connection, which the threads take in turn."""

_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    # A restarted server closes connections, so each is tested before use.
    "postgresql": {
        "pool_pre_ping": True,
        "connect_args": {
            "connect_timeout": _BUSY_SECONDS,
            "tcp_user_timeout": _BUSY_SECONDS * 1000,  # detects a dead host instead of waiting for it
            "keepalives_idle": _BUSY_SECONDS,
        },
    },
}
_READING: Final[Mapping[str, Mapping[str, Any]]] = {
    "sqlite": {"waybill_begin": "BEGIN"},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
_ONE_QUERY: Final[Mapping[str, Mapping[str, Any]]] = {
    **_READING,
    "sqlite": {"waybill_begin": ""},  # a single statement sees one snapshot without a transaction
}


class Database:
    """A database whose tables have this schema version."""

    def __init__(self, url: str, *, tables: Sequence[Table] | None = None) -> None:
        """Connects to the database, and creates missing tables.

        Args:
            url: an SQLAlchemy URL.
            tables: the tables to create; None creates all.

        Raises:
            StoreVersionError: a newer version of Waybill created the store.
            StoreError: the URL is invalid, or the database does not exist or belongs to another program.
        """
        parsed = parse_url(url)
        self._url = parsed.render_as_string(hide_password=True)
        if parsed.get_backend_name() == "sqlite":
            table_names(parsed)
        self._engine = _engine(parsed)
        self._reads = self._engine.execution_options(**_READING[self._engine.dialect.name])
        self._queries = self._engine.execution_options(**_ONE_QUERY[self._engine.dialect.name])
        try:
            with self.transaction(exclusive="schema") as connection:
                _prepare(connection, self._url, tables)
        except BaseException:
            self.close()
            raise

    @property
    def engine(self) -> Engine:
        """The engine, for copying the whole store."""
        return self._engine

    @contextmanager
    def transaction(self, *, exclusive: str | None = None) -> Iterator[Connection]:
        """Opens a read-write transaction that commits at the end, or rolls back on an error.

        Args:
            exclusive: a name; transactions with the same name run one after the other.

        Raises:
            StoreBusyError: the database is locked, full, or unreachable.
            StoreError: the database is not a store, or is read-only.
        """
        with _errors(self._url), self._engine.begin() as connection:
            if exclusive is not None:
                self.exclude(connection, exclusive)
            yield connection

    @staticmethod
    def exclude(connection: Connection, name: str) -> None:
        """Holds the advisory lock with the given name until the transaction ends."""
        if connection.dialect.name == "postgresql":
            scoped = func.concat(func.current_schema(), "/", name)
            connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(scoped, 0))))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Opens a read-only transaction on one snapshot, which does not wait for writers."""
        with _errors(self._url), self._reads.connect() as connection:
            yield connection

    def read(self, query: Executable, values: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """Returns the rows of a query as mappings; see `reading`."""
        with _errors(self._url), self._queries.connect() as connection:
            return connection.execute(query, values).mappings().all()

    def first(self, query: Executable, values: Mapping[str, Any] | None = None) -> RowMapping | None:
        """Returns the first row of a query as a mapping."""
        return next(iter(self.read(query, values)), None)

    def rows(self, query: Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Returns the rows of a query as tuples."""
        with _errors(self._url), self._queries.connect() as connection:
            return connection.execute(query, values).all()

    def scalar(self, query: Executable, values: Mapping[str, Any] | None = None) -> Any:
        """Returns the single value of a query, or None."""
        with _errors(self._url), self._queries.connect() as connection:
            return connection.execute(query, values).scalar()

    def close(self) -> None:
        """Closes every connection."""
        self._engine.dispose()


@contextmanager
def _errors(store: str) -> Iterator[None]:
    try:
        yield
    except OperationalError as error:
        reason = " ".join(str(error.orig).split())
        if "unable to open" in reason:
            raise StoreError(f"store {store}: {reason}; check that its folder exists and is writable") from error
        raise StoreBusyError(f"store {store}: {reason}") from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise StoreError(f"store {store} is not a SQLite database; choose another file") from error
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT:
            raise StoreError(
                f"store {store} is damaged ({error.orig}): stop the relayer, keep a copy of the file, and "
                "restore a backup with `waybill store restore FILE --replace`"
            ) from error
        if getattr(error.orig, "sqlstate", None) == _NOT_ALLOWED:
            raise StoreError(
                f"store {store}: {error.orig}; grant the permission to the database role, or use another role"
            ) from error
        raise


def insert_into(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """Returns the dialect's insert, which supports `ON CONFLICT`."""
    return (postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert)(table)


def _prepare(connection: Connection, url: str, tables: Sequence[Table] | None) -> None:
    if not inspect(connection).has_table(schema_version.name):
        schema_version.create(connection)
        connection.execute(insert(schema_version).values(version=VERSION))
    found = connection.execute(select(schema_version.c.version)).scalar_one()
    if found > VERSION:
        raise StoreVersionError(
            f"store {url} has schema version {found}, written by a newer Waybill; this one reads versions up "
            f"to {VERSION}: upgrade Waybill, or use another store"
        )
    METADATA.create_all(connection, tables=tables)


def parse_url(url: str) -> URL:
    """Parses the URL of a store.

    Raises:
        StoreError: the URL is invalid, or refers to a database that can't hold a store.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"store {url!r} can't be opened: {error}; {_EXAMPLES}") from error
    if parsed.get_backend_name() not in _READING:
        raise StoreError(
            f"unsupported database {parsed.get_backend_name()!r}: only SQLite and PostgreSQL are supported; {_EXAMPLES}"
        )
    return parsed


def sqlite_file(url: URL) -> Path | None:
    """Returns the file of a SQLite database with links resolved, or None if it is in memory.

    Raises:
        StoreError: the file has hard links, or the URL contains more than a path.
    """
    shown = url.render_as_string(hide_password=True)
    if not url.database or url.database == ":memory:":
        return None
    if url.database.startswith("file:") or "uri" in url.query:
        raise StoreError(
            f"store {shown} is a SQLite URI, which is not supported: use a path, as in sqlite:////var/lib/bridge.db"
        )
    try:
        path = Path(url.database).resolve()
        names = path.stat().st_nlink if path.is_file() else 1
    except (OSError, RuntimeError) as error:  # RuntimeError: circular links
        raise StoreError(f"store {shown} can't be opened: {error}") from error
    if names > 1:  # SQLite keeps one log per name, so two names would corrupt the file
        raise StoreError(
            f"store {shown}: the file has {names} hard links; remove the other links, or use a copy of the file"
        )
    return path


def table_names(url: URL) -> frozenset[str]:
    """Returns the names of a database's tables; empty if the database is new. Changes nothing.

    SQLite first rolls back a transaction that a killed process left behind.

    Raises:
        StoreError: there is no database at the URL, or the SQLite file belongs to another program.
        StoreBusyError: the database does not respond.
    """
    shown = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite":
        path = sqlite_file(url)
        if path is None or not path.exists():
            return frozenset()
        engine = create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True), poolclass=NullPool
        )
    else:
        engine = _engine(url)
    try:
        with _errors(shown), engine.connect() as connection:
            names = frozenset(inspect(connection).get_table_names())
    finally:
        engine.dispose()
    is_ours = schema_version.name in names and len(names & METADATA.tables.keys()) > 1
    if url.get_backend_name() == "sqlite" and names and not is_ours:
        some = ", ".join(sorted(names)[:3])
        raise StoreError(f"store {shown} belongs to another program (it has the tables {some}): {_NAME_OTHER}")
    return names


def _engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() == "sqlite" and (path := sqlite_file(url)):
            path.parent.mkdir(parents=True, exist_ok=True)
        in_memory = url.get_backend_name() == "sqlite" and sqlite_file(url) is None
        engine = create_engine(url, **(_IN_MEMORY if in_memory else _OPTIONS.get(url.get_backend_name(), {})))
    except (ArgumentError, ModuleNotFoundError, OSError) as error:
        shown = url.render_as_string(hide_password=True)
        raise StoreError(f"store {shown!r} can't be opened: {error}; {_EXAMPLES}") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        event.listen(engine, "connect", _configure_postgresql)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    # The driver begins transactions too late and upgrades its lock midway, so we begin them ourselves.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {_BUSY_SECONDS * 1000}",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")
    _write_ahead(connection)


def _write_ahead(connection: sqlite3.Connection) -> None:
    # Two processes that create the file at the same time conflict here, and busy_timeout does not help.
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    begin = connection.get_execution_options().get("waybill_begin", "BEGIN IMMEDIATE")
    if begin:
        connection.exec_driver_sql(begin)


def _configure_postgresql(connection: Any, _record: object) -> None:
    # A worker that is stopped within a transaction must not block the others for ever.
    connection.autocommit = True
    connection.execute(f"SET lock_timeout = '{_BUSY_SECONDS}s'")
    connection.execute(f"SET idle_in_transaction_session_timeout = '{_BUSY_SECONDS}s'")
    connection.execute("SET synchronous_commit = on")
    connection.autocommit = False
