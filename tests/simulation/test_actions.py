"""Atomic actions in storms, followed by the production code; and twins of the world in which the same looks find what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from bridge.atomic.records import ActionState, Window
from tests.simulation.chaos import SQUALL_SECONDS, WorldKind, play
from tests.simulation.invariants import complaints
from tests.support.simulation import contracts, run_in_virtual_time
from tests.support.simulation.actions import Atomics, PartRecord

SEEDS = range(6)
TWIN_SEEDS = range(40)


@pytest.mark.long
def test_every_action_ends_the_same_on_all_chains() -> None:
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        history = run_in_virtual_time(play(seed, storm=2 * SQUALL_SECONDS, kind=WorldKind.ACTING))
        assert complaints(history) == [], "\n".join(history.events)
        assert history.watch is not None
        reached.update(history.watch.reached)
    wanted = (ActionState.PREPARING, ActionState.COMMITTING, ActionState.COMMITTED, ActionState.ABORTED)
    assert all(reached[state.name] for state in wanted), reached


@pytest.mark.long
@pytest.mark.parametrize(
    ("twin", "found"),
    [("quorum", "applied|released|lost a lock"), ("lock", "lost a lock"), ("release", "applied here and not there")],
)
def test_the_same_looks_notice_a_world_without_a_check(twin: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _weaken(twin, monkeypatch)
    for seed in TWIN_SEEDS:
        history = run_in_virtual_time(play(seed, storm=2 * SQUALL_SECONDS, kind=WorldKind.ACTING))
        assert history.watch is not None
        if any(re.search(found, complaint) for complaint in history.watch.complaints):
            return
    pytest.fail(f"{len(TWIN_SEEDS)} storms, and nothing was noticed")


def _weaken(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quorum that the liar reaches alone, a lock shorter than the window, or a participant that lets go when its lock has ended."""
    prepare, commit = Atomics._prepare, Atomics._commit
    if twin == "quorum":
        monkeypatch.setattr(contracts, "ACTION_QUORUM", 1)
    elif twin == "lock":

        def hasty(self: Atomics, action_id: bytes, part: PartRecord, window: Window, *rest: Any) -> None:
            prepare(self, action_id, part, replace(window, lock_ttl=5), *rest)

        monkeypatch.setattr(Atomics, "_prepare", hasty)
    else:

        def forgetful(self: Atomics, action_id: bytes, part: PartRecord, change: bytes, now: int) -> None:
            if action_id[-1] % 2 == self.chain_id % 2:
                self._release(action_id, part, now)
            else:
                commit(self, action_id, part, change, now)

        monkeypatch.setattr(Atomics, "_commit", forgetful)
