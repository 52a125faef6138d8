"""A relayer killed at any system call that writes, syncs or sends loses nothing, sends nothing twice, leaves no nonce open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bridge.deploy.artifacts import compile_contracts
from bridge.devnet import anvil
from tests import seeds
from tests.anvil.killing.sweep import SHARES, STRATEGIES, Point, kill_at
from tests.anvil.rpc import free_ports
from tests.builders import BETA

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


def drawn_points(count: int) -> list[Point]:
    """Return points that the seed draws, with as many for each share of a transaction."""
    dice = seeds.dice(f"{count} kills")
    calls = [dice.choice(sorted(LATEST)) for _ in range(count)]
    return [
        Point(dice.choice(STRATEGIES), SHARES[number % 2], call, dice.randint(1, LATEST[call]))
        for number, call in enumerate(calls)
    ]


@pytest.mark.parametrize("point", drawn_points(8), ids=str)
def test_kill_at_sampled_points_loses_nothing(point: Point, rpc_url: str) -> None:
    _, complaints = kill_at(point, rpc_url)
    assert complaints == []


@pytest.mark.long
@pytest.mark.parametrize("point", drawn_points(60), ids=str)
def test_kill_at_many_points_loses_nothing(point: Point, rpc_url: str) -> None:
    _, complaints = kill_at(point, rpc_url)
    assert complaints == []
