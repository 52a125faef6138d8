"""Connections to the operational store on SQLite or PostgreSQL.

One process writes. Its transactions exclude each other from their first statement on, as they always do in
SQLite, because the stream and the retry timer run in two threads. Each reading transaction sees a single
snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    false,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError

from indexer.model.errors import IndexerError, NoIndexError, StoreVersionError
from indexer.store import tables

_BUSY_TIMEOUT: Final = 30.0  # seconds to wait for another connection's transaction
_CONNECT_TIMEOUT: Final = 5  # seconds
_READERS_CACHE: Final = 32_000  # KiB; lists read messages whose rows are scattered over the tables

_ONE_WRITER: Final = "select pg_advisory_xact_lock(hashtextextended(current_schema() || '/index', 0))"

_EXTREMES_OF_BYTES: Final = (
    """
    create function {name}_bytes(bytea, bytea) returns bytea language sql immutable strict parallel safe
    as 'select case when $1 {sign} $2 then $1 else $2 end'
    """,
    """
    create aggregate {name}(bytea) (
      sfunc = {name}_bytes, stype = bytea, combinefunc = {name}_bytes, sortop = operator({sign}), parallel = safe
    )
    """,
)
"""`min` and `max` of bytes, which every other engine has, and PostgreSQL from its version 18 on."""


def writing_engine(url: str) -> Engine:
    """Opens the store for its only writer, and creates missing tables.

    Raises:
        StoreVersionError: a newer version of Waybill wrote the store.
        IndexerError: the database is not a store.
    """
    parsed = _parsed(url)
    if _is_sqlite(parsed) and parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = _engine(parsed, writes=True)
    with _kept_if_usable(engine, "used"), engine.begin() as connection:
        _prepare(connection)
    return engine


def reading_engine(url: str) -> Engine:
    """Opens the store for reading. The writer may be active.

    Raises:
        NoIndexError: there is no store.
        StoreVersionError: a newer version of Waybill wrote the store.
        IndexerError: the store can't be read.
    """
    parsed = _parsed(url)
    if not may_exist(url):
        raise NoIndexError(f"there is no index at {parsed.database}; `waybill index run` creates it")
    engine = _engine(parsed, writes=False)
    with _kept_if_usable(engine, "read"), engine.connect() as connection:
        _check_is_index(connection)
        _check_version(connection)
    return engine


@contextmanager
def _kept_if_usable(engine: Engine, purpose: str) -> Iterator[None]:
    """Closes the engine and raises an error with the reason if the first query fails."""
    try:
        yield
    except DatabaseError as error:
        engine.dispose()
        reason = " ".join(str(error.orig).split())
        raise IndexerError(f"{_shown(engine.url)} can't be {purpose} as the index's store: {reason}") from error
    except IndexerError:
        engine.dispose()
        raise


def may_exist(url: str) -> bool:
    """Returns whether a store may exist. Returns False for a missing SQLite file, which reading must not create."""
    parsed = _parsed(url)
    return not _is_sqlite(parsed) or bool(parsed.database and Path(parsed.database).exists())


def _parsed(url: str) -> URL:
    examples = "a store's URL looks like sqlite:///index.db or postgresql://user:password@host/database"
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise IndexerError(f"{url!r} is not a store's URL: {error}; {examples}") from error
    if parsed.get_backend_name() not in _ENGINES:
        raise IndexerError(
            f"{parsed.get_backend_name()!r} is not supported as a store; use SQLite or PostgreSQL: {examples}"
        )
    return parsed


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)


def _engine(url: URL, *, writes: bool) -> Engine:
    return _ENGINES[url.get_backend_name()](url, writes)


def _sqlite(url: URL, writes: bool) -> Engine:  # noqa: FBT001  one signature for all engines
    engine = create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver's own transactions begin and lock late; with explicit ones, a writer waits instead of failing half-way.
        connection.isolation_level = None
        if writes:
            connection.execute("PRAGMA journal_mode = WAL")
            # A power failure may lose the last transactions with their offsets; the chains are then read again.
            connection.execute("PRAGMA synchronous = NORMAL")
        else:
            connection.execute(f"PRAGMA cache_size = -{_READERS_CACHE}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(url: URL, writes: bool) -> Engine:  # noqa: FBT001  as above
    # A restarted server has closed our connections, so each is tested before use.
    waits = {"connect_timeout": _CONNECT_TIMEOUT, "options": _options(url)}
    if not writes:
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        return create_engine(url, pool_pre_ping=True, connect_args=waits, execution_options=options)
    engine = create_engine(url, pool_pre_ping=True, connect_args=waits)

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(_ONE_WRITER)

    return engine


def _options(url: URL) -> str:
    """Returns the connection options of the URL, with the lock timeout."""
    options = url.query.get("options", "")
    joined = options if isinstance(options, str) else " ".join(options)
    return f"{joined} -clock_timeout={int(_BUSY_TIMEOUT)}s".strip()


_ENGINES: Final[Mapping[str, Callable[[URL, bool], Engine]]] = {"sqlite": _sqlite, "postgresql": _postgresql}


def _prepare(connection: Connection) -> None:
    if inspect(connection).has_table(tables.facts.name):
        _check_version(connection)
        connection.execute(delete(tables.events).where(false()))  # fails at once for a read-only role
        return
    if inspect(connection).get_table_names():
        raise IndexerError(
            f"{_shown(connection.engine.url)} contains tables that are not the index's; give the index a file, database or "
            "schema of its own"
        )
    _complete(connection)
    tables.metadata.create_all(connection)
    # Readers of retry requests remember the highest sequence that they have seen. A rebuilt store must continue above the
    # sequences of an earlier one, so it starts at its creation time in milliseconds.
    first_sequence = int(time.time() * 1000)
    connection.execute(
        insert(tables.facts),
        [
            {"name": "schema_version", "value": tables.SCHEMA_VERSION},
            {"name": "first_sequence", "value": first_sequence},
        ],
    )


def _version(connection: Connection) -> int | None:
    version: int | None = connection.scalar(select(tables.facts.c.value).where(tables.facts.c.name == "schema_version"))
    return version


def _check_is_index(connection: Connection) -> None:
    if not inspect(connection).has_table(tables.facts.name):
        raise NoIndexError(f"{_shown(connection.engine.url)} is not an index's store; `waybill index run` creates one")


def _complete(connection: Connection) -> None:
    """Creates the aggregates that PostgreSQL lacks before version 18, in the store's own schema."""
    if connection.dialect.name != "postgresql" or (connection.dialect.server_version_info or (0,)) >= (18,):
        return
    for name, sign in (("min", "<"), ("max", ">")):
        for statement in _EXTREMES_OF_BYTES:
            connection.execute(text(statement.format(name=name, sign=sign)))


def _check_version(connection: Connection) -> None:
    version = _version(connection)
    if version is not None and version < tables.SCHEMA_VERSION:
        raise StoreVersionError(
            f"{_shown(connection.engine.url)} was written by an older Waybill (version {version} of the index's tables, now "
            f"{tables.SCHEMA_VERSION}): delete it, and the index rebuilds it from the lake and the chains"
        )
    if version != tables.SCHEMA_VERSION:
        raise StoreVersionError(
            f"{_shown(connection.engine.url)} has schema version {version}, but this Waybill reads version "
            f"{tables.SCHEMA_VERSION}: use the version that wrote it, or choose another folder"
        )
