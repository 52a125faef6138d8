"""Reads the index's retry requests from its database; never writes to it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sqlalchemy import Select, column, create_engine, func, inspect, make_url, select, table
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from bridge.protocol.errors import StoreBusyError
from bridge.protocol.retry_requests import COLUMNS, TABLE, RetryRequest

_REQUESTS = table(TABLE, *(column(name) for name in COLUMNS))
_ANSWER_SECONDS = 5


class IndexRequests:
    """See `bridge.protocol.retry_requests.RetryRequestSource`. Returns no requests while the index does not exist.

    Queries run in a separate thread, so that a database that accepts connections but never responds blocks
    nothing else.
    """

    def __init__(self, url: str, *, answer_seconds: float = _ANSWER_SECONDS) -> None:
        """Creates the reader without connecting; each query opens a connection.

        Args:
            url: URL of the index's store, such as ``sqlite:///index.db``.
            answer_seconds: Timeout of a query in seconds.
        """
        self._answer_seconds = answer_seconds
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="index-requests")
        parsed = make_url(url)
        self._file = None
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            self._file = Path(parsed.database)
            parsed = parsed.set(database=f"file:{self._file}", query={**parsed.query, "mode": "ro", "uri": "true"})
        # Connections are not pooled: one to a file that was deleted and rebuilt would keep reading the old file.
        limits = {"connect_timeout": _ANSWER_SECONDS, "tcp_user_timeout": _ANSWER_SECONDS * 1000}
        is_sqlite = parsed.get_backend_name() == "sqlite"
        self._engine = create_engine(parsed, poolclass=NullPool, connect_args={} if is_sqlite else limits)

    async def requests_after(self, sequence: int, limit: int) -> list[RetryRequest]:
        """Returns the requests with a sequence above `sequence`, in order; empty if there is no index yet."""
        query = select(_REQUESTS).where(_REQUESTS.c.sequence > sequence).order_by(_REQUESTS.c.sequence).limit(limit)
        return [RetryRequest.from_row(row) for row in await self._read(query)]

    async def highest_sequence(self) -> int:
        """Returns the last request's sequence, or 0."""
        found = await self._read(select(func.max(_REQUESTS.c.sequence).label("highest")))
        return (found[0]["highest"] or 0) if found else 0

    async def _read(self, query: Select[Any]) -> list[dict[str, Any]]:
        reading = asyncio.get_running_loop().run_in_executor(self._thread, self._rows, query)
        try:
            # Before Python 3.12, `wait_for` may swallow a cancellation.
            async with asyncio.timeout(self._answer_seconds):
                return await reading
        except TimeoutError as error:
            raise StoreBusyError(f"the index store did not respond within {self._answer_seconds:g} s") from error

    def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        if self._file is not None and not self._file.exists():
            return []
        try:
            with self._engine.connect() as connection:
                if not inspect(connection).has_table(TABLE):
                    return []
                return [dict(row) for row in connection.execute(query).mappings()]
        except OperationalError as error:
            raise StoreBusyError(f"the index store can't be read: {error.orig}") from error
