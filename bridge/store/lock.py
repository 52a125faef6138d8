"""Prevents a restore and a relayer from using a store at the same time.

For SQLite, the lock is on the file `<database>.lock` (with links resolved), and the operating system releases
it when the process ends. A restore also asks SQLite whether any process has the database open, since the lock
file may have been deleted. For PostgreSQL, it is an advisory lock of a dedicated session, which is lost when
the server restarts.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from sqlalchemy import URL, Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from bridge.protocol.errors import StoreBusyError, StoreError
from bridge.store.database import parse_url, sqlite_file

_TAKE_SHARED: Final = text(
    "SELECT pg_try_advisory_lock_shared(hashtextextended(concat(current_schema(), '/relayers'), 0))"
)
_TAKE_ALONE: Final = text("SELECT pg_try_advisory_lock(hashtextextended(concat(current_schema(), '/relayers'), 0))")
_UNLOCK: Final = text("SELECT pg_advisory_unlock_all()")
_HOLDERS: Final = text(
    "SELECT DISTINCT application_name FROM pg_stat_activity JOIN pg_locks USING (pid)"
    " WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted AND ((classid::bigint << 32) | objid::bigint)"
    " = hashtextextended(concat(current_schema(), '/relayers'), 0)"
)


@contextmanager
def working_on(url: str, worker: str) -> Iterator[None]:
    """Holds the shared lock of the store at `url` for a relayer.

    Args:
        url: URL of the store.
        worker: the relayer's name, shown in the error when a restore is rejected.

    Raises:
        StoreError: the store is being restored.
        StoreBusyError: the database does not respond.
    """
    with closing(_lock_of(url, worker)) as lock:
        lock.take(exclusive=False)
        yield


@contextmanager
def replacing(url: str) -> Iterator[None]:
    """Holds the exclusive lock of the store at `url`.

    Raises:
        StoreError: a relayer uses the store, or another restore is in progress.
        StoreBusyError: the database does not respond.
    """
    with closing(_lock_of(url, "waybill store restore")) as lock:
        lock.take(exclusive=True)
        yield


def _lock_of(url: str, holder: str) -> _FileLock | _SessionLock:
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _FileLock(parsed, holder)
    return _SessionLock(parsed, holder)


class _FileLock:
    def __init__(self, url: URL, holder: str) -> None:
        self._shown = url.render_as_string()
        self._holder = holder
        database = sqlite_file(url)
        if database is None:
            raise StoreError(f"store {self._shown} is in memory, which can't be locked: use a file")
        self._database = database
        path = database.with_name(f"{database.name}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+")
        except OSError as error:
            raise StoreError(f"store {self._shown}: {error}") from error

    def take(self, *, exclusive: bool) -> None:
        try:
            fcntl.flock(self._file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            raise _taken(self._shown, self._file.read().strip(), exclusive=exclusive) from None
        if exclusive:
            self._refuse_connections()
        self._file.truncate(0)
        self._file.write(self._holder)
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _refuse_connections(self) -> None:
        """Checks with SQLite's own lock that no process has the database open, in case the lock file was deleted."""
        if not self._database.exists():
            return
        with closing(sqlite3.connect(self._database, timeout=1)) as connection:
            try:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise StoreError(
                        f"another process has the store {self._shown} open: stop relayers and `waybill web` first"
                    ) from error


class _SessionLock:
    def __init__(self, url: URL, holder: str) -> None:
        self._shown = url.render_as_string()
        self._engine = create_engine(
            url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            connect_args={"connect_timeout": 5, "application_name": holder[:63]},
        )
        self._session: Connection | None = None
        self._is_exclusive = False

    def take(self, *, exclusive: bool) -> None:
        try:
            self._session = self._engine.connect()
            taken = self._session.execute(_TAKE_ALONE if exclusive else _TAKE_SHARED).scalar()
            holders = [] if taken else list(self._session.execute(_HOLDERS).scalars())
        except DBAPIError as error:
            raise StoreBusyError(f"store {self._shown}: {' '.join(str(error.orig).split())}") from error
        if not taken:
            raise _taken(self._shown, ", ".join(holders), exclusive=exclusive)
        self._is_exclusive = exclusive

    def close(self) -> None:
        if self._session is not None:
            if self._is_exclusive:  # the server frees the lock of a session that just ended a moment later
                with suppress(DBAPIError):
                    self._session.execute(_UNLOCK)
            self._session.invalidate()
            self._session.close()
            self._session = None


def _taken(store: str, holder: str, *, exclusive: bool) -> StoreError:
    if not exclusive:
        return StoreError(f"store {store} is being restored: start the relayer once the restore has finished")
    return StoreError(f"{holder or 'another restore'} is using the store {store}: stop it first")
