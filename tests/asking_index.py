"""An index's database, as far as a relayer reads it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bridge.protocol.gmps import bits_from_gmps
from bridge.protocol.retry_requests import COLUMNS, RetryRequest


def asking_index(path: Path, *requests: RetryRequest) -> sqlite3.Connection:
    """A database as the indexer makes it, with these requests; still open and in WAL mode."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"CREATE TABLE retry_requests ({', '.join(COLUMNS)})")
    for request in requests:
        ask(connection, request)
    return connection


def ask(connection: sqlite3.Connection, request: RetryRequest) -> None:
    """Adds a request."""
    values = {name: getattr(request, name) for name in COLUMNS}
    values["missing_gmps"] = bits_from_gmps(request.missing_gmps)
    values["received_gmps"] = bits_from_gmps(request.received_gmps)
    marks = ", ".join(f":{name}" for name in COLUMNS)
    connection.execute(f"INSERT INTO retry_requests VALUES ({marks})", values)
