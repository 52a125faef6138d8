"""A stranger does not spend the relayer's money: attacks on a relayer that must be paid, in a simulated world."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest

from bridge.domain.lanes import Lane
from bridge.domain.outbox import OutboxState
from bridge.domain.spending import GWEI, Bound, PaymentPolicy, SpendBounds, Sponsor
from bridge.evm.signing import LocalSigner
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.queries.explain import Stage, explain, read_kept
from bridge.relayer.settings import RelaySettings
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation.contracts import LIAR, Emitted, State, hush, payment_log
from tests.support.simulation.world import Sent
from tests.support.stores import memory_store
from tests.unit.relayer.test_spending import ALPHA, BETA, DAY, DELIVERY, PRICE, STRANGER, dear_world, word
from tests.virtual_time import in_virtual_time, running, until

pytestmark = pytest.mark.long

PAID_FOR = SpendBounds(payments=PaymentPolicy(required=True))
GAP = 3  # wei above a delivery's cost that a payment has: gwei are rounded
WEEK = 7 * DAY


def pay(world: World, sent: Sent | Message, wei: int, *, gmp: Gmp = Gmp.HYPERLANE) -> bytes:
    """Pays for a message's delivery."""
    message = sent.message if isinstance(sent, Sent) else sent

    def action(state: State) -> list[Emitted]:
        return [payment_log(message.id, gmp, message.destination_chain, wei, state.timestamp + 2 * WEEK)]

    return world.chains[message.source_chain].submit(action)


async def sent_by(world: World, count: int = 1, **named: object) -> list[Sent]:
    """Messages that are in a block of their source."""
    found = [world.send(ALPHA, BETA, **named) for _ in range(count)]  # type: ignore[arg-type]  # passed on
    await until(lambda: all(one.created for one in found))
    return found


def executed(world: World, sent: Sent) -> bool:
    return world.executions(sent.message) == 1


def balance(world: World) -> int:
    return world.chains[BETA].state.balances[RELAYER.address]


