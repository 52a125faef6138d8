"""Every store adds up to the same sums, however many entries, tries and nonces lie behind them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Fees
from bridge.records.figures import Counted, Tried, latency_place
from bridge.records.outbox import Dead, Delivered, ObservedDelivery, OutboxEntry, OutboxState, TryAgain, event_id_of
from bridge.records.transactions import (
    BatchedCall,
    CallBatch,
    Inclusion,
    Packing,
    SignedVersion,
    SlotRequest,
    SlotState,
    one_by_one,
)
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word

ACCOUNT = "0x" + "aa" * 20
SEEN = 100.0


@pytest.fixture(autouse=True)
def three_messages_over_two_gmps(store: Store) -> None:
    sent = (message(1), message(2), message(3))
    store.observations.record(observed_range(*sent, gmps=(Gmp.HYPERLANE, Gmp.AXELAR), now=SEEN))


def claimed(store: Store, gmp: Gmp, now: float) -> list[OutboxEntry]:
    return store.outbox.claim(worker="w", destination_chain=BETA, gmps={gmp}, limit=9, now=now, lease=30)


def deliver(store: Store, gmp: Gmp, *times: float) -> None:
    for entry, at in zip(claimed(store, gmp, min(times)), times, strict=False):
        delivery = ObservedDelivery(block(77, "destination"), word("delivery"))
        assert not store.outbox.finish([Delivered(entry.current_claim, delivery)], at)


def fail(store: Store, gmp: Gmp, at: float, code: str) -> None:
    failure = Failure(at=at, kind=FailureKind.TRANSIENT, code=code, message="no answer")
    store.outbox.finish([TryAgain(entry.current_claim, failure, at + 1) for entry in claimed(store, gmp, at)], at)


def test_recent_tries_come_in_the_order_of_their_end(store: Store) -> None:
    fail(store, Gmp.AXELAR, 200, "TransientError")
    deliver(store, Gmp.AXELAR, 260, 250, 240)
    found = store.figures.recent(200)
    assert [(one.at, one.code) for one in found] == [(240, None), (250, None), (260, None)]
    assert {one.message_id for one in found} == {message(nonce).id for nonce in (1, 2, 3)}
    assert found[0] == Tried(gmp=Gmp.AXELAR, destination_chain=BETA, message_id=found[0].message_id, at=240, code=None)
    assert len(store.figures.recent(0)) == 6


def test_attestation_time_is_the_first_reserved_nonce(
    store: Store,
) -> None:
    call = Call(to="0x" + "bb" * 20, data=b"", gas=100_000)
    first, second, third = (message(nonce).id for nonce in (1, 2, 3))

    def reserve(at: float, *transaction_keys: str, together: bool = False) -> None:
        requests = [SlotRequest(transaction_key, call) for transaction_key in transaction_keys]
        parts = tuple(BatchedCall(transaction_key, 10) for transaction_key in transaction_keys)
        pack: Packing = (lambda _: [CallBatch(call, parts)]) if together else one_by_one
        store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=0, now=at, pack=pack)

    reserve(130.0, event_id_of(first, Gmp.AXELAR, 1), "retry/0x00/1")
    reserve(120.0, event_id_of(first, Gmp.AXELAR, 0))
    reserve(140.0, event_id_of(first, Gmp.HYPERLANE, 0), event_id_of(third, Gmp.AXELAR, 0))
    reserve(150.5, event_id_of(second, Gmp.AXELAR, 0), event_id_of(first, Gmp.HYPERLANE, 0), together=True)
    assert store.figures.attested() == {
        (first, Gmp.AXELAR): 120.0,
        (first, Gmp.HYPERLANE): 140.0,
        (second, Gmp.AXELAR): 150.5,
        (third, Gmp.AXELAR): 140.0,
    }


def test_failure_counts_as_a_retry_unless_fatal(store: Store) -> None:
    fail(store, Gmp.AXELAR, 200, "TransientError")
    failure = Failure(at=300, kind=FailureKind.TERMINAL, code="CallRevertedError", message="it can't pass")
    with_letter, without, other = claimed(store, Gmp.AXELAR, 300)
    store.outbox.finish(
        [
            Dead(with_letter.current_claim, replace(failure, letter=True)),
            Dead(without.current_claim, replace(failure, letter=False)),
            TryAgain(other.current_claim, failure, 301),
        ],
        300,
    )
    assert store.counters.counted(Counted.TRIED_AGAIN) == {(ALPHA, BETA, Gmp.AXELAR): 4}


def test_counters_never_fall(store: Store) -> None:
    fail(store, Gmp.AXELAR, 200, "TransientError")
    deliver(store, Gmp.AXELAR, 201, 202, 203)
    entries = store.outbox.listed(state=OutboxState.DELIVERED)
    store.outbox.confirm([entries[0].event_id], 210)
    kinds = (Counted.OBSERVED, Counted.DELIVERED, Counted.DELIVERY_SECONDS, Counted.FAILED, Counted.TRIED_AGAIN)
    before = [store.counters.counted(kind) for kind in kinds]
    assert before[:2] == [
        {(ALPHA, BETA, Gmp.HYPERLANE): 3, (ALPHA, BETA, Gmp.AXELAR): 3},
        {(ALPHA, BETA, Gmp.AXELAR, latency_place(101)): 3},
    ]
    assert store.outbox.forget(300, 1) == 1
    store.outbox.replay(entries[1].event_id, "an operator", 220)
    assert [store.counters.counted(kind) for kind in kinds] == before
    undone = Failure(at=220, kind=FailureKind.UNDONE, code="Undone", message="it is gone")
    store.outbox.reopen(entries[2].event_id, undone, 220)
    store.observations.rewind(ALPHA, None, 230)  # takes back what no worker had, over Hyperlane
    assert store.counters.counted(Counted.OBSERVED) == before[0]
    assert claimed(store, Gmp.AXELAR, 240) == []
    assert store.counters.counted(Counted.DELIVERED) == before[1], "an orphaned delivery must not be made again"


def test_counters_add_up_what_every_process_counted(store: Store) -> None:
    for _ in range(2):
        store.counters.add({(Counted.COMMIT, (BETA, "success")): 2, (Counted.COMMIT, (BETA, "failure")): 0})
    store.counters.add({(Counted.UNRECOGNISED, (BETA,)): 1})
    assert store.counters.counted(Counted.COMMIT) == {(BETA, "success"): 4}
    assert store.counters.counted(Counted.UNRECOGNISED) == {(BETA,): 1}


def test_delivery_costs_its_share_of_transactions(store: Store) -> None:
    call = Call(to="0x" + "bb" * 20, data=b"", gas=100_000)
    first, second = (message(nonce).id for nonce in (1, 2))
    keys = [
        event_id_of(first, Gmp.AXELAR, 0),
        event_id_of(second, Gmp.AXELAR, 0),
        event_id_of(second, Gmp.HYPERLANE, 0),
    ]
    parts = (BatchedCall(keys[0], 30_000), BatchedCall(keys[1], 10_000))
    together = store.transactions.reserve(
        BETA,
        ACCOUNT,
        [SlotRequest(key, call) for key in keys[:2]],
        first_nonce=0,
        now=10.0,
        pack=lambda _: [CallBatch(call, parts)],
    )
    alone = store.transactions.reserve(BETA, ACCOUNT, [SlotRequest(keys[2], call)], first_nonce=0, now=11.0)
    under_way = store.transactions.reserve(BETA, ACCOUNT, [SlotRequest("retry/0x00/1", call)], first_nonce=0, now=12.0)
    slots = {slot.slot_id for slot in (*together, *alone, *under_way) if slot is not None}
    for slot_id in sorted(slots):
        assert store.transactions.sign(slot_id, version(str(slot_id), 10**9), replaces=None)
    assert store.figures.paid() == {}
    done = sorted(slots)[:2]
    used = [Inclusion(word(str(slot_id)), block(9), succeeded=True, gas_used=40_000) for slot_id in done]
    store.transactions.include(list(zip(done, used, strict=True)))
    assert store.figures.paid() == {
        (first, Gmp.AXELAR): 30_001,
        (second, Gmp.AXELAR): 10_001,
        (second, Gmp.HYPERLANE): 40_000,
    }


def version(name: str, max_fee: int = 20, *, is_noop: bool = False) -> SignedVersion:
    return SignedVersion(hash=word(name), raw=b"raw", fees=Fees(max_fee, 2), signed_at=5.0, is_noop=is_noop)


def test_nonces_are_counted_by_state(store: Store) -> None:
    call = Call(to="0x" + "bb" * 20, data=b"", value=7, gas=100_000)
    ledger, names = store.transactions, ("works", "reverts", "closed", "taken", "open")
    slots = ledger.reserve(BETA, ACCOUNT, [SlotRequest(name, call) for name in names], first_nonce=0, now=10.0)
    ids = {name: slot.slot_id for name, slot in zip(names, slots, strict=True) if slot is not None}
    for name in ("works", "reverts", "open"):
        assert ledger.sign(ids[name], version(name), replaces=None)
    assert ledger.sign(ids["closed"], version("closed", is_noop=True), replaces=None)
    ledger.take(ids["taken"])
    ledger.include([(ids[name], Inclusion(word(name), block(9), succeeded=name != "reverts")) for name in names[:3]])
    assert {(figure.state, figure.count, figure.oldest) for figure in store.figures.slots()} == {
        (SlotState.INCLUDED, 3, 10.0),
        (SlotState.USED_EXTERNALLY, 1, 10.0),
        (SlotState.SIGNED, 1, 10.0),
    }
