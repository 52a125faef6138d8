"""Supervises loops that must survive errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from bridge.protocol.backoff import backoff
from bridge.protocol.errors import StoreError
from bridge.protocol.ports import TerminalError, TransientError

_log = structlog.get_logger(__name__)

_LONGEST_PAUSE: Final = 30.0  # seconds


class Wakeup:
    """Wakes up a waiting loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Ends the loop's current or next wait."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Waits for a wakeup, for at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()


class _Failures:
    """Counts a step's failures since its last success. A repeated error is logged only once."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._count = 0
        self._last = ""

    def add(self, error: Exception) -> None:
        self._count += 1
        if str(error) == self._last:
            return
        self._last = str(error)
        if isinstance(error, TransientError | TerminalError | StoreError):
            _log.warning("step failed, will be retried", step=self._step, error=str(error))
        else:
            _log.error("step failed unexpectedly, will be retried", step=self._step, exc_info=error)

    def end(self) -> None:
        if self._count:
            _log.info("step recovered", step=self._step, failures=self._count)
        self._count, self._last = 0, ""

    def pause(self, every: float) -> float:
        return backoff(every, self._count, cap=max(every, _LONGEST_PAUSE))


async def run_forever(
    name: str,
    step: Callable[[], Awaitable[bool]],
    *,
    every: float | Callable[[], float],
    wakeup: Wakeup | None = None,
) -> None:
    """Repeats a step forever: immediately if it reports more work, otherwise after `every` seconds.

    A step must continue from the stored state, so that it can be repeated after any error. After an error,
    pauses grow until the step succeeds again.
    """
    signal, failures = wakeup or Wakeup(), _Failures(name)
    while True:
        try:
            has_more = await step()
        except Exception as error:  # noqa: BLE001  # a loop must not end
            failures.add(error)
        else:
            failures.end()
            if has_more:
                await asyncio.sleep(0)
                continue
        await signal.wait(failures.pause(every() if callable(every) else every))


async def retry_until_success(name: str, step: Callable[[], Awaitable[None]], *, every: float) -> None:
    """Repeats a step until it succeeds. Transient errors are retried; any other error is raised."""
    failures = _Failures(name)
    while True:
        try:
            await step()
        except TransientError as error:
            failures.add(error)
        else:
            failures.end()
            return
        await asyncio.sleep(failures.pause(every))
