"""Values that take long to compute: kept for a while, computed once for all who wait, and given with the time they are of."""

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
"""A value lasts at least so many times as long as it took: at most a tenth of a core goes into it."""


@dataclass(frozen=True, slots=True)
class Dated(Generic[_T]):
    """A value, and when its computation began: nothing in it is older."""

    value: _T
    at: float  # Unix seconds


class Cached(Generic[_T]):
    """Computed in a thread of its own. All may look at it at the same time, from any thread."""

    def __init__(
        self,
        compute: Callable[[], _T],
        *,
        lasts: float,
        oldest: float = math.inf,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Computes nothing yet.

        Args:
            compute: makes the value.
            lasts: seconds, at least, for which a value is given without computing it again.
            oldest: seconds after which a value is not given any more, even if there is no newer one; twice as long as it
                lasts at least.
            clock: Unix seconds.
        """
        self._compute = compute
        self._least = self._lasts = lasts
        self._oldest = oldest
        self._clock = clock
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._running = False
        self._found: Dated[_T] | None = None
        self._error: Exception | None = None
        self._ended = -math.inf  # when it was last computed, or failed to be

    @property
    def last(self) -> Dated[_T] | None:
        """The value last computed, however old; None before the first."""
        return self._found

    def look(self, patience: float = math.inf) -> Dated[_T] | None:
        """The value, after at most `patience` seconds: the present one, else an older one, else None.

        Raises:
            Exception: what the last computation failed with, if there is no value that is young enough.
        """
        with self._lock:
            now = self._clock()
            is_fresh = 0 <= now - self._ended < self._lasts
            if not is_fresh and not self._running:
                self._done = threading.Event()
                threading.Thread(target=self._run, args=(self._done,), daemon=True, name="cached").start()
                self._running = True  # `_run` waits for the lock before it says that it ended
            done = self._done
        if not is_fresh:
            done.wait(None if patience == math.inf else patience)
        with self._lock:
            found, error = self._found, self._error
        if found is not None and self._clock() - found.at <= max(self._oldest, 2 * self._lasts):
            return found
        if error is not None:
            raise error
        return None

    def _run(self, done: threading.Event) -> None:
        began, started = self._clock(), time.monotonic()
        found, error = None, None
        try:
            found = Dated(self._compute(), began)
        except Exception as failed:  # noqa: BLE001  # raised to those who look
            error = failed
        with self._lock:
            self._found, self._error = found or self._found, error
            self._ended = self._clock()
            self._lasts = max(self._least, _REST * (time.monotonic() - started))
            self._running = False
        done.set()


class AsyncCached(Generic[_T]):
    """Computed in the event loop; a failure is given to all who waited for it, and not kept.

    Attributes:
        last: the value last computed, however old; None before the first.
    """

    def __init__(
        self, compute: Callable[[], Awaitable[_T]], *, lasts: float, clock: Callable[[], float] = time.time
    ) -> None:
        """Computes nothing yet; see `Cached`."""
        self._compute = compute
        self._lasts = lasts
        self._clock = clock
        self.last: Dated[_T] | None = None
        self._running: asyncio.Task[Dated[_T]] | None = None

    async def look(self) -> Dated[_T]:
        """The value, at most as old as it lasts.

        Raises:
            Exception: what the computation failed with.
        """
        if self.last is not None and 0 <= self._clock() - self.last.at < self._lasts:
            return self.last
        if self._running is None:
            self._running = asyncio.create_task(self._run())
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())  # perhaps nobody waits
        return await asyncio.shield(self._running)  # one who goes leaves it to the others

    async def _run(self) -> Dated[_T]:
        began = self._clock()
        try:
            self.last = Dated(await self._compute(), began)
        finally:
            self._running = None
        return self.last
