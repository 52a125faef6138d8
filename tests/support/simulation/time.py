"""Time that costs nothing: an event loop that never waits, and jumps to the next thing that is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from tests.support.simulation.power import PowerCut

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

_EPOCH = 1_700_000_000.0  # Unix seconds


_MOST_ROUNDS = 20_000  # of the loop at one moment


class DeadlockError(Exception):
    """Every task waits for another one: nothing will ever happen again."""


class StandstillError(Exception):
    """Something is done again and again without a pause: time will never go on."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop in which an hour passes at once, and everything happens in the same order each time."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        super().__init__(_NeverWaiting(self))

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._elapsed

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> asyncio.Future[_Result]:
        """Runs a function at once: with threads, the order of things would differ each time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001  # a power cut too belongs to the task that asked
            done.set_exception(error)
        return done

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._elapsed += seconds


class _NeverWaiting(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop
        self._rounds = 0  # since time went on last

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise DeadlockError("every task waits for another one")
        self._rounds = self._rounds + 1 if timeout == 0 else 0
        if self._rounds > _MOST_ROUNDS:
            self._rounds = 0  # for the tasks that are cancelled now
            raise StandstillError(f"{_MOST_ROUNDS} rounds at one moment: something is done again without a pause")
        self._loop.advance(timeout)
        return []


class VirtualClock:
    """See `bridge.protocol.ports.Clock`: the time of the loop that runs, as a machine has it whose clock is off."""

    def __init__(self, ahead: float = 0) -> None:
        """`ahead` is by how many seconds; negative: behind."""
        self._ahead = ahead

    def now(self) -> float:
        """Unix seconds."""
        return _EPOCH + asyncio.get_running_loop().time() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """Returns after that many simulated seconds."""
        await asyncio.sleep(seconds)


def run_in_virtual_time(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs a coroutine to its end without waiting."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.get_loop().set_exception_handler(_leave_out_crashes)
        return runner.run(work)


def _leave_out_crashes(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tasks of a process that lost its power end without anybody looking; every other forgotten error is shown."""
    if not isinstance(context.get("exception"), PowerCut):
        loop.default_exception_handler(context)
