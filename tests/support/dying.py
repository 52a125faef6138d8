"""A process that kills itself before a step of a given number: so each step can be tried as the last one."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from itertools import count
from typing import Any


def counted_until(dies_at: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes functions count: before each of their calls is a step, and after it. Their process dies before that step."""
    steps = count()

    def step() -> None:
        if next(steps) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            async def awaited(*arguments: Any, **named: Any) -> Any:
                step()
                answer = await function(*arguments, **named)
                step()
                return answer

            return awaited

        def called(*arguments: Any, **named: Any) -> Any:
            step()
            answer = function(*arguments, **named)
            step()
            return answer

        return called

    return counted
