"""A lane that is held keeps its entries where they are, until somebody lets it run again."""

from __future__ import annotations

import pytest

from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.records.outbox import OutboxState
from bridge.store import Store
from tests.builders import ALPHA, BETA, message, observed_range

LANE = Lane(ALPHA, BETA)
OTHER = Lane(BETA, ALPHA)


def change(state: LaneState, *, lane: Lane = LANE, reason: str = "because", at: float = 200.0) -> LaneChange:
    return LaneChange(lane=lane, state=state, reason=reason, by="ops", at=at)


def claimable(store: Store, now: float = 300.0) -> int:
    return len(store.outbox.claim(worker="w", destination_chain=BETA, gmps=frozenset(Gmp), limit=10, now=now, lease=10))


@pytest.mark.parametrize("state", [LaneState.PAUSED, LaneState.HALTED])
def test_a_held_lane_gives_out_no_entry_and_loses_none(store: Store, state: LaneState) -> None:
    store.observations.record(observed_range(message()))
    assert store.lanes.change(change(state))
    assert claimable(store) == 0
    (entry,) = store.outbox.entries(message().id)
    assert (entry.state, entry.failed_tries) == (OutboxState.PENDING, 0)
    assert store.lanes.change(change(LaneState.RUNNING))
    assert claimable(store) == 1


def test_another_lane_is_not_affected(store: Store) -> None:
    store.observations.record(observed_range(message()))
    store.lanes.change(change(LaneState.HALTED, lane=OTHER))
    assert store.lanes.state(OTHER) is LaneState.HALTED
    assert store.lanes.state(LANE) is LaneState.RUNNING
    assert claimable(store) == 1


def test_halt_replaces_a_pause_and_not_the_reverse(store: Store) -> None:
    store.lanes.change(change(LaneState.PAUSED))
    assert store.lanes.change(change(LaneState.HALTED, reason="dead letters can't be written"))
    assert not store.lanes.change(change(LaneState.PAUSED))
    (held,) = store.lanes.held()
    assert (held.state, held.reason) == (LaneState.HALTED, "dead letters can't be written")


def test_every_change_is_kept_with_who_made_it_and_why(store: Store) -> None:
    made = [change(LaneState.PAUSED, at=1), change(LaneState.HALTED, at=2), change(LaneState.RUNNING, at=3)]
    for one in made:
        store.lanes.change(one)
    assert not store.lanes.change(change(LaneState.RUNNING, at=4)), "it ran already"
    assert store.lanes.history(LANE) == store.lanes.history() == made
    assert store.lanes.held() == []
