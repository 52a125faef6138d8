"""Backups of the store, which can be taken while relayers run and restored into SQLite or PostgreSQL.

A backup is a SQLite file with the store's own tables, regardless of the database it was taken from.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Connection, func, insert, make_url, select

from bridge.protocol.errors import StoreError
from bridge.store.database import Database, parse_url, sqlite_file
from bridge.store.lock import replacing
from bridge.store.streams import drop_triggers, forget_triggers
from bridge.store.tables import METADATA, schema_version, slots

_CHUNK = 500  # rows


@dataclass(frozen=True, slots=True)
class Copied:
    """The contents of a backup."""

    rows: dict[str, int]  # by table
    accounts: tuple[tuple[int, str], ...]  # (chain id, address) of every account with nonces in it


def back_up(url: str, path: Path) -> Copied:
    """Writes a consistent backup of the store at `url` without blocking relayers.

    Raises:
        StoreError: the file already exists or can't be written, or there is no store at `url`.
        StoreBusyError: the store does not respond.
    """
    if path.exists():
        raise StoreError(f"{path} already exists and was not overwritten: choose another file")
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            _copy_file(sqlite_file(parsed) or Path(), part)
        else:
            _copy_rows(url, part)
        copied = _checked(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.rename(path)
    except (sqlite3.Error, OSError) as error:
        shown = make_url(url).render_as_string(hide_password=True)
        raise StoreError(f"no backup of the store {shown} at {path}: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return copied


def restore(path: Path, url: str, *, replace: bool = False) -> Copied:
    """Restores a backup into the store at `url`, atomically.

    Args:
        path: the backup, which is not modified.
        url: the store, in SQLite or PostgreSQL.
        replace: whether to overwrite the store's contents.

    Raises:
        StoreError: the backup is missing or damaged, or the store is not empty or in use.
        StoreVersionError: a newer version wrote the backup.
        StoreBusyError: the store does not respond.
    """
    if not path.exists():
        raise StoreError(f"no backup at {path}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "backup.db"
        try:
            _copy_file(path, copy)
        except sqlite3.Error as error:
            raise StoreError(
                f"{path} is not a store backup: pass a file written by `waybill store backup` ({error})"
            ) from error
        copied = _checked(copy)
        with (
            replacing(url),
            closing(Database(f"sqlite:///{copy}")) as source,
            closing(Database(url)) as target,
            source.reading() as reading,
            target.transaction(exclusive="schema") as writing,
        ):
            _refuse_to_overwrite(writing, url, replace=replace)
            _fill(reading, writing)
    return copied


def _copy_file(source: Path, target: Path) -> None:
    """Copies a SQLite file with the online backup API.

    The copy is consistent even under concurrent writes, and needs no write-ahead log.
    """
    if not source.exists():
        raise StoreError(f"no store at {source}: start a relayer first, or check the path")
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(target)) as writing,
    ):
        reading.backup(writing)
        writing.execute("PRAGMA journal_mode = DELETE")


def _copy_rows(url: str, target: Path) -> None:
    source, made = Database(url), Database(f"sqlite:///{target}")
    try:
        with source.reading() as reading, made.transaction() as writing:
            _fill(reading, writing)
    finally:
        source.close()
        made.close()
    with closing(sqlite3.connect(target)) as file:
        file.execute("PRAGMA journal_mode = DELETE")


def _fill(reading: Connection, writing: Connection) -> None:
    drop_triggers(writing)
    for table in reversed(METADATA.sorted_tables):
        if table is not schema_version:
            writing.execute(table.delete())
    for table in METADATA.sorted_tables:
        if table is schema_version:
            continue
        for chunk in reading.execute(select(table)).mappings().partitions(_CHUNK):
            writing.execute(insert(table), [dict(row) for row in chunk])
    forget_triggers(writing)
    if writing.dialect.name == "postgresql":
        for sequence, column in _serials(writing):
            following = select(func.coalesce(func.max(column), 0) + 1).scalar_subquery()
            writing.execute(select(func.setval(sequence, following, False)))


def _serials(connection: Connection) -> Iterator[tuple[str, Column[int]]]:
    """Yields each sequence with the column that uses it.

    After a restore they must be advanced, since inserting rows with explicit keys does not do it.
    """
    for table in METADATA.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            query = select(func.pg_get_serial_sequence(table.name, column.name))
            sequence = connection.execute(query).scalar()
            if sequence:
                yield sequence, column


def _refuse_to_overwrite(connection: Connection, url: str, *, replace: bool) -> None:
    shown = make_url(url).render_as_string(hide_password=True)
    if not replace and any(
        connection.execute(select(func.count()).select_from(table)).scalar()
        for table in METADATA.sorted_tables
        if table is not schema_version
    ):
        raise StoreError(f"store {shown} is not empty: add --replace to overwrite its contents")


def _checked(path: Path) -> Copied:
    """Reads and checks the contents of a backup.

    Raises:
        StoreError: the backup is damaged.
    """
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
        problems = _problems(file)
        if problems:
            raise StoreError(f"{path} is damaged: {'; '.join(problems[:3])}")
        present = {row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if schema_version.name not in present:
            raise StoreError(f"{path} is not a store backup: pass a file written by `waybill store backup`")
        counts = {
            table.name: file.execute(str(select(func.count()).select_from(table))).fetchone()[0]
            for table in METADATA.sorted_tables
            if table.name in present and table is not schema_version
        }
        accounts = file.execute(str(select(slots.c.chain_id, slots.c.account).distinct())).fetchall()
    return Copied(counts, tuple((chain_id, account) for chain_id, account in sorted(accounts)))


def _problems(file: sqlite3.Connection) -> list[str]:
    try:
        problems = [row[0] for row in file.execute("PRAGMA integrity_check") if row[0] != "ok"]
        problems += [f"row {row[1]} of {row[0]} refers to nothing" for row in file.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return problems
