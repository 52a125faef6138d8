"""Whatever happens: nothing is lost, nothing is executed twice, and every nonce ends used."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.store import Store, open_dead_letters
from tests.simulation.chaos import SQUALL_SECONDS, judge_all, play
from tests.simulation.invariants import complaints, deliveries, standing
from tests.support.simulation import run_in_virtual_time

SEEDS = 25
SQUALLS = 1000
SEEDS_ON_SQLITE = 3


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_any_storm_every_message_is_executed_once_and_every_nonce_is_used(seed: int) -> None:
    history = run_in_virtual_time(play(seed))
    assert standing(history.world), "nothing was sent"
    assert complaints(history) == [], "\n".join(history.events)


def test_the_same_holds_after_each_of_a_thousand_short_ones() -> None:
    verdicts = list(judge_all(range(SEEDS, SEEDS + SQUALLS), SQUALL_SECONDS))
    assert len(verdicts) == SQUALLS
    bad = [verdict for verdict in verdicts if verdict.complaints]
    assert bad == [], f"python -m scripts.simulate --first {bad[0].seed} --seeds 1"


@pytest.mark.parametrize("seed", range(1000, 1000 + SEEDS_ON_SQLITE))
def test_the_same_holds_on_a_real_database(seed: int, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/bridge.db")
    dead_letters = open_dead_letters(f"sqlite:///{tmp_path}/bridge.db")
    history = run_in_virtual_time(play(seed, store, dead_letters))
    assert complaints(history) == [], "\n".join(history.events)
    dead_letters.close()
    store.close()


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = (run_in_virtual_time(play(7)) for _ in range(2))
    assert first.events == second.events
    assert deliveries(first) == deliveries(second)
    assert [chain.height for chain in first.world.chains.values()] == [
        chain.height for chain in second.world.chains.values()
    ]
