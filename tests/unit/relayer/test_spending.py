"""Nobody makes the relayer spend beyond its bounds, and what waits because of them goes on by itself."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

import pytest
from structlog.testing import capture_logs

from bridge.evm.settings import SendingSettings
from bridge.evm.signing import LocalSigner
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.queries.explain import explain, read_stored
from bridge.records.jobs import ExecutionJob, ExecutionState, RetryJob, RetryState, SyncJob
from bridge.records.spending import GWEI, Bound, SpendBounds
from bridge.relayer.propagation import PropagationSettings
from bridge.relayer.settings import Ordering, RelaySettings
from bridge.store import Store
from tests import seeds
from tests.support.settings import tuned
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation.contracts import (
    LIAR,
    appoint,
    hush,
    refuse,
)
from tests.support.simulation.world import DAPP, Sent
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
STRANGER = LocalSigner.from_key("0x" + "55" * 32).address
PRICE = 5 * GWEI  # wei per gas that the chains want
DELIVERY = 200_000 * (2 * PRICE + 1)  # wei that one may cost


def dear_world(seed: int = 0) -> World:
    world = World(seed)
    for chain in world.chains.values():
        chain.base_fee = PRICE
    world.start()
    return world


def word(address: str) -> bytes:
    return bytes(12) + bytes.fromhex(address[2:])


def lost(world: World, chain_id: int, before: int) -> int:
    """What the relayer has paid on a chain since it held so much, in wei."""
    return before - world.chains[chain_id].state.balances[RELAYER.address]


def held(world: World, chain_id: int) -> int:
    return world.chains[chain_id].state.balances[RELAYER.address]


def executed(world: World, sent: Sent) -> bool:
    return sent.created != [] and world.executions(sent.message) == 1


def reason(store: Store, message: Message, now: float) -> str:
    """What `waybill message show` says."""
    return explain(
        message, read_stored(message.id, None, store, None), receipts=frozenset(), executed=False, now=now
    ).reason


@in_virtual_time
@pytest.mark.long
async def test_what_waits_for_a_bound_blocks_no_ordered_lane() -> None:
    world, store = dear_world(), memory_store()
    relaying = RelaySettings(ordering=Ordering.BLOCK)
    async with running(SimulatedRelayer(world, store, relaying=relaying, bounds=SpendBounds(sender=DELIVERY * 3 // 2))):
        first = [world.send(ALPHA, BETA, sender=STRANGER) for _ in range(6)]
        await asyncio.sleep(5)
        last = world.send(ALPHA, BETA)
        await until(lambda: executed(world, last), seconds=120)
        assert not all(executed(world, one) for one in first)
    await world.stop()


@pytest.mark.parametrize(
    ("named", "bound"),
    [
        (
            {"relaying": RelaySettings(deny_senders=frozenset({STRANGER}))},
            "deny_senders",
        ),
        ({"retry_for": frozenset({word(DAPP.address)})}, "add the sender to retry_for"),
        ({"bounds": SpendBounds(message=GWEI)}, "spending.message is 0.000000001 ether"),
    ],
    ids=["it is denied", "it has no consent", "it is at its bound"],
)
@in_virtual_time
async def test_stranger_can_not_spend_the_relayers_money(named: dict[str, object], bound: str) -> None:
    world, store = dear_world(), memory_store()
    world.down.add(Gmp.WORMHOLE)
    world.chains[ALPHA].submit(partial(appoint, sender=STRANGER, retrier=RELAYER.address))
    before = held(world, ALPHA)
    quick = tuned(PropagationSettings(threshold=5, pause=5), longest_pause=10)
    async with running(SimulatedRelayer(world, store, propagating=quick, **named)):  # type: ignore[arg-type]  # one of its settings
        sent = [
            world.send(ALPHA, BETA, gmps=(Gmp.WORMHOLE,), sender=STRANGER, kind=Kind.STATE_SYNC, ttl=100_000)
            for _ in range(4)
        ]
        await until(lambda: all(one.created for one in sent))
        world.request_retry(sent[0].message)  # the index asks as well
        await asyncio.sleep(60)
        assert lost(world, ALPHA, before) == 0
        (job,) = store.jobs.of_message(RetryJob, sent[0].message.id)
        assert job.state is RetryState.OPEN
        assert bound in (job.outcome or "")
        assert bound in reason(store, sent[0].message, world.clock.now())
        problem = store.jobs.newest(SyncJob, sent[1].message.id)
        assert problem is not None
        assert bound in problem.outcome
    await world.stop()


@in_virtual_time
async def test_a_sender_with_consent_is_retried_within_its_bounds() -> None:
    world, store = dear_world(), memory_store()
    world.down.add(Gmp.WORMHOLE)
    world.chains[ALPHA].submit(partial(appoint, sender=STRANGER, retrier=RELAYER.address))
    async with running(SimulatedRelayer(world, store, retry_for=frozenset({word(STRANGER)}))):
        sent = world.send(ALPHA, BETA, gmps=(Gmp.WORMHOLE,), sender=STRANGER)
        await until(lambda: sent.created != [])
        world.request_retry(sent.message)
        await until(lambda: executed(world, sent))
    await world.stop()


@in_virtual_time
@pytest.mark.long
async def test_delivery_above_max_gas_waits_with_figures() -> None:
    world, store = dear_world(), memory_store()
    little, enough = SendingSettings(poll_interval=0.5, max_gas=45_000), SendingSettings(poll_interval=0.5)
    world.chains[BETA].submit(partial(refuse, refusing=True))
    await asyncio.sleep(3)
    async with running(SimulatedRelayer(world, store, sending=enough)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: sent.created != [] and len(world.receipts(sent.message)) == 1)
        await asyncio.sleep(30)
    world.chains[BETA].submit(partial(refuse, refusing=False))
    with capture_logs() as logs:
        async with running(SimulatedRelayer(world, store, name="second", sending=little)):
            later = world.send(ALPHA, BETA)
            await asyncio.sleep(1_500)
            awaited = store.jobs.newest(ExecutionJob, sent.message.id)
            assert awaited is not None
            assert awaited.state is ExecutionState.BLOCKED
            assert "needs 50000 gas, and max_gas is 45000" in reason(store, sent.message, world.clock.now())
            assert "needs 200000 gas, and max_gas is 45000" in reason(store, later.message, world.clock.now())
            assert store.outbox.entries(later.message.id)[0].failed_tries == 0
            assert {one.bound for one in store.spending.blocked()} == {Bound.GAS}
    told = [one for one in logs if "max_gas" in str(one.get("reason"))]
    assert len(told) == 2, "once for each message"
    async with running(SimulatedRelayer(world, store, name="third", sending=enough)):
        await until(lambda: executed(world, sent) and executed(world, later), seconds=700)
    await world.stop()


async def toggled(world: World, seconds: int) -> None:
    """One cheap call toggles all messages of the liar, again and again."""
    for round_ in range(seconds // 37):
        world.chains[BETA].submit(partial(hush, hushed=round_ % 2 == 0))
        await asyncio.sleep(37)


def failures(store: Store, sent: Sent | None = None) -> int:
    """How many executions have failed in a block."""
    transaction_key = "execute/" if sent is None else f"execute/0x{sent.message.id.hex()}/"
    slots = [
        slot for slot in store.transactions.slots(BETA, RELAYER.address) if slot.named_keys.startswith(transaction_key)
    ]
    return sum(slot.included is not None and not slot.included.succeeded for slot in slots)


@in_virtual_time
@pytest.mark.long
async def test_lying_recipient_burns_few_transactions() -> None:
    """Pauses grow with each transaction in vain, and the sender's bound ends them for the day."""
    world, store = dear_world(), memory_store()
    bounds = SpendBounds(sender=10 * DELIVERY)
    async with running(SimulatedRelayer(world, store, bounds=bounds)):
        sent = [world.send(ALPHA, BETA, sender=STRANGER, recipient=LIAR) for _ in range(6)]
        await toggled(world, 3_000)
        burnt = failures(store)
        await toggled(world, 3_000)
        assert 0 < failures(store) - burnt < burnt
        states = [store.jobs.newest(ExecutionJob, one.message.id) for one in sent]
        assert all(one is not None and one.state in (ExecutionState.BLOCKED, ExecutionState.REFUSED) for one in states)
        honest = world.send(ALPHA, BETA)
        await until(lambda: executed(world, honest))
    await world.stop()


