"""Waits for events in another thread, task or process, on a machine of any speed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

PATIENCE: Final = 300.0
"""Seconds after which a wait gives up. A condition that holds ends it at once, so that only failures take that long."""

_PAUSE: Final = 0.02  # seconds between two looks

_Value = TypeVar("_Value")


def eventually(condition: Callable[[], _Value], what: str | Callable[[], str] = "the condition") -> _Value:
    """Waits until a condition holds, and returns its value.

    Args:
        condition: is asked again and again, and holds once its value is true.
        what: names it, or says how things are, in the failure.
    """
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, _failure(what)
        time.sleep(_PAUSE)
    return value


async def eventually_true(condition: Callable[[], object], what: str | Callable[[], str] = "the condition") -> None:
    """Waits as `eventually` does, and lets the event loop run meanwhile."""

    async def answer() -> object:
        return condition()

    await eventually_answered(answer, what)


async def eventually_answered(
    condition: Callable[[], Awaitable[object]], what: str | Callable[[], str] = "the condition"
) -> None:
    """Waits as `eventually_true` does, for a condition that has to be awaited."""
    deadline = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < deadline, _failure(what)
        await asyncio.sleep(_PAUSE)


def _failure(what: str | Callable[[], str]) -> str:
    return f"did not hold within {PATIENCE:g} s: {what if isinstance(what, str) else what()}"
