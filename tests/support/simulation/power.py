"""Crashes: a power switch in front of everything that a process can reach."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from bridge.protocol.ports import Chain
from bridge.store import Store


class PowerCut(BaseException):  # not an error: it is what happens to a process
    """The process is gone. No handler for errors may see this, as none would run in a process that was killed."""


class Power:
    """Goes off at some call of the process to the outside world, before or after the call took effect."""

    def __init__(self, draws: int | None = None) -> None:
        """`draws` is how often it can be drawn, twice for each call; None: it stays on until `cut`."""
        self._left = draws
        self.is_on = True
        self.used = 0

    def cut(self) -> None:
        """Ends the process now."""
        self.is_on = False

    def draw(self) -> None:
        """Before a call, and after it.

        Raises:
            PowerCut: the power is off.
        """
        if not self.is_on:
            raise PowerCut
        self.used += 1
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self.is_on = False
                raise PowerCut


class Powered:
    """Anything behind a switch: a chain, a store."""

    def __init__(self, target: Any, power: Power) -> None:
        """Passes everything on to the target while the power is on."""
        self._target = target
        self._power = power

    def __getattr__(self, name: str) -> Any:
        """The target's attribute, behind the switch if it can be called."""
        value = getattr(self._target, name)
        if not callable(value):
            return value
        wrap = _asynchronous if inspect.iscoroutinefunction(value) else _synchronous
        guarded = wrap(value, self._power)
        setattr(self, name, guarded)  # found at once the next time: this is asked thousands of times a second
        return guarded


def _asynchronous(call: Callable[..., Any], power: Power) -> Callable[..., Any]:
    @functools.wraps(call)
    async def guarded(*arguments: Any, **named: Any) -> Any:
        power.draw()
        try:
            return await call(*arguments, **named)
        finally:
            power.draw()  # the call took effect, but the process may not live to see it

    return guarded


def _synchronous(call: Callable[..., Any], power: Power) -> Callable[..., Any]:
    @functools.wraps(call)
    def guarded(*arguments: Any, **named: Any) -> Any:
        power.draw()
        try:
            return call(*arguments, **named)
        finally:
            power.draw()

    return guarded


def powered_store(store: Store, power: Power) -> Store:
    """A store behind a switch."""
    powered: Any = copy.copy(store)
    for name, part in vars(store).items():
        if not name.startswith("_"):
            setattr(powered, name, Powered(part, power))
    return cast(Store, powered)


def powered_chain(chain: Chain, power: Power) -> Chain:
    """A chain behind a switch."""
    return cast(Chain, Powered(chain, power))