async def storm(seed: int, *, messages: int = 40) -> None:
    """Random senders and recipients, honest and hostile, from one day into the next."""
    random = Random(seed)  # a seeded storm
    world, store = dear_world(seed), memory_store()
    strangers = [LocalSigner.from_key(f"0x{number:064x}").address for number in range(1, 4)]
    # Lane and chain have room for all that the strangers may spend, and for what is honest. With less, it would wait for midnight.
    by_sender, by_honest = random.randint(6, 12), 4 * 2
    by_all = len(strangers) * by_sender + by_honest
    bounds = SpendBounds(
        message=random.randint(3, 6) * DELIVERY,
        sender=by_sender * DELIVERY,
        lane=(by_all + random.randint(0, 5)) * DELIVERY,
        chain=(by_all + random.randint(5, 10)) * DELIVERY,
    )
    for stranger in strangers:
        for chain in world.chains.values():
            chain.submit(partial(appoint, sender=stranger, retrier=RELAYER.address))
    before = {chain_id: held(world, chain_id) for chain_id in world.chains}
    ends = world.clock.now() + 7_200
    quick = tuned(PropagationSettings(threshold=60, pause=60), longest_pause=600)
    bridge = SimulatedRelayer(world, store, bounds=bounds, propagating=quick, max_calls_per_tx=random.choice([1, 8]))
    async with running(bridge):
        hostile, honest = [], []
        for _ in range(messages):
            gmps = tuple(random.sample([Gmp.HYPERLANE, Gmp.WORMHOLE, Gmp.AXELAR], random.randint(1, 3)))
            kind, ttl = random.choice([(Kind.PLAIN, 0), (Kind.STATE_SYNC, 100_000)])
            hostile.append(
                world.send(ALPHA, BETA, gmps=gmps, sender=random.choice(strangers), recipient=LIAR, kind=kind, ttl=ttl)
            )
        for _ in range(4):
            honest.append(world.send(ALPHA, BETA, gmps=(Gmp.HYPERLANE,)))
            await asyncio.sleep(random.randint(1, 60))
        await until(lambda: all(executed(world, one) for one in honest), seconds=900)
        while world.clock.now() < ends:
            world.chains[BETA].submit(partial(hush, hushed=random.random() < 0.5))
            if random.random() < 0.3:
                one = random.choice(hostile)
                world.request_retry(one.message, attempt=random.randint(1, 5))
            await asyncio.sleep(random.randint(10, 200))
    spanned = 2  # it begins less than two hours before midnight
    for chain_id, at_first in before.items():
        loss = lost(world, chain_id, at_first)
        mine = by_honest * DELIVERY  # of honest messages, at most
        assert bounds.sender is not None
        assert loss <= spanned * len(strangers) * bounds.sender + mine, (seed, chain_id, loss / DELIVERY)
        assert bounds.chain is not None
        assert loss <= spanned * bounds.chain
    await world.stop()


@in_virtual_time
@pytest.mark.long
async def test_loss_stays_within_bounds_in_a_storm() -> None:
    await storm(seeds.dice("spending").randrange(1_000_000), messages=20)
