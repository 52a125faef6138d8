"""Whatever happens: nothing is lost, nothing is executed twice, and every nonce ends used."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.simulation.chaos import SQUALL_SECONDS, judge_all, play
from tests.simulation.invariants import complaints, deliveries, standing
from tests.support.simulation import run_in_virtual_time

STORMS = range(8)
SQUALLS = range(25, 325)


def check_squalls(seeds: Iterable[int]) -> None:
    """Play short storms and fail with the command that repeats the first one that ended badly."""
    bad = [verdict for verdict in judge_all(seeds, SQUALL_SECONDS) if verdict.complaints]
    assert bad == [], f"python -m scripts.simulate --first {bad[0].seed} --seeds 1"


def check_storm(seed: int) -> None:
    """Play one long storm."""
    history = run_in_virtual_time(play(seed))
    assert standing(history.world), "nothing was sent"
    assert complaints(history) == [], "\n".join(history.events)


def test_squall_executes_every_message_once() -> None:
    check_squalls(SQUALLS[:5])


@pytest.mark.long
def test_hundreds_of_squalls_execute_every_message_once() -> None:
    check_squalls(SQUALLS)


def test_storm_executes_every_message_once() -> None:
    check_storm(STORMS[0])


@pytest.mark.long
@pytest.mark.parametrize("seed", STORMS)
def test_storms_execute_every_message_once(seed: int) -> None:
    check_storm(seed)


@pytest.mark.long
def test_same_seed_gives_the_same_history() -> None:
    first, second = (run_in_virtual_time(play(7)) for _ in range(2))
    assert first.events == second.events
    assert deliveries(first) == deliveries(second)
    assert [chain.height for chain in first.world.chains.values()] == [
        chain.height for chain in second.world.chains.values()
    ]
