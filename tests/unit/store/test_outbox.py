from __future__ import annotations

import pytest

from bridge.protocol.failures import Failure, FailureKind, SnapshotLine
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.records.outbox import (
    Dead,
    Delivered,
    ForbiddenTransitionError,
    ObservedDelivery,
    OutboxEntry,
    OutboxState,
    Outcome,
    TryAgain,
    delivery_of,
)
from bridge.records.relay_policy import RelayPolicy
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word

NOW = 1_000.0
LEASE = 30.0
SLIP = (SnapshotLine(event_id="e", state="CLAIMED", failed_tries=1, last_error=None),)


@pytest.fixture(autouse=True)
def three_messages(store: Store) -> None:
    store.observations.record(observed_range(message(1), message(2), message(3), now=100))


def claim(
    store: Store, worker: str = "w", *, limit: int = 1, now: float = NOW, gmps: set[Gmp] | None = None
) -> list[OutboxEntry]:
    return store.outbox.claim(
        worker=worker,
        destination_chain=BETA,
        gmps=set(Gmp) if gmps is None else gmps,
        limit=limit,
        now=now,
        lease=LEASE,
    )


def failure(at: float = NOW, kind: FailureKind = FailureKind.TRANSIENT) -> Failure:
    return Failure(at=at, kind=kind, code="TransientError", message="no answer", delivery_snapshot=SLIP)


def delivery() -> ObservedDelivery:
    return ObservedDelivery(block(77, "destination"), word("delivery"))


def current(store: Store, entry: OutboxEntry) -> OutboxEntry:
    found = store.outbox.entry(entry.event_id)
    assert found is not None
    return found


def test_gmp_fails_while_a_failed_entry_is_open(store: Store) -> None:
    (first,) = claim(store)
    assert store.outbox.failing(ALPHA, BETA) == frozenset()
    store.outbox.finish([TryAgain(first.current_claim, failure(), NOW)], NOW)
    assert store.outbox.failing(ALPHA, BETA) == {first.dispatch.gmp}
    assert store.outbox.failing(BETA, ALPHA) == frozenset()
    again = next(entry for entry in claim(store, limit=3) if entry.event_id == first.event_id)
    store.outbox.finish([Delivered(again.current_claim, delivery())], NOW)
    assert store.outbox.failing(ALPHA, BETA) == frozenset()


def test_failed_try_waits_with_its_error(store: Store) -> None:
    (entry,) = claim(store)
    assert store.outbox.finish([TryAgain(entry.current_claim, failure(), NOW + 5)], NOW) == set()
    after = current(store, entry)
    assert (after.state, after.failed_tries, after.last_error) == (OutboxState.PENDING, 1, "no answer")
    assert (after.claimed_at, after.claimed_by, after.lease_until) == (None, None, None)
    assert after.available_at == NOW + 5
    assert entry.event_id not in {one.event_id for one in claim(store, limit=9, now=NOW + 4.9)}
    assert [one.event_id for one in claim(store, limit=9, now=NOW + 5)] == [entry.event_id]


def test_a_dead_entry_is_kept_and_never_claimed_again(store: Store) -> None:
    (entry,) = claim(store)
    store.outbox.finish([Dead(entry.current_claim, failure(kind=FailureKind.TERMINAL))], NOW)
    assert current(store, entry).state is OutboxState.DEAD
    store.observations.record(observed_range(message(1), previous=block(10), position=block(11), now=NOW))
    assert current(store, entry).state is OutboxState.DEAD, "its dispatch was only seen again"
    assert current(store, entry) in store.outbox.listed(limit=9), "an operator looks at it"
    assert entry.event_id not in {one.event_id for one in claim(store, limit=9, now=NOW + 1e9)}


def test_each_failure_stays_in_the_history_in_order(store: Store) -> None:
    (entry,) = claim(store, limit=1)
    store.outbox.finish([TryAgain(entry.current_claim, failure(NOW), NOW)], NOW)
    (again,) = [one for one in claim(store, "v", limit=9) if one.event_id == entry.event_id]
    store.outbox.finish([Dead(again.current_claim, failure(NOW + 9, FailureKind.TERMINAL))], NOW + 9)
    history = store.outbox.failures(entry.event_id)
    assert [(one.number, one.worker, one.failure.at, one.failure.kind) for one in history] == [
        (1, "w", NOW, FailureKind.TRANSIENT),
        (2, "v", NOW + 9, FailureKind.TERMINAL),
    ]


