"""What is spent, for whom, and what the bounds refuse: the same in every store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridge.protocol.lanes import Lane
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, Fees
from bridge.records.spending import (
    GWEI,
    Blocked,
    Bound,
    SpendBlockedError,
    SpendBounds,
    SpentFor,
    total_keys,
)
from bridge.records.transactions import BatchedCall, CallBatch, Inclusion, SignedVersion, Slot, SlotRequest, SpendCheck
from bridge.store import Store, open_store
from tests.builders import ALPHA, BETA, block, message, word

ACCOUNT = "0x" + "aa" * 20
DAY = 86_400
PRICE = 2 * GWEI
GAS = 100_000
COST = GAS * PRICE  # wei
ONE = COST // GWEI
LANE = Lane(ALPHA, BETA)


def request(of: Message, transaction_key: str = "", *, value: int = 0) -> SlotRequest:
    call = Call(to="0x" + "bb" * 20, data=b"", value=value, gas=GAS)
    return SlotRequest(transaction_key or f"0x{of.id.hex()}/axelar/0", call, spent_for=SpentFor.of(of))


def version(name: str, price: int = PRICE, *, is_noop: bool = False) -> SignedVersion:
    return SignedVersion(hash=word(name), raw=b"raw", fees=Fees(price, 1), signed_at=1.0, is_noop=is_noop)


def reserved(
    store: Store, *requests: SlotRequest, bounds: SpendBounds | None = None, now: float = 10.0, account: str = ACCOUNT
) -> tuple[list[Slot | None], SpendCheck]:
    check = SpendCheck(PRICE, bounds or SpendBounds())
    return store.transactions.reserve(BETA, account, requests, first_nonce=0, now=now, check=check), check


def gwei(store: Store, of: Message, now: float = 10.0) -> dict[str, int]:
    keys = total_keys(BETA, SpentFor.of(of), now)
    found = store.spending.totals(list(keys.values()))
    return {bound.name.lower(): found.get(key, 0) for bound, key in keys.items()}


def same(amount: int) -> dict[str, int]:
    return dict.fromkeys(("chain", "message", "sender", "lane"), amount)


def test_spending_is_noted_with_the_nonce_and_corrected(store: Store) -> None:
    one = message(1)
    (slot,), _ = reserved(store, request(one, value=5 * GWEI))
    assert slot is not None
    assert gwei(store, one) == same(ONE + 5)
    assert store.transactions.sign(slot.slot_id, version("first"), replaces=None)
    assert gwei(store, one) == same(ONE + 5)
    assert store.transactions.sign(slot.slot_id, version("second", 2 * PRICE), replaces=word("first"))
    assert gwei(store, one) == same(2 * ONE + 5)
    store.transactions.include([(slot.slot_id, Inclusion(word("first"), block(5), True, GAS // 4))])
    assert gwei(store, one) == same(ONE // 4 + 5)
    store.transactions.orphan(slot.slot_id)  # either may land now
    assert gwei(store, one) == same(2 * ONE + 5)
    store.transactions.include([(slot.slot_id, Inclusion(word("second"), block(6), False, GAS // 4))])
    assert gwei(store, one) == same(2 * ONE // 4)  # what reverts passes on no value
    assert store.spending.lanes(10.0) == {(LANE, BETA): 2 * COST // 4}


BOUNDS = [
    (Bound.MESSAGE, SpendBounds(message=COST), "its message cost 0.0002 ether"),
    (Bound.SENDER, SpendBounds(sender=COST), "its sender's messages cost 0.0002 ether there today"),
    (Bound.LANE, SpendBounds(lane=COST), "its lane cost 0.0002 ether there today"),
    (Bound.CHAIN, SpendBounds(chain=COST), "everything cost 0.0002 ether there today"),
]


@pytest.mark.parametrize(("bound", "bounds", "text"), BOUNDS)
def test_what_a_bound_has_no_room_for_gets_no_nonce_and_says_why(
    store: Store, bound: Bound, bounds: SpendBounds, text: str
) -> None:
    one = message(1)
    given, check = reserved(store, request(one, "a"), request(one, "b"), bounds=bounds)
    assert [slot and slot.named_keys for slot in given] == ["a", None]
    (refusal,) = check.refusals.values()
    assert refusal.bound is bound
    assert text in refusal.why
    assert "ether" in refusal.why
    assert gwei(store, one) == same(ONE)
    elsewhere, _ = reserved(store, request(one, "c"), bounds=bounds, account="0x" + "cc" * 20)
    assert elsewhere == [None]  # another account of the same relayer
    tomorrow, _ = reserved(store, request(one, "d"), bounds=bounds, now=DAY + 10.0)
    assert (tomorrow[0] is None) is (bound is Bound.MESSAGE)  # that of a message is no day's
    assert (refusal.room_from is None) is (bound is Bound.MESSAGE)


def test_a_rollups_fee_for_data_counts_for_the_bounds(store: Store) -> None:
    one, bounds = message(1), SpendBounds(message=COST, data_fees={BETA: GWEI})
    given, check = reserved(store, request(one), bounds=bounds)
    assert given == [None]
    assert [refusal.bound for refusal in check.refusals.values()] == [Bound.MESSAGE]
    reserved(store, request(one), bounds=replace(bounds, message=None))
    assert gwei(store, one)["message"] > ONE + 200


def test_one_sender_at_its_bound_keeps_no_other_waiting(store: Store) -> None:
    mine, others = message(1), replace(message(2), sender=word("another"))
    bounds = SpendBounds(sender=COST)
    given, check = reserved(store, request(mine, "a"), request(mine, "b"), request(others, "c"), bounds=bounds)
    assert [slot and slot.named_keys for slot in given] == ["a", None, "c"]
    assert set(check.refusals) == {"b"}


def test_a_higher_fee_needs_room_too_and_a_no_op_never_does(store: Store) -> None:
    one, bounds = message(1), SpendBounds(message=COST + COST // 2)
    (slot,), _ = reserved(store, request(one), bounds=bounds)
    assert slot is not None
    assert store.transactions.sign(slot.slot_id, version("first"), replaces=None, bounds=bounds)
    with pytest.raises(SpendBlockedError, match=r"spending\.message is 0\.0003 ether"):
        store.transactions.sign(slot.slot_id, version("dear", 2 * PRICE), replaces=word("first"), bounds=bounds)
    assert gwei(store, one) == same(ONE)
    no_op = version("no-op", 2 * PRICE, is_noop=True)
    assert store.transactions.sign(slot.slot_id, no_op, replaces=word("first"), bounds=bounds)


def test_shared_transaction_is_charged_by_gas(
    store: Store,
) -> None:
    first, second = message(1), replace(message(2), sender=word("another"))
    call = Call(to="0x" + "bb" * 20, data=b"", gas=0)

    def together(wanted: Sequence[SlotRequest]) -> list[CallBatch]:
        parts = tuple(BatchedCall(one.transaction_key, one.call.gas or 0) for one in wanted)
        return [CallBatch(replace(call, gas=sum(part.gas for part in parts)), parts)] if parts else []

    check = SpendCheck(PRICE, SpendBounds(message=COST + COST // 2))
    requests = [request(first, "a"), request(second, "b"), request(first, "c")]
    given = store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=0, now=10.0, pack=together, check=check)
    shared, also, refused = given
    assert shared is not None
    assert shared is also or shared == also
    assert refused is None
    assert (gwei(store, first)["message"], gwei(store, second)["message"]) == (ONE, ONE)
    assert store.transactions.sign(shared.slot_id, version("v"), replaces=None)
    store.transactions.include([(shared.slot_id, Inclusion(word("v"), block(5), True, GAS))])
    assert {gwei(store, one)["message"] for one in (first, second)} <= {ONE // 2, ONE // 2 + 1}


def test_no_restart_forgets_what_was_spent(url: str) -> None:
    one, bounds = message(1), SpendBounds(message=COST)
    first = open_store(url)
    reserved(first, request(one, "a"), bounds=bounds)
    first.spending.note_blocked(Blocked("b", one.id, LANE, Bound.MESSAGE, "too dear", 10.0, 10.0))
    first.close()
    second = open_store(url)
    given, check = reserved(second, request(one, "b"), bounds=bounds)
    assert (given, list(check.refusals)) == ([None], ["b"])
    assert [blocked.subject for blocked in second.spending.blocked(one.id)] == ["b"]
    second.close()


def test_waiting_is_dated_until_it_ends(store: Store) -> None:
    blocked = Blocked("a", message(1).id, LANE, Bound.SENDER, "too dear", 10.0, 10.0)
    assert store.spending.note_blocked(blocked) == 10.0
    assert store.spending.note_blocked(replace(blocked, why="dearer", since=20.0, at=20.0)) == 10.0
    store.spending.note_blocked(replace(blocked, subject="b", message_id=message(2).id))
    assert store.spending.blocked(message(1).id) == [replace(blocked, why="dearer", at=20.0)]
    assert [one.subject for one in store.spending.blocked(since=15.0)] == ["a"]
    store.spending.release("a")
    assert [one.subject for one in store.spending.blocked()] == ["b"]


def test_totals_of_past_days_are_forgotten(store: Store) -> None:
    sent = message()
    today = 5.0 * DAY
    reserved(store, request(sent), now=today)
    assert [store.spending.forget(before) for before in (today, today + DAY)] == [0, 3]
    assert gwei(store, sent, today) == {"chain": 0, "message": ONE, "sender": 0, "lane": 0}
