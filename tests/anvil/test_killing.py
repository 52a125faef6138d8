"""A relayer killed at any system call that writes, syncs or sends loses nothing, sends nothing twice, leaves no nonce open."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.deploy.artifacts import compile_contracts
from bridge.devnet import anvil
from tests import seeds
from tests.anvil.killing.sweep import SHARES, STRATEGIES, Point, all_points, kill_at
from tests.anvil.rpc import free_ports
from tests.builders import BETA

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 8
FEWEST = 500
LATEST = {"pwrite64": 60, "fdatasync": 20, "sendto": 25, "openat": 8, "write": 6, "unlink": 3}


@pytest.fixture(scope="module")
def rpc_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A chain that makes a block for each transaction."""
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("anvil") / "log"
    asyncio.run(
        compile_contracts()
    )  # the contract through which deliveries share transactions is among what it compiles
    process = anvil.start(name="beta", chain_id=BETA, port=port, log=log)
    yield process.url
    anvil.stop([process])


def sample() -> list[Point]:
    """Other points with every commit, the same ones for the same commit."""
    dice = seeds.dice("kill")
    calls = [dice.choice(sorted(LATEST)) for _ in range(SAMPLE)]
    return [
        Point(dice.choice(STRATEGIES), SHARES[number % 2], call, dice.randint(1, LATEST[call]))
        for number, call in enumerate(calls)
    ]


@pytest.mark.parametrize("point", sample(), ids=str)
def test_kill_at_sampled_points_loses_nothing(point: Point, rpc_url: str) -> None:
    _, complaints = kill_at(point, rpc_url)
    assert complaints == []


@pytest.mark.long
@pytest.mark.timeout(3 * 3600)
def test_a_life_killed_at_every_point_is_made_good_by_the_next(rpc_url: str) -> None:
    results = ROOT / "build" / "kill-sweep.json"
    counts: Counter[str] = Counter()
    wrong: dict[str, list[str]] = {}
    for point, complaints in all_points(rpc_url):
        counts[f"{point.strategy} {point.max_calls_per_tx} {point.system_call}"] += 1
        if complaints:
            wrong[str(point)] = complaints
        if counts.total() % 25 == 0:
            print(f"{counts.total()} points, {len(wrong)} wrong, now at {point}", flush=True)
        results.parent.mkdir(exist_ok=True)
        results.write_text(json.dumps({"points": counts.total(), "by_call": counts, "wrong": wrong}, indent=2))
    assert wrong == {}
    assert counts.total() >= FEWEST