@pytest.mark.parametrize("how", ["delivered", "retry", "dead"])
def test_a_worker_that_lost_its_lease_changes_nothing(store: Store, how: str) -> None:
    (entry,) = claim(store, "first")
    claim(store, "second", limit=9, now=NOW + LEASE)
    before = current(store, entry)
    stale = entry.current_claim
    outcomes: dict[str, Outcome] = {
        "delivered": Delivered(stale, delivery()),
        "retry": TryAgain(stale, failure(), NOW),
        "dead": Dead(stale, failure()),
    }
    assert store.outbox.finish([outcomes[how]], NOW + LEASE) == {stale}
    assert current(store, entry) == before


@pytest.mark.parametrize("ended", [OutboxState.DEAD, OutboxState.DELIVERED])
def test_replayed_entry_has_all_its_tries(store: Store, ended: OutboxState) -> None:
    (entry,) = claim(store)
    held = entry.current_claim
    store.outbox.finish([Dead(held, failure()) if ended is OutboxState.DEAD else Delivered(held, delivery())], NOW)
    replayed = store.outbox.replay(entry.event_id, "by hand", NOW + 1)
    assert replayed == current(store, entry)
    assert (replayed.state, replayed.failed_tries, replayed.available_at) == (OutboxState.PENDING, 0, NOW + 1)
    assert (replayed.delivered_at, replayed.delivery, replayed.last_error) == (None, None, "by hand")
    assert entry.event_id in {one.event_id for one in claim(store, limit=9, now=NOW + 1)}


def test_pending_and_claimed_entries_can_not_be_replayed(store: Store) -> None:
    first, _ = claim(store, limit=2)
    with pytest.raises(ForbiddenTransitionError):
        store.outbox.replay(first.event_id, "by hand", NOW)
    pending = store.outbox.listed(state=OutboxState.PENDING)[0]
    with pytest.raises(ForbiddenTransitionError):
        store.outbox.replay(pending.event_id, "by hand", NOW)
    with pytest.raises(KeyError):
        store.outbox.replay("no such entry", "by hand", NOW)
    assert current(store, first) == first


def test_confirmations_come_in_block_order(store: Store) -> None:
    first, second, _ = claim(store, limit=3)
    store.outbox.finish([Delivered(first.current_claim, ObservedDelivery(block(9), None))], NOW)
    store.outbox.finish([Delivered(second.current_claim, ObservedDelivery(block(7), word("tx")))], NOW)
    waiting = [(block(7), [second.event_id]), (block(9), [first.event_id])]
    assert list(store.outbox.unconfirmed(BETA).items()) == waiting
    assert delivery_of(first.event_id) == (first.dispatch.message_id, first.dispatch.gmp)

    store.outbox.confirm([second.event_id], NOW + 9)
    assert store.outbox.unconfirmed(BETA) == {block(9): [first.event_id]}
    assert current(store, second).confirmed_at == NOW + 9

    store.outbox.repin(first.event_id, ObservedDelivery(block(10, "fork"), None))
    assert current(store, first).delivery == ObservedDelivery(block(10, "fork"), None)
    assert current(store, second).delivery == ObservedDelivery(block(7), word("tx"))


def test_counts_say_how_many_wait_fail_and_since_when(store: Store) -> None:
    (entry,) = claim(store)
    store.outbox.finish([TryAgain(entry.current_claim, failure(), NOW)], NOW)
    claim(store, limit=1, now=NOW - 1)
    store.observations.record(observed_range(message(4), previous=block(10), position=block(11), now=300))
    found = {count.state: (count.count, count.failing, count.oldest, count.gmp) for count in store.outbox.counts()}
    assert found == {
        OutboxState.PENDING: (3, 1, 100, Gmp.HYPERLANE),
        OutboxState.CLAIMED: (1, 0, 100, Gmp.HYPERLANE),
    }


@pytest.mark.parametrize(
    ("accepts", "taken"),
    [
        (RelayPolicy(), 3),
        (RelayPolicy(withheld_sources=frozenset({ALPHA})), 0),
        (RelayPolicy(senders=frozenset({message(1).sender})), 3),
        (RelayPolicy(senders=frozenset({bytes(32)})), 0),
        (RelayPolicy(withheld_senders=frozenset({message(1).sender})), 0),
        (RelayPolicy(kinds=frozenset({Kind.PLAIN})), 3),
        (RelayPolicy(kinds=frozenset({Kind.QUERY})), 0),
    ],
)
def test_only_messages_that_are_accepted_are_given_out(store: Store, accepts: RelayPolicy, taken: int) -> None:
    given = store.outbox.claim(
        worker="w", destination_chain=BETA, gmps=set(Gmp), accepts=accepts, limit=9, now=NOW, lease=LEASE
    )
    assert len(given) == taken
    assert len(claim(store, limit=9)) == 3 - taken


