"""Cached values: computed once for all who wait, and never shown as newer than they are."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bridge.evm.ttl_cache import AsyncCached, Cached, Dated
from tests.waiting import PATIENCE


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return self.now


class Figure:
    """Something that takes until it may."""

    def __init__(self) -> None:
        self.value = 1
        self.computed = 0
        self.error: Exception | None = None
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self) -> int:
        self.computed += 1
        self.may_end.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return self.value


def test_failure_is_raised_once_and_not_repeated_at_once() -> None:
    figure, clock = Figure(), Clock()
    cached = Cached(figure, lasts=2, oldest=60, clock=clock)
    cached.look()
    figure.error = ValueError("the store is away")
    clock.now = 1_030
    assert cached.look() == Dated(1, 1_000)
    clock.now = 1_031
    assert cached.look() == Dated(1, 1_000)
    assert figure.computed == 2, "a store that is away is not asked by each page"
    clock.now = 1_100
    with pytest.raises(ValueError, match="away"):
        cached.look()


async def test_in_the_event_loop_one_who_goes_leaves_it_to_the_others() -> None:
    computed, may_end = 0, asyncio.Event()

    async def compute() -> int:
        nonlocal computed
        computed += 1
        await may_end.wait()
        return computed

    cached = AsyncCached(compute, lasts=60)
    looking = [asyncio.create_task(cached.look()) for _ in range(5)]
    await asyncio.sleep(0)
    looking[0].cancel()
    await asyncio.sleep(0)
    may_end.set()
    assert {(await one).value for one in looking[1:]} == {1}
    assert (await cached.look()).value == computed == 1
