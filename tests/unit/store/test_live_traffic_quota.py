"""However many entries of a lane are old or failing, what is new gets its places, and they keep theirs."""

from __future__ import annotations

import pytest

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.records.outbox import LiveTrafficQuota, OutboxEntry, TryAgain
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range

pytestmark = pytest.mark.long

MANY = 10_000
EARLY, NOW = 100.0, 1_000.0
LEASE = 30.0


def observe(store: Store, *messages: Message, at: float) -> None:
    cursor = store.observations.cursor(ALPHA)
    previous = cursor.position if cursor else None
    position = block(previous.number + 1 if previous else 10)
    store.observations.record(observed_range(*messages, previous=previous, position=position, now=at))


def claim(store: Store, limit: int, places: int, *, now: float = NOW, in_order: bool = False) -> list[OutboxEntry]:
    return store.outbox.claim(
        worker="w",
        destination_chain=BETA,
        gmps=set(Gmp),
        limit=limit,
        now=now,
        lease=LEASE,
        in_order=in_order,
        fresh=LiveTrafficQuota(places, now - 60),
    )


def fail(store: Store, entries: list[OutboxEntry], at: float) -> None:
    failure = Failure(at=at, kind=FailureKind.TRANSIENT, code="TransientError", message="no answer")
    store.outbox.finish([TryAgain(entry.current_claim, failure, at) for entry in entries], at)


def nonces(entries: list[OutboxEntry]) -> list[int]:
    return [int(entry.dispatch.evidence["index"]) for entry in entries]


def with_failing(store: Store, count: int) -> None:
    observe(store, *(message(nonce) for nonce in range(1, count + 1)), at=EARLY)
    fail(store, claim(store, count, 0, now=EARLY), EARLY + 1)


def test_new_entry_behind_many_failing_ones_is_claimed(
    store: Store,
) -> None:
    with_failing(store, MANY)
    observe(store, message(MANY + 1), at=NOW - 1)
    given = claim(store, 64, 32)
    assert nonces(given) == [*range(1, 64), MANY + 1], "and the old ones have all other places"


def test_old_or_tried_entries_are_not_live_traffic(store: Store) -> None:
    observe(store, message(1), message(2), message(3), at=EARLY)
    observe(store, message(4), at=NOW - 1)
    assert nonces(claim(store, 1, 1)) == [4]
    entry = store.outbox.entries(message(4).id)[0]
    fail(store, [entry], NOW)
    assert nonces(claim(store, 1, 1)) == [1]
    fail(store, claim(store, 2, 0), NOW)
    store.outbox.finish([], NOW)
    observe(store, message(5), at=NOW)
    assert nonces(claim(store, 1, 1)) == [5], "not those that failed, though they are due since the same moment"


def test_live_traffic_respects_its_ordering_key(store: Store) -> None:
    with_failing(store, 2)
    observe(store, message(3), at=NOW - 1)
    assert nonces(claim(store, 1, 1, in_order=True)) == [1]
    assert claim(store, 1, 1, in_order=True) == []