def gwei_above(wei: int) -> int:
    return (wei // GWEI + GAP) * GWEI


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
@in_virtual_time
async def test_thousands_of_unpaid_messages_cost_nothing_and_hold_up_none_that_is_paid_for(count: int) -> None:
    world, store = dear_world(), memory_store()
    async with running(SimulatedRelayer(world, store, bounds=PAID_FOR)):
        before = balance(world)
        await sent_by(world, count, sender=STRANGER)
        await asyncio.sleep(120)
        assert balance(world) == before
        honest = await sent_by(world, 5)
        for one in honest:
            pay(world, one, gwei_above(DELIVERY))
        await until(lambda: all(executed(world, one) for one in honest), seconds=120)
        assert before - balance(world) <= 5 * DELIVERY
        assert len(store.transactions.slots(BETA, RELAYER.address)) == 5
    await world.stop()


@in_virtual_time
async def test_what_waits_says_what_is_missing_and_goes_on_once_that_is_paid() -> None:
    world, store = dear_world(), memory_store()
    async with running(SimulatedRelayer(world, store, bounds=PAID_FOR)):
        (sent,) = await sent_by(world)
        await asyncio.sleep(1_500)
        (waits,) = store.spending.blocked(sent.message.id)
        assert (waits.bound, waits.missing) == (Bound.PAYMENT, DELIVERY)
        kept = read_kept(sent.message.id, None, store, None)
        said = explain(sent.message, kept, receipts=frozenset(), executed=False, now=world.clock.now())
        assert [one.stage for one in said.gmps] == [Stage.UNPAID]
        assert said.next_action == f"pay for its delivery: `waybill message top-up 0x{sent.message.id.hex()}`"
        (entry,) = store.outbox.entries(sent.message.id)
        assert (entry.state, entry.failed_tries) == (OutboxState.PENDING, 0)

        pay(world, sent, gwei_above(DELIVERY // 2))
        await asyncio.sleep(60)
        assert not executed(world, sent), "half is not enough"
        (waits,) = store.spending.blocked(sent.message.id)
        assert waits.missing is not None
        assert waits.missing <= DELIVERY // 2
        pay(world, sent, gwei_above(DELIVERY // 2))
        await until(lambda: executed(world, sent), seconds=30, what="it is delivered, though its next look was far")
        await until(lambda: store.spending.blocked() == [])
    await world.stop()


@in_virtual_time
async def test_a_gas_price_a_thousand_times_as_high_waits_for_a_top_up_or_for_a_lower_price() -> None:
    world, store = dear_world(), memory_store()
    first, second = await sent_by(world, 2)
    for one in (first, second):
        pay(world, one, gwei_above(DELIVERY))
    world.chains[BETA].base_fee = 1_000 * PRICE
    async with running(SimulatedRelayer(world, store, bounds=PAID_FOR)):
        before = balance(world)
        await asyncio.sleep(600)
        assert balance(world) == before
        (waits,) = store.spending.blocked(first.message.id)
        assert waits.missing is not None
        assert waits.missing > 900 * DELIVERY
        pay(world, first, gwei_above(1_000 * DELIVERY))
        await until(lambda: executed(world, first))
        assert not executed(world, second)
        world.chains[BETA].base_fee = PRICE
        await until(lambda: executed(world, second), seconds=4_000)
        assert before - balance(world) <= 1_002 * DELIVERY
    await world.stop()


@in_virtual_time
async def test_a_payment_in_a_block_that_falls_before_it_is_final_pays_for_nothing() -> None:
    world, store = dear_world(), memory_store()
    (sent,) = await sent_by(world)
    async with running(SimulatedRelayer(world, store, bounds=PAID_FOR)):
        await until(lambda: store.spending.blocked(sent.message.id) != [])
        source, before = world.chains[ALPHA], balance(world)
        for _ in range(20):
            payment = pay(world, sent, gwei_above(DELIVERY))
            await until(lambda payment=payment: source.includes(payment))  # type: ignore[misc]  # bound to this payment
            source.rollback(1, keep=0)
            source.mine(2)
        await asyncio.sleep(60)
        assert balance(world) == before
        assert store.payments.accounts(sent.message.id) == []
    await world.stop()


@in_virtual_time
async def test_one_payment_delivers_one_of_two_messages() -> None:
    world, store = dear_world(), memory_store()
    first, second = await sent_by(world, 2)
    async with running(SimulatedRelayer(world, store, bounds=PAID_FOR)):
        pay(world, first, gwei_above(DELIVERY))
        await until(lambda: executed(world, first))
        await asyncio.sleep(600)
        assert not executed(world, second)
    await world.stop()


@in_virtual_time
async def test_the_gmps_own_executor_comes_first_and_what_it_delivers_needs_no_payment() -> None:
    world, store = dear_world(), memory_store()
    policy = PaymentPolicy(required=True, executors=frozenset({int(Gmp.HYPERLANE)}), executor_grace=200)
    early, late = await sent_by(world, 2)
    for one in (early, late):
        pay(world, one, gwei_above(DELIVERY))
    async with running(SimulatedRelayer(world, store, bounds=SpendBounds(payments=policy))):
        await until(lambda: len(store.spending.blocked()) == 2)
        assert {one.bound for one in store.spending.blocked()} == {Bound.EXECUTOR}
        before = balance(world)
        # Another relayer on the same chains plays the executor for the first.
        other = RelaySettings()
        async with running(SimulatedRelayer(world, executor := memory_store(), name="executor", relaying=other)):
            await until(lambda: executed(world, early) and executed(world, late))
        assert executor.outbox.entries(early.message.id)
        spent = before - balance(world)
        await asyncio.sleep(800)
        states = {store.outbox.entries(one.message.id)[0].state for one in (early, late)}
        assert states == {OutboxState.DELIVERED}
        assert before - balance(world) == spent, "nothing was paid twice"
        (stalled,) = await sent_by(world)
        pay(world, stalled, gwei_above(DELIVERY))
        await asyncio.sleep(100)
        assert not executed(world, stalled)
        await until(lambda: executed(world, stalled), seconds=400, what="ours steps in")
    await world.stop()


@in_virtual_time
async def test_a_recipient_that_lies_to_trials_burns_what_was_paid_for_it_and_no_more() -> None:
    world, store = dear_world(), memory_store()
    async with running(SimulatedRelayer(world, store, bounds=PAID_FOR)):
        before = balance(world)
        sent = await sent_by(world, 10, sender=STRANGER, recipient=LIAR)
        paid = 4 * DELIVERY
        for one in sent:
            pay(world, one, gwei_above(paid))
        for round_ in range(10):
            world.chains[BETA].submit(partial(hush, hushed=round_ % 2 == 0))
            await asyncio.sleep(200)
        assert 0 < before - balance(world) <= 10 * gwei_above(paid)
    await world.stop()


async def attack(seed: int, *, rounds: int = 5) -> None:
    """Strangers send, pay nothing, too little or enough, make gas dear and have payments fall; a sponsor pays for some."""
    random = Random(seed)  # a seeded storm
    world, store = dear_world(seed), memory_store()
    sponsored = LocalSigner.from_key("0x" + "66" * 32).address
    budget = 5 * DELIVERY
    sponsor = Sponsor("treasury", frozenset({word(sponsored)}), budget)
    bounds = SpendBounds(payments=PaymentPolicy(required=True, sponsors=(sponsor,)))
    covered, days = 0, set[float]()
    async with running(SimulatedRelayer(world, store, bounds=bounds)):
        start = balance(world)
        for _ in range(rounds):
            days.add(world.clock.now() // DAY)
            sender, named = random.choice((STRANGER, sponsored)), random.choice(({"recipient": LIAR}, {}))
            for one in await sent_by(world, random.randint(1, 20), sender=sender, **named):
                if random.random() < 0.3:
                    wei = gwei_above(int(DELIVERY * random.uniform(0.1, 3)))
                    pay(world, one, wei)
                    covered += wei
            world.chains[BETA].base_fee = PRICE * random.choice((1, 1, 10, 1_000))
            if random.random() < 0.3:
                world.chains[ALPHA].reorganise(1)
            world.chains[BETA].submit(partial(hush, hushed=random.random() < 0.5))
            await asyncio.sleep(random.uniform(100, 900))
            days.add(world.clock.now() // DAY)
            assert start - balance(world) <= covered + budget * len(days), "no more than others have paid"
        assert balance(world) < start, "something was delivered"
        assert store.payments.economies()[0].lane == Lane(ALPHA, BETA)
    await world.stop()


@pytest.mark.parametrize("seed", range(2))
def test_the_loss_of_a_day_is_bounded_by_what_was_paid_and_what_sponsors_give(seed: int) -> None:
    in_virtual_time(attack)(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_longer_attacks(seed: int) -> None:
    in_virtual_time(partial(attack, rounds=60))(seed)
