"""The pending sync queue and the primary records in the store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.protocol.lanes import Lane
from bridge.protocol.message import Kind
from bridge.records.finality_records import FOLLOWED, Heartbeat, SyncProgress
from bridge.records.jobs import UNRESOLVED, SyncJob, SyncState
from bridge.records.observations import BlockRef
from bridge.store import Store, open_store
from tests.builders import ALPHA, BETA, block, message, observed_range, word

LANE = Lane(ALPHA, BETA)


def three(store: Store) -> None:
    """Two messages of one state change, and one of another kind."""
    sent = [
        message(1, kind=Kind.STATE_SYNC),
        message(1, kind=Kind.STATE_SYNC, destination_chain=BETA + 1),
        message(2, kind=Kind.PLAIN),
    ]
    seen = observed_range(*sent, now=100)
    same = tuple(replace(attempt, transaction_hash=word("one transaction")) for attempt in seen.attempts)
    store.observations.record(replace(seen, attempts=same))


def test_state_changes_are_followed_once_with_all_chains(store: Store) -> None:
    three(store)
    cursor = 0
    for _ in range(2):
        cursor = store.finality_records.collect(FOLLOWED, cursor)
    due = store.jobs.due(SyncJob, 100, 10)
    assert {one.record.destination_chain for one in due} == {BETA, BETA + 1}
    assert len({one.record.change_id for one in due}) == 1
    assert store.jobs.of_change(due[0].record) == sorted(due, key=lambda one: one.record.destination_chain)
    assert store.jobs.newest(SyncJob, message(2).id) is None
    assert due[0].record.final_at == 100
    assert due[0].record.block == block(10)


def test_each_kind_that_changes_state_is_followed_and_no_other(store: Store) -> None:
    sent = [message(int(kind) + 1, kind=kind) for kind in Kind]
    store.observations.record(observed_range(*sent))
    store.finality_records.collect(FOLLOWED, 0)
    followed = {one.message_id for one in store.jobs.due(SyncJob, 1e12, 100)}
    assert {one.kind for one in sent if one.id in followed} == {
        Kind.STATE_SYNC,
        Kind.REGULATORY_ACTION,
        Kind.REGULATORY_ACTION_CRITICAL,
        Kind.LOCK_MANAGEMENT,
        Kind.GOVERNANCE_EXECUTE,
    }


def test_unreadable_message_stops_no_following(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/bridge.db")) as store:
        three(store)
        lost = message(1, kind=Kind.STATE_SYNC).id
        with closing(sqlite3.connect(tmp_path / "bridge.db")) as file, file:
            file.execute("UPDATE messages SET envelope = substr(envelope, 1, 20) WHERE message_id = ?", (lost,))
        store.finality_records.collect(FOLLOWED, 0)
        assert [one.record.destination_chain for one in store.jobs.due(SyncJob, 100, 10)] == [BETA + 1]


def test_reorged_change_is_skipped_until_it_returns(store: Store) -> None:
    three(store)
    store.finality_records.collect(FOLLOWED, 0)
    store.observations.rewind(ALPHA, None, 200)
    assert store.jobs.due(SyncJob, 300, 10) == []
    back = message(1, kind=Kind.STATE_SYNC)
    store.observations.record(observed_range(back, position=block(11, "other")))
    assert [one.record.message_id for one in store.jobs.due(SyncJob, 300, 10)] == [back.id]


@pytest.mark.parametrize(("chain", "state"), [(BETA, "applied"), (BETA, "ended"), (ALPHA, "applied")])
def test_resolved_change_reopens_when_its_block_falls(store: Store, chain: int, state: str) -> None:
    three(store)
    store.finality_records.collect(FOLLOWED, 0)
    for one in store.jobs.due(SyncJob, 100, 10):
        resolved = SyncState.APPLIED if state == "applied" else SyncState.ENDED
        seen = replace(one, seen=BlockRef(7, word("seen")))
        assert store.jobs.save(seen.settled(resolved, "", 160), fence=0)
    store.observations.rewind(chain, block(7) if chain == BETA else block(10), 200)
    assert store.jobs.listed(SyncJob, UNRESOLVED, 100) == [], "the blocks that it rests on stand"
    store.observations.rewind(chain, block(6) if chain == BETA else block(9), 210)
    (changed,) = [one for one in store.jobs.listed(SyncJob, UNRESOLVED, 100) if one.record.lane == LANE]
    assert (changed.state, changed.seen, changed.finished_at, changed.fence) == (SyncState.PENDING, None, None, 2)
    assert changed.available_at == 210
    assert not store.jobs.save(changed.settled(SyncState.APPLIED, "", 211), fence=1), "who looked at it before"


def test_reorged_change_is_no_part_of_the_lag(store: Store) -> None:
    three(store)
    store.finality_records.collect(FOLLOWED, 0)
    store.observations.rewind(ALPHA, None, 200)
    nothing = SyncProgress(primary_final=0, applied=0, lag_seconds=0)
    assert store.finality_records.progress(500)[LANE] == nothing, (
        "its heartbeat says so, instead of what it said before"
    )
    store.observations.record(observed_range(message(1, kind=Kind.STATE_SYNC), position=block(11, "other")))
    assert store.finality_records.progress(500)[LANE].primary_final == 1


def test_progress_counts_final_and_applied(store: Store) -> None:
    three(store)
    store.finality_records.collect(FOLLOWED, 0)
    assert store.finality_records.progress(401)[LANE] == SyncProgress(primary_final=1, applied=0, lag_seconds=301)
    (one,) = [one for one in store.jobs.due(SyncJob, 100, 10) if one.record.lane == LANE]
    held = replace(one.locked(150, 10, 155), seen=BlockRef(7, word("seen")), outcome="…", tries=2)
    assert store.jobs.save(held, fence=0)
    assert store.jobs.newest(SyncJob, one.record.message_id) == held
    assert not store.jobs.save(one, fence=0), "another lock is held by now"
    assert store.jobs.save(held.settled(SyncState.APPLIED, "", 160), fence=1)
    assert store.finality_records.progress(401)[LANE] == SyncProgress(primary_final=1, applied=1, lag_seconds=0)
    assert [one.record.lane for one in store.jobs.listed(SyncJob, UNRESOLVED, 100)] == [Lane(ALPHA, BETA + 1)]


def test_latest_heartbeat_wins_in_any_order(store: Store) -> None:
    def beat(at: float) -> Heartbeat:
        return Heartbeat(lane=LANE, at=at, progress=SyncProgress(primary_final=1, applied=0, lag_seconds=at))

    assert [store.finality_records.beat(beat(at)) for at in (5, 15, 10, 15)] == [True, True, False, False]
    assert store.finality_records.heartbeats() == [beat(15)]
