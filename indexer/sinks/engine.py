"""Connections to the operational store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError

from indexer.errors import IndexerError, StoreVersionError
from indexer.sinks import tables

_BUSY_TIMEOUT: Final = 30.0  # seconds to wait for another connection's transaction


def writing_engine(url: str) -> Engine:
    """The store for the one process that writes to it; makes the tables if they are not there.

    Raises:
        StoreVersionError: a newer Waybill wrote it.
        IndexerError: it is no store at all.
    """
    path = make_url(url).database
    if url.startswith("sqlite") and path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    engine = _engine(url, writes=True)
    try:
        with engine.begin() as connection:
            _prepare(connection)
    except DatabaseError as error:
        raise IndexerError(f"{url} can't be used as the index's store: {error.orig}") from error
    return engine


def reading_engine(url: str) -> Engine:
    """The store for those who only read; the writer may be at work.

    Raises:
        StoreVersionError: a newer Waybill wrote it.
        IndexerError: it is not there, or no store at all.
    """
    path = make_url(url).database
    if url.startswith("sqlite") and not (path and Path(path).exists()):
        raise IndexerError(f"there is no index at {path}; `waybill index run` makes it")
    engine = _engine(url, writes=False)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table(tables.facts.name):
                raise IndexerError(f"{url} is not the store of an index")
            _check_version(connection)
    except DatabaseError as error:
        raise IndexerError(f"{url} can't be read as the index's store: {error.orig}") from error
    return engine


def _engine(url: str, *, writes: bool) -> Engine:
    if not url.startswith("sqlite"):
        return create_engine(url)
    engine = create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver's own transactions begin late and lock late; with ours, a writer waits instead of failing half-way.
        connection.isolation_level = None
        if writes:
            connection.execute("PRAGMA journal_mode = WAL")
            # A power cut may take back the last transactions, offsets included: they are read from the chains again.
            connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _prepare(connection: Connection) -> None:
    if inspect(connection).has_table(tables.facts.name):
        _check_version(connection)
        return
    if inspect(connection).get_table_names():
        raise IndexerError(f"{connection.engine.url} holds tables of something else than the index")
    tables.metadata.create_all(connection)
    # Readers of retry requests remember the highest sequence they have seen. A store made anew must go on above what an
    # earlier one has used, so it starts at the time of its making, in milliseconds.
    first_sequence = int(time.time() * 1000)
    connection.execute(
        insert(tables.facts),
        [
            {"name": "schema_version", "value": tables.SCHEMA_VERSION},
            {"name": "first_sequence", "value": first_sequence},
        ],
    )


def _check_version(connection: Connection) -> None:
    version = connection.scalar(select(tables.facts.c.value).where(tables.facts.c.name == "schema_version"))
    if version is not None and version < tables.SCHEMA_VERSION:
        raise StoreVersionError(
            f"{connection.engine.url} was written by an older Waybill (version {version} of the index's tables, now "
            f"{tables.SCHEMA_VERSION}): delete it, and the index makes it anew from the lake and the chains"
        )
    if version != tables.SCHEMA_VERSION:
        raise StoreVersionError(
            f"{connection.engine.url} has version {version} of the index's tables, this Waybill reads version "
            f"{tables.SCHEMA_VERSION}: use the Waybill that wrote it, or another folder"
        )
