"""Caches expensive values for a limited time.

Each value has a timestamp, and is computed once for all waiting callers.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")

_REST: Final = 10
"""A value is kept for at least this multiple of its computation time, which limits the load to a tenth of a core."""


@dataclass(frozen=True, slots=True)
class Dated(Generic[_T]):
    """A value with the start time of its computation, which bounds its age."""

    value: _T
    at: float  # Unix seconds


class Cached(Generic[_T]):
    """Computes values in a background thread. Any number of threads may read them."""

    def __init__(
        self,
        compute: Callable[[], _T],
        *,
        lasts: float,
        oldest: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Creates an empty cache.

        Args:
            compute: Computes the value.
            lasts: Minimum time in seconds for which a value is reused.
            oldest: Age in seconds after which a value is no longer returned, even if there is no newer one. At
                least twice `lasts`.
            clock: Current Unix time in seconds.
        """
        self._compute = compute
        self._least = self._lasts = lasts
        self._oldest = oldest
        self._clock = clock
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._running = False
        self._dated: Dated[_T] | None = None
        self._error: Exception | None = None
        self._ended = -math.inf  # end of the last computation, successful or not

    def look(self, patience: float = math.inf) -> Dated[_T] | None:
        """Returns the current value, waiting for at most `patience` seconds.

        Falls back to an older value, then to None.

        Raises:
            Exception: the last computation's error, if no value is recent enough.
        """
        with self._lock:
            now = self._clock()
            is_fresh = 0 <= now - self._ended < self._lasts
            if not is_fresh and not self._running:
                self._done = threading.Event()
                threading.Thread(target=self._run, args=(self._done,), daemon=True, name="cached").start()
                self._running = True  # `_run` takes the lock before it resets this
            done = self._done
        if not is_fresh:
            done.wait(None if patience == math.inf else patience)
        with self._lock:
            dated, error = self._dated, self._error
        if dated is not None and self._clock() - dated.at <= max(self._oldest, 2 * self._lasts):
            return dated
        if error is not None:
            raise error
        return None

    def recent(self, patience: float) -> _T | None:
        """Returns, without waiting, a value that is not older than `oldest`, while a newer value is computed.

        If there is no such value, waits for at most `patience` seconds; see `look`.
        """
        dated = self.look(0) or self.look(patience)
        return dated.value if dated else None

    def _run(self, done: threading.Event) -> None:
        began, started = self._clock(), time.monotonic()
        dated, error = None, None
        try:
            dated = Dated(self._compute(), began)
        except Exception as failed:  # noqa: BLE001  # raised in `look`
            error = failed
        with self._lock:
            self._dated, self._error = dated or self._dated, error
            self._ended = self._clock()
            self._lasts = max(self._least, _REST * (time.monotonic() - started))
            self._running = False
        done.set()


class AsyncCached(Generic[_T]):
    """Computes values in the event loop. A failure is raised in all waiting callers, and is not cached.

    Attributes:
        last: Last computed value, regardless of its age; None before the first.
    """

    def __init__(
        self, compute: Callable[[], Awaitable[_T]], *, lasts: float, clock: Callable[[], float] = time.time
    ) -> None:
        """Creates an empty cache; see `Cached`."""
        self._compute = compute
        self._lasts = lasts
        self._clock = clock
        self.last: Dated[_T] | None = None
        self._running: asyncio.Task[Dated[_T]] | None = None

    async def look(self) -> Dated[_T]:
        """Returns the value, at most `lasts` seconds old.

        Raises:
            Exception: the computation's error.
        """
        if self.last is not None and 0 <= self._clock() - self.last.at < self._lasts:
            return self.last
        if self._running is None:
            self._running = asyncio.create_task(self._run())
            self._running.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # marks the exception as retrieved
        return await asyncio.shield(self._running)  # a cancelled caller must not cancel the others

    async def _run(self) -> Dated[_T]:
        began = self._clock()
        try:
            self.last = Dated(await self._compute(), began)
        finally:
            self._running = None
        return self.last
