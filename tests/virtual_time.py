"""Tests that live through hours at once."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

from tests.support.simulation import SimulatedRelayer, run_in_virtual_time

_Parameters = ParamSpec("_Parameters")


def in_virtual_time(test: Callable[_Parameters, Awaitable[None]]) -> Callable[_Parameters, None]:
    """Runs a test's coroutine in a loop that never waits."""

    @functools.wraps(test)
    def run(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> None:
        async def body() -> None:
            async with asyncio.timeout(100_000):
                await test(*arguments, **named)

        run_in_virtual_time(body())

    return run


@asynccontextmanager
async def running(bridge: SimulatedRelayer) -> AsyncIterator[SimulatedRelayer]:
    """A bridge that works in the background until the block ends; then it is stopped as by SIGTERM."""
    task = asyncio.create_task(bridge.run())
    try:
        yield bridge
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def crash(bridge: SimulatedRelayer, task: asyncio.Task[Any]) -> None:
    """Ends a bridge as SIGKILL would."""
    bridge.power.cut()
    await asyncio.wait_for(task, timeout=60)


async def until(
    condition: Callable[[], bool], *, seconds: float = 300, what: str = "the condition", every: float = 0.5
) -> None:
    """Waits for something, in virtual time; a look each `every` seconds, since one may cost more than all that happens."""
    for _ in range(int(seconds / every)):
        if condition():
            return
        await asyncio.sleep(every)
    raise AssertionError(f"{what} did not hold within {seconds} s")
