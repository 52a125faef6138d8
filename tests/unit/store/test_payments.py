"""What was paid for, what it covers, and what became of it: the same in every store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.domain.observations import BlockRef, ObservedRange
from bridge.domain.payments import MARGIN, RATE_UNIT, VaultAct, VaultEvent, charges_of
from bridge.domain.ports import Call
from bridge.domain.spending import EXECUTION, GWEI, VAULT, Bound, PaymentPolicy, SpendBounds, SpentFor, Sponsor
from bridge.domain.transactions import SlotRequest, SpendCheck
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.store import Store
from tests.builders import ALPHA, BETA, message, word

WORMHOLE, AXELAR = int(Gmp.WORMHOLE), int(Gmp.AXELAR)
PAYER = "0x" + "cc" * 20
ACCOUNT = "0x" + "aa" * 20
PRICE, GAS = 2 * GWEI, 100_000
COST = PRICE * GAS  # wei of the destination
LATER = 10_000_000
BOUNDS = SpendBounds(payments=PaymentPolicy(required=True))


def paid(
    of: Message,
    covers: int = COST,
    *,
    gmp: int = WORMHOLE,
    chain: int = BETA,
    rate: int = RATE_UNIT // 2,
    at: int = 1,
    name: str = "",
    refundable_at: int = LATER,
) -> VaultEvent:
    """A payment that covers so many wei of the destination."""
    return VaultEvent(
        act=VaultAct.PAID,
        message_id=of.id,
        gmp=gmp,
        payer=PAYER,
        wei=covers * rate // RATE_UNIT,
        destination_chain=chain,
        rate=rate,
        refundable_at=refundable_at,
        source_chain=ALPHA,
        block_number=at,
        transaction_hash=word(f"payment {name}{of.id.hex()}{gmp}"),
        log_index=0,
    )


def of_payment(act: VaultAct, event: VaultEvent, wei: int, refundable_at: int = 0, at: int = 2) -> VaultEvent:
    return VaultEvent(
        act=act,
        message_id=event.message_id,
        gmp=event.gmp,
        payer=PAYER,
        wei=wei,
        refundable_at=refundable_at,
        source_chain=ALPHA,
        block_number=at,
        transaction_hash=word(f"{act} {event.transaction_hash.hex()}"),
        log_index=0,
    )


def observe(store: Store, *events: VaultEvent, to: int = 1, now: float = 0) -> None:
    cursor = store.observations.cursor(ALPHA)
    position = BlockRef(to, word(f"block {to}"))
    store.observations.record(
        ObservedRange(
            chain_id=ALPHA,
            previous=cursor.position if cursor else None,
            position=position,
            watched="",
            vault_events=events,
            observed_at=now,
        )
    )


def spend(
    store: Store, *messages: Message, gmp: int = WORMHOLE, bounds: SpendBounds = BOUNDS, name: str = "", gas: int = GAS
) -> SpendCheck:
    """Reserves a transaction for each, and says what was refused."""
    requests = [
        SlotRequest(
            f"{name}0x{one.id.hex()}/{gmp}", Call(to=ACCOUNT, data=b"", gas=gas), spent_for=SpentFor.of(one, gmp)
        )
        for one in messages
    ]
    check = SpendCheck(PRICE, bounds)
    store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=0, now=10.0, check=check)
    return check


def refused(check: SpendCheck) -> Sequence[int | None]:
    assert {one.bound for one in check.refusals.values()} <= {Bound.PAYMENT}
    return [one.missing for one in check.refusals.values()]


def test_what_nobody_paid_for_is_refused_with_the_missing_amount(store: Store) -> None:
    one = message()
    check = spend(store, one)
    assert refused(check) == [COST]
    (refusal,) = check.refusals.values()
    assert "0.0002 ether is missing" in refusal.why


def test_a_payment_is_spent_once(store: Store) -> None:
    one = message()
    observe(store, paid(one))
    assert not refused(spend(store, one))
    assert refused(spend(store, one, name="again ")) == [COST]


def test_a_payment_read_twice_counts_once(store: Store) -> None:
    one = message()
    observe(store, paid(one))
    observe(store, paid(one), to=2)
    assert not refused(spend(store, one))
    assert refused(spend(store, one, name="again ")) == [COST]


def test_two_deliveries_at_the_same_moment_do_not_share_a_payment(store: Store) -> None:
    one = message()
    observe(store, paid(one, COST * 3 // 2))
    requests = [
        SlotRequest(name, Call(to=ACCOUNT, data=b"", gas=GAS), spent_for=SpentFor.of(one, WORMHOLE)) for name in "ab"
    ]
    check = SpendCheck(PRICE, BOUNDS)
    store.transactions.reserve(BETA, ACCOUNT, requests, first_nonce=0, now=10.0, check=check)
    assert refused(check) == [COST // 2]


@pytest.mark.parametrize("wrong", ["message", "gmp", "chain"])
def test_a_payment_is_bound_to_its_message_gmp_and_chain(store: Store, wrong: str) -> None:
    one, other = message(), message(nonce=7)
    match wrong:
        case "message":
            observe(store, paid(other))
        case "gmp":
            observe(store, paid(one, gmp=AXELAR))
        case _:
            observe(store, paid(one, chain=ALPHA))
    assert refused(spend(store, one)) == [COST]


def test_an_execution_draws_on_what_all_gmps_were_paid(store: Store) -> None:
    one = message()
    observe(store, paid(one), paid(one, gmp=AXELAR))
    assert not refused(spend(store, one, gmp=EXECUTION))
    assert not refused(spend(store, one, gmp=AXELAR))
    assert refused(spend(store, one)) == [COST], "the execution has used up what is left"


def test_a_payment_that_is_reorged_away_covers_nothing_and_what_was_spent_stays_spent(store: Store) -> None:
    one = message()
    observe(store, to=1)
    observe(store, paid(one, at=2), to=2)
    store.observations.rewind(ALPHA, BlockRef(1, word("block 1")), 0)
    assert refused(spend(store, one)) == [COST]
    observe(store, paid(one, at=2), to=2)
    assert not refused(spend(store, one))
    store.observations.rewind(ALPHA, BlockRef(1, word("block 1")), 0)
    observe(store, paid(one, at=2), to=2)
    assert refused(spend(store, one, name="again ")) == [COST]


def test_what_the_payer_may_fetch_soon_is_not_spent_any_more(store: Store) -> None:
    one = message()
    observe(store, paid(one, 3 * COST))
    assert not refused(spend(store, one))
    assert store.payments.expire(LATER - MARGIN - 1) == 0
    assert store.payments.expire(LATER - MARGIN) == 1
    assert refused(spend(store, one, name="again ")) == [COST]
    observe(store, paid(one, name="new", refundable_at=2 * LATER), to=2, now=LATER)
    assert not refused(spend(store, one, name="again ")), "what was spent before does not count against the new payment"


@pytest.mark.parametrize("act", [VaultAct.REFUNDED, VaultAct.EARNED])
def test_what_was_fetched_or_given_back_covers_nothing(store: Store, act: VaultAct) -> None:
    one = message()
    observe(store, paid(one), of_payment(act, paid(one), COST // 4, refundable_at=1))
    assert refused(spend(store, one)) == [COST]


def test_an_old_payment_that_is_read_late_covers_nothing(store: Store) -> None:
    one = message()
    observe(store, paid(one, refundable_at=100), now=50)
    assert refused(spend(store, one)) == [COST]


def test_dust_covers_nothing(store: Store) -> None:
    one = message()
    observe(store, *(paid(one, 10, name=str(number)) for number in range(100)))
    assert refused(spend(store, one)) == [COST]


def test_a_rate_that_fell_covers_no_more_than_it_said_when_it_was_paid(store: Store) -> None:
    one = message()
    observe(store, paid(one, COST, rate=RATE_UNIT * 1000))
    assert not refused(spend(store, one))
    assert refused(spend(store, one, name="again ")) == [COST]


def test_a_sponsor_pays_up_to_its_day_for_its_senders_alone(store: Store) -> None:
    ours, other = message(), message(sender=word("somebody else"), nonce=9)
    sponsor = Sponsor("treasury", frozenset({ours.sender}), 2 * COST)
    bounds = SpendBounds(payments=PaymentPolicy(required=True, sponsors=(sponsor,)))
    assert refused(spend(store, other, bounds=bounds)) == [COST]
    assert not refused(spend(store, ours, bounds=bounds))
    assert not refused(spend(store, ours, bounds=bounds, name="2 "))
    assert refused(spend(store, ours, bounds=bounds, name="3 ")) == [COST]
    observe(store, paid(ours))
    assert not refused(spend(store, ours, bounds=bounds, name="3 ")), "a payment is asked first"


def test_a_rollups_fee_for_data_is_part_of_the_cost(store: Store) -> None:
    one = message()
    bounds = SpendBounds(payments=PaymentPolicy(required=True, data_fees={BETA: GWEI}))
    observe(store, paid(one))
    (missing,) = refused(spend(store, one, bounds=bounds))
    assert missing is not None
    assert missing >= 200 * GWEI


def test_without_the_demand_the_operator_pays_what_no_payment_covers(store: Store) -> None:
    one = message()
    observe(store, paid(one))
    assert not refused(spend(store, one, bounds=SpendBounds()))
    assert not refused(spend(store, one, bounds=SpendBounds(), name="again "))
    (economy,) = store.payments.economies()
    assert economy.spent == {(BETA, VAULT): COST, (BETA, ""): COST}
    assert (economy.paid, economy.gmp) == (COST // 2, WORMHOLE)


def test_what_was_spent_is_charged_once_and_executions_to_what_is_left(store: Store) -> None:
    one = message()
    observe(store, paid(one, 4 * COST))
    spend(store, one)
    spend(store, one, gmp=EXECUTION)
    accounts = store.payments.accounts(one.id)
    (charge,) = charges_of(accounts, 2 * COST // GWEI, ended=True)
    assert charge.gwei == 2 * COST // 2 // GWEI
    observe(store, of_payment(VaultAct.EARNED, paid(one), charge.gwei * GWEI, refundable_at=LATER), to=2)
    assert charges_of(store.payments.accounts(one.id), 2 * COST // GWEI, ended=False) == []