def test_ordered_claims_give_one_entry_per_key(store: Store) -> None:
    def claim_in_order(now: float = NOW) -> list[bytes]:
        claimed = store.outbox.claim(
            worker="w", destination_chain=BETA, gmps=set(Gmp), limit=9, now=now, lease=LEASE, in_order=True
        )
        return [entry.dispatch.message_id for entry in claimed]

    store.observations.record(
        observed_range(message(4), previous=block(10), position=block(11), gmps=(Gmp.AXELAR,), now=100)
    )
    assert claim_in_order() == [message(1).id, message(4).id]  # two GMPs, two keys
    assert claim_in_order() == []
    (first,) = store.outbox.entries(message(1).id)
    store.outbox.finish([TryAgain(first.current_claim, failure(), NOW + 5)], NOW)
    assert claim_in_order() == [], "those behind a failing entry wait"
    assert claim_in_order(NOW + 5) == [message(1).id]
    (first,) = store.outbox.entries(message(1).id)
    store.outbox.finish([Dead(first.current_claim, failure())], NOW)
    assert claim_in_order(NOW + 5) == [message(2).id], "a dead one lets them go on"


def test_final_deliveries_are_forgotten_in_small_steps(store: Store) -> None:
    first, second, third = claim(store, limit=3)
    store.outbox.finish([TryAgain(first.current_claim, failure(), NOW)], NOW)
    (first,) = claim(store)
    store.outbox.finish([Delivered(one.current_claim, delivery()) for one in (first, second, third)], NOW)
    store.outbox.confirm([first.event_id], NOW + 1)
    store.outbox.confirm([second.event_id], NOW + 2)
    assert store.outbox.forget(NOW + 1, 9) == 0
    assert store.outbox.forget(NOW + 9, 1) == 1
    assert store.outbox.entry(first.event_id) is None
    assert store.outbox.failures(first.event_id) == []
    assert store.outbox.forget(NOW + 9, 9) == 1
    assert [one.event_id for one in store.outbox.listed()] == [third.event_id]
    assert store.observations.message(first.dispatch.message_id) is not None


def test_entry_content_never_changes(store: Store) -> None:
    def identity(entry: OutboxEntry) -> tuple[object, ...]:
        return (entry.event_id, entry.attempt_number, entry.kind, entry.ordering_key, entry.created_at, entry.dispatch)

    (entry,) = claim(store)
    before = identity(entry)
    store.outbox.finish([TryAgain(entry.current_claim, failure(), NOW)], NOW)
    assert identity(current(store, entry)) == before
    again = next(one for one in claim(store, "v", limit=9) if one.event_id == entry.event_id)
    store.outbox.finish([Delivered(again.current_claim, delivery())], NOW)
    assert identity(current(store, entry)) == before
    store.observations.record(observed_range(message(1), previous=block(10), position=block(11), now=NOW))
    seen_again = current(store, entry)
    assert (seen_again.created_at, seen_again.ordering_key) == (before[4], before[3])
    assert seen_again.dispatch.envelope == entry.dispatch.envelope
    assert identity(store.outbox.replay(entry.event_id, "by hand", NOW)) == identity(seen_again)
    assert identity(current(store, entry)) == identity(seen_again)


def test_message_counts_as_seen_until_forgotten(store: Store) -> None:
    before, twice = store.outbox.seen(), message(9)
    both = observed_range(twice, previous=block(10), position=block(11), gmps=(Gmp.HYPERLANE, Gmp.AXELAR))
    store.observations.record(both)
    assert store.outbox.seen() == before + 1
    claimed = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=10, now=10**10, lease=15)
    for entry, left in zip([one for one in claimed if one.dispatch.message_id == twice.id], (1, 0), strict=True):
        store.outbox.finish([Delivered(entry.current_claim, ObservedDelivery(block(7, "beta"), word("tx")))], 50)
        store.outbox.confirm([entry.event_id], 50)
        assert store.outbox.forget(60, 10) == 1
        assert store.outbox.seen() == before + left
