"""Background work of the running index, in its own threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Periodic:
    """Runs a task repeatedly in a thread of its own. `tick` does not wait for the task."""

    def __init__(self, name: str, interval: float, task: Callable[[], None]) -> None:
        """Schedules the first run in `interval` seconds.

        Each later run starts `interval` seconds after the previous one has ended.
        """
        self._interval = interval
        self._task = task
        self._pool = ThreadPoolExecutor(1, name)
        self._run: Future[None] | None = None
        self._ended_at = time.monotonic()

    def tick(self) -> None:
        """Starts the task if it is due and not running.

        Raises:
            Exception: the exception that the last run raised.
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
        """Waits for a run in progress."""
        self._pool.shutdown(cancel_futures=True)
