from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Fees
from bridge.records.outbox import Delivered
from bridge.records.transactions import (
    BatchedCall,
    CallBatch,
    ForbiddenSlotTransitionError,
    Inclusion,
    SignedVersion,
    Slot,
    SlotRequest,
    SlotState,
)
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word

ACCOUNT = "0x" + "aa" * 20
CALL = Call(to="0x" + "bb" * 20, data=b"\x01\x02", value=10**20, gas=21_000)


def version(name: str, *, is_noop: bool = False) -> SignedVersion:
    return SignedVersion(hash=word(name), raw=name.encode(), fees=Fees(20, 2), signed_at=5.0, is_noop=is_noop)


def reserve(store: Store, *transaction_keys: str, first_nonce: int = 0) -> list[Slot]:
    requests = [SlotRequest(transaction_key, CALL) for transaction_key in transaction_keys]
    given = store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=first_nonce, now=1.0)
    assert None not in given
    return [slot for slot in given if slot is not None]


def signed(store: Store, transaction_key: str = "p") -> Slot:
    (slot,) = reserve(store, transaction_key)
    assert store.transactions.sign(slot.slot_id, version(transaction_key), replaces=None)
    return store.transactions.slot(slot.slot_id)


def test_a_purpose_that_is_under_way_gets_no_second_slot(store: Store) -> None:
    (first,) = reserve(store, "same")
    assert reserve(store, "same") == [first]
    assert reserve(store, "same", "other")[1].nonce == 1
    assert store.transactions.open_slot(BETA, ACCOUNT, "same") == first


def test_a_purpose_whose_transaction_is_included_gets_a_new_slot(store: Store) -> None:
    slot = signed(store)
    store.transactions.broadcast([slot.slot_id], 2.0)
    store.transactions.include([(slot.slot_id, Inclusion(word("p"), block(5), succeeded=False))])
    assert store.transactions.open_slot(BETA, ACCOUNT, "p") is None
    assert reserve(store, "p")[0].nonce == 1
    assert [one.nonce for one in store.transactions.slots_for("p")] == [0, 1]


def test_a_lost_claim_gets_no_nonce(store: Store) -> None:
    store.observations.record(observed_range(message()))
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=10)
    request = SlotRequest(entry.event_id, CALL, entry.current_claim)
    assert store.transactions.reserve(BETA, ACCOUNT, [request], first_nonce=0, now=1)[0] is not None

    store.outbox.claim(worker="v", destination_chain=BETA, gmps=set(Gmp), limit=1, now=300, lease=10)
    assert store.transactions.reserve(BETA, ACCOUNT, [request], first_nonce=0, now=1) == [None]


def test_lost_claims_alone_get_no_nonce(store: Store) -> None:
    store.observations.record(observed_range(message(1), message(2), now=1))
    entries = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=10, now=2, lease=60)
    held, lost = [entry.current_claim for entry in entries]
    (under_way,) = reserve(store, "under way")
    store.outbox.finish([Delivered(lost, None)], 3)
    requests = [
        SlotRequest("lost", CALL, lost),
        SlotRequest("held", CALL, held),
        SlotRequest("under way", CALL),
        SlotRequest("held", CALL, held),
        SlotRequest("new", CALL),
    ]
    nothing, first, known, again, new = store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=0, now=4)
    assert (nothing, known, again) == (None, under_way, first)
    assert [slot and slot.nonce for slot in (first, new)] == [1, 2]
    assert [slot.named_keys for slot in store.transactions.open_slots(BETA, ACCOUNT)] == [
        "under way",
        "held",
        "new",
    ]


def test_a_claim_whose_source_was_reorged_away_gets_no_nonce(store: Store) -> None:
    store.observations.record(observed_range(message()))
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=10)
    store.observations.rewind(ALPHA, block(9), now=201)
    request = SlotRequest(entry.event_id, CALL, entry.current_claim)
    given = store.transactions.reserve(BETA, ACCOUNT, [request, SlotRequest("b", CALL)], first_nonce=0, now=1)
    assert given[0] is None
    assert given[1] is not None
    assert given[1].nonce == 0


def all_in_one(requests: Sequence[SlotRequest]) -> list[CallBatch]:
    """Together they make `CALL`, a thousandth of its gas each but for the last, which takes the rest."""
    assert CALL.gas is not None
    gas = [CALL.gas // 1_000] * (len(requests) - 1)
    gas.append(CALL.gas - sum(gas))
    return [
        CallBatch(CALL, tuple(BatchedCall(one.transaction_key, part) for one, part in zip(requests, gas, strict=True)))
    ]


def test_purposes_share_one_slot(store: Store) -> None:
    (alone,) = reserve(store, "alone")
    requests = [SlotRequest(transaction_key, CALL) for transaction_key in ("a", "alone", "b", "a")]
    given = store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=0, now=1, pack=all_in_one)
    shared = given[0]
    assert shared is not None
    assert given == [shared, alone, shared, shared]
    assert (shared.nonce, shared.transaction_keys, shared.parts) == (
        1,
        ("a", "b"),
        (BatchedCall("a", 21), BatchedCall("b", 20_979)),
    )
    assert store.transactions.slot(shared.slot_id) == shared
    assert store.transactions.open_slots(BETA, ACCOUNT) == [alone, shared]
    for transaction_key in ("a", "b"):
        assert store.transactions.open_slot(BETA, ACCOUNT, transaction_key) == shared
        assert store.transactions.slots_for(transaction_key) == [shared]
    assert reserve(store, "b", "c", "a") == [shared, store.transactions.slots_for("c")[0], shared]


