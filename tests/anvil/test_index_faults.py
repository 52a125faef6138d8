"""Endpoints that fail and lie before the index: its tables are the chains' own afterwards, and it does not ask without end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.sources import tail
from indexer.sources.tail import ChainTail
from tests import seeds
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.index_follower import LIMITS, Follower
from tests.spark.chain import anvil_chain
from tests.spark.story import World

pytestmark = pytest.mark.long

NOTICED = (
    FaultProxy.unavailable,
    FaultProxy.reset,
    FaultProxy.limit_exceeded,
    FaultProxy.truncated,
    FaultProxy.stale_head,
    FaultProxy.logs_doubled_and_shuffled,
    FaultProxy.logs_of_another_block,
    FaultProxy.nothing,
    FaultProxy.not_understood,
    FaultProxy.wrong_types,
)
"""What an answer itself tells. Logs that are left out are found by the routers' totals (tests/anvil/test_index_verification.py)."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(tail, "_LOOK_AGAIN_AFTER", 0.05)
    with anvil_chain(31337) as alpha, anvil_chain(31338) as beta:
        yield World(alpha, beta, tmp_path / "index")


@contextmanager
def following_through(world: World, share: float, seed: int) -> Iterator[tuple[Follower, list[FaultProxy]]]:
    """An index that reaches both chains through proxies."""
    proxies = [
        FaultProxy(chain.url, seed + place, share, NOTICED) for place, chain in enumerate((world.alpha, world.beta))
    ]
    urls: list[str] = []
    ready, done = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with proxies[0].serving() as alpha, proxies[1].serving() as beta:
            urls.extend((alpha, beta))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        with Follower(world) as index:
            index.tail.close()
            index._chains = [replace(chain, urls=(url,)) for chain, url in zip(index._chains, urls, strict=True)]
            index.tail = ChainTail(index._chains, LIMITS)
            yield index, proxies
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(10)
        loop.close()


def tell_and_follow(world: World, index: Follower, rounds: int) -> None:
    for number in range(rounds):
        world.tell_a_story()
        index.step()
        if number % 2:
            world.beta.rpc("evm_increaseTime", 1)
            world.beta.rpc("anvil_reorg", 2, [])
        index.step()


def test_tables_are_right_after_a_storm_of_bad_answers(world: World) -> None:
    seed = seeds.dice("bad answers before the index").randrange(2**32)
    with following_through(world, 0.1, seed) as (index, proxies):
        tell_and_follow(world, index, 4)
        index.follow()
        assert sum(sum(proxy.faults.values()) for proxy in proxies) > 3, f"seed {seed}"


def test_endpoint_with_429_is_left_alone_until_it_answers(world: World) -> None:
    with following_through(world, 0.0, 1) as (index, proxies):
        index.follow()
        for proxy in proxies:
            proxy.always = FaultProxy.too_many_requests
        world.tell_a_story()
        for _ in range(6):
            index.step()
        for proxy in proxies:
            proxy.always = None
        index.follow()
