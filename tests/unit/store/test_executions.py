"""What was delivered and is not known to be executed is waited for, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane
from bridge.records.jobs import FIRST_LOOK, ExecutionJob, ExecutionState
from bridge.records.outbox import Delivered, ObservedDelivery, OutboxEntry
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word

LANE = Lane(ALPHA, BETA)
DELIVERY = ObservedDelivery(block(7, "beta"), word("delivery"))


def two_gmps(store: Store, *nonces: int) -> list[OutboxEntry]:
    """A message for each nonce, taken by two GMPs, claimed."""
    store.observations.record(
        observed_range(*(message(nonce) for nonce in nonces), gmps=(Gmp.HYPERLANE, Gmp.AXELAR), now=100)
    )
    return store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=99, now=100, lease=60)


def deliver(store: Store, entry: OutboxEntry, now: float, *, executed: bool) -> None:
    assert not store.outbox.finish([Delivered(entry.current_claim, DELIVERY, executed)], now)


def awaited(store: Store, nonce: int = 1) -> ExecutionJob:
    found = store.jobs.newest(ExecutionJob, message(nonce).id)
    assert found is not None
    return found


def test_unexecuted_delivery_is_awaited(store: Store) -> None:
    first, second = two_gmps(store, 1)
    deliver(store, first, 110, executed=False)
    one = awaited(store)
    assert (one.state, one.lane, one.since, one.available_at) == (ExecutionState.WAITING, LANE, 110, 110 + FIRST_LOOK)
    assert store.jobs.due(ExecutionJob, 110 + FIRST_LOOK - 1, 9) == []
    assert store.jobs.due(ExecutionJob, 110 + FIRST_LOOK, 9) == [one]
    deliver(store, second, 112, executed=True)
    assert store.jobs.due(ExecutionJob, 1000, 9) == []
    assert store.jobs.counts(ExecutionJob) == {LANE: {ExecutionState.ENDED: 1}}
    assert not store.jobs.save(one.rescheduled("late", 0, state=ExecutionState.REFUSED), fence=one.fence), (
        "it looked before"
    )


def test_further_unexecuted_delivery_is_checked_soon(store: Store) -> None:
    first, second = two_gmps(store, 1)
    deliver(store, first, 110, executed=False)
    one = awaited(store)
    assert store.jobs.save(one.rescheduled("1 of 2", 9_000), fence=one.fence)
    deliver(store, second, 200, executed=False)
    again = awaited(store)
    assert (again.since, again.available_at, again.outcome, again.fence) == (
        110,
        200 + FIRST_LOOK,
        "1 of 2",
        one.fence + 1,
    )


def test_ended_execution_reopens_with_a_redelivery(store: Store) -> None:
    first, second = two_gmps(store, 1)
    deliver(store, first, 110, executed=False)
    one = awaited(store)
    seen = replace(one.settled(ExecutionState.EXECUTED, "done", 120), was_sent=True, round=2, seen=block(9))
    assert store.jobs.save(seen, fence=one.fence)
    deliver(store, second, 200, executed=False)
    again = awaited(store)
    assert (again.state, again.since, again.seen) == (ExecutionState.WAITING, 200, None)
    assert (again.was_sent, again.round) == (True, 2), "the ledger knows what its transaction came to"


def test_whoever_lost_the_lock_writes_nothing(store: Store) -> None:
    (entry, _) = two_gmps(store, 1)
    deliver(store, entry, 110, executed=False)
    one = awaited(store)
    assert store.jobs.save(one.locked(500), fence=one.fence)
    assert not store.jobs.save(one.locked(500), fence=one.fence)
    held = awaited(store)
    assert (held.state, held.was_sent, held.available_at) == (ExecutionState.SENT, True, 500)


@pytest.mark.parametrize("state", sorted(ExecutionState))
def test_end_in_a_fallen_block_is_checked_again(store: Store, state: ExecutionState) -> None:
    (entry, _) = two_gmps(store, 1)
    deliver(store, entry, 110, executed=False)
    one = awaited(store)
    ends = state in (ExecutionState.EXECUTED, ExecutionState.ENDED)
    found = one.rescheduled("", 9_000, state=state, seen=block(7), finished_at=150 if ends else None)
    assert store.jobs.save(found, fence=one.fence)
    store.observations.rewind(BETA, block(7), 200)
    assert awaited(store).available_at == 9_000, "the block stands"
    store.observations.rewind(BETA, block(6), 210)
    again = awaited(store)
    expected = ExecutionState.WAITING if ends else state
    assert (again.state, again.seen, again.available_at, again.fence) == (expected, None, 210, one.fence + 1)
    assert again.finished_at is None


def test_executable_message_is_noted_if_observed(store: Store) -> None:
    two_gmps(store, 1)
    store.jobs.await_execution(message(1).id, 300)
    store.jobs.await_execution(message(2).id, 300)
    assert [one.message_id for one in store.jobs.due(ExecutionJob, 300 + FIRST_LOOK, 9)] == [message(1).id]


def test_ended_executions_are_forgotten_with_deliveries(store: Store) -> None:
    for entry in two_gmps(store, 1, 2):
        deliver(store, entry, 110, executed=False)
    ended = awaited(store, 1)
    assert store.jobs.save(ended.settled(ExecutionState.ENDED, "", 0), fence=ended.fence)
    store.outbox.confirm([entry.event_id for entry in store.outbox.listed()], 120)
    assert store.outbox.forget(1_000, 99) == 4
    assert store.jobs.newest(ExecutionJob, message(1).id) is None
    assert awaited(store, 2).state is ExecutionState.WAITING