def test_first_versions_are_kept_together(store: Store) -> None:
    first, second = reserve(store, "a", "b")
    store.transactions.sign(first.slot_id, version("no-op", is_noop=True), replaces=None)
    taken = store.transactions.sign_all([(first.slot_id, version("a")), (second.slot_id, version("b"))])
    assert taken == {second.slot_id}
    assert store.transactions.slot(first.slot_id).latest == version("no-op", is_noop=True)
    assert store.transactions.slot(second.slot_id).latest == version("b")


def test_replacement_is_kept_beside_its_predecessor(store: Store) -> None:
    slot = signed(store)
    assert store.transactions.sign(slot.slot_id, version("bump"), replaces=word("p"))
    assert not store.transactions.sign(slot.slot_id, version("late bump"), replaces=word("p"))
    assert store.transactions.slot(slot.slot_id).versions == (version("p"), version("bump"))


def test_any_version_may_be_the_one_that_is_included(store: Store) -> None:
    slot = signed(store)
    store.transactions.broadcast([slot.slot_id], 2.0)
    store.transactions.sign(slot.slot_id, version("no-op", is_noop=True), replaces=word("p"))
    store.transactions.include([(slot.slot_id, Inclusion(word("p"), block(5), succeeded=True))])
    assert not store.transactions.slot(slot.slot_id).ended_as_noop
    store.transactions.orphan(slot.slot_id)
    store.transactions.include([(slot.slot_id, Inclusion(word("no-op"), block(6), succeeded=True))])
    assert store.transactions.slot(slot.slot_id).ended_as_noop


def test_a_slot_goes_from_reserved_to_final(store: Store) -> None:
    slot = signed(store)
    store.transactions.broadcast([slot.slot_id], 2.0)
    assert store.transactions.slot(slot.slot_id).broadcast_at == 2.0
    assert [one.slot_id for one in store.transactions.open_slots(BETA, ACCOUNT)] == [slot.slot_id]

    inclusion = Inclusion(word("p"), block(5), succeeded=True)
    store.transactions.include([(slot.slot_id, inclusion)])
    assert store.transactions.included_slots(BETA, ACCOUNT) == {block(5): [slot.slot_id]}
    included = store.transactions.slot(slot.slot_id)
    assert (included.state, included.included) == (SlotState.INCLUDED, inclusion)
    assert store.transactions.open_slots(BETA, ACCOUNT) == []

    store.transactions.finalise([slot.slot_id])
    assert store.transactions.slot(slot.slot_id).state is SlotState.FINAL
    assert store.transactions.included_slots(BETA, ACCOUNT) == {}


def test_inclusion_may_precede_the_broadcast_note(store: Store) -> None:
    slot = signed(store)
    store.transactions.include([(slot.slot_id, Inclusion(word("p"), block(5), succeeded=True))])
    store.transactions.broadcast([slot.slot_id], 2.0)
    included = store.transactions.slot(slot.slot_id)
    assert (included.state, included.broadcast_at) == (SlotState.INCLUDED, 2.0)


def test_foreign_nonce_is_closed_and_can_be_refilled(store: Store) -> None:
    slot = signed(store)
    store.transactions.take(slot.slot_id)
    assert store.transactions.open_slots(BETA, ACCOUNT) == []
    assert store.transactions.fill(BETA, ACCOUNT, slot.nonce, 3.0).slot_id == slot.slot_id
    assert store.transactions.sign(slot.slot_id, version("no-op", is_noop=True), replaces=word("p"))
    assert [one.slot_id for one in store.transactions.open_slots(BETA, ACCOUNT)] == [slot.slot_id]


def test_a_nonce_that_was_never_reserved_can_be_filled(store: Store) -> None:
    filled = store.transactions.fill(BETA, ACCOUNT, 4, 3.0)
    assert (filled.nonce, filled.call, filled.state) == (4, None, SlotState.RESERVED)
    assert store.transactions.slot(filled.slot_id) == filled


def test_a_final_slot_never_changes(store: Store) -> None:
    slot = signed(store)
    store.transactions.broadcast([slot.slot_id], 2.0)
    store.transactions.include([(slot.slot_id, Inclusion(word("p"), block(5), succeeded=True))])
    store.transactions.finalise([slot.slot_id])
    final = store.transactions.slot(slot.slot_id)
    for change in (store.transactions.take, store.transactions.orphan):
        with pytest.raises(ForbiddenSlotTransitionError):
            change(slot.slot_id)
    assert not store.transactions.sign(slot.slot_id, version("late"), replaces=word("p"))
    store.transactions.broadcast([slot.slot_id], 9.0)
    assert store.transactions.slot(slot.slot_id) == final


def test_old_slots_are_forgotten_but_the_highest_nonce(store: Store) -> None:
    """The next nonce follows the last one."""
    for name in ("first", "second", "open"):
        slot = signed(store, name)
        if name != "open":
            store.transactions.broadcast([slot.slot_id], 2.0)
            store.transactions.include([(slot.slot_id, Inclusion(word(name), block(5), succeeded=True))])
            store.transactions.finalise([slot.slot_id])
    assert store.transactions.forget(1.0, 9) == 0, "reserved at that moment, not before"
    assert store.transactions.forget(2.0, 1) == 1
    assert store.transactions.forget(2.0, 9) == 1
    assert [slot.named_keys for slot in store.transactions.slots(BETA, ACCOUNT)] == ["open"]

    last = signed(store, "last")
    assert last.nonce == 3
