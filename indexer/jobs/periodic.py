"""Work that a running index does beside its stream, in threads of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Periodic:
    """Runs a task again and again, in one thread: whoever calls `tick` does not wait for it."""

    def __init__(self, name: str, interval: float, task: Callable[[], None]) -> None:
        """Prepares; the first run is due after `interval` seconds, each later one so long after the end of the one before."""
        self._interval = interval
        self._task = task
        self._pool = ThreadPoolExecutor(1, name)
        self._run: Future[None] | None = None
        self._ended_at = time.monotonic()

    def tick(self) -> None:
        """Starts the task if it is due and not running.

        Raises:
            Exception: what the last run raised.
        """
        if self._run is not None:
            if not self._run.done():
                return
            ended, self._run = self._run, None
            self._ended_at = time.monotonic()
            ended.result()
        if time.monotonic() - self._ended_at >= self._interval:
            self._run = self._pool.submit(self._task)

    def close(self) -> None:
        """Waits for the run that is under way."""
        self._pool.shutdown(cancel_futures=True)
