"""A GMP whose every delivery fails is left alone but for a probe, and nothing that waits for it loses a try."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.records.figures import Tried
from bridge.records.outbox import OutboxState
from bridge.relayer.breaker import BREAKER, Breaker, BreakerSettings, BreakerState, breakers
from bridge.relayer.settings import RelaySettings
from bridge.store import Store, open_store
from tests.builders import word
from tests.cases import for_each_case
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.world import DAPP
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
SETTINGS = BreakerSettings(failures=5, cooldown=20, cooldown_cap=80)


def tried(at: float, code: str | None = "NotAttestedError", message: int = 0) -> Tried:
    return Tried(gmp=Gmp.AXELAR, destination_chain=BETA, message_id=word(str(message)), at=at, code=code)


def after(*tries: Tried) -> Breaker:
    return breakers(tries, SETTINGS).get((Gmp.AXELAR, BETA), Breaker(SETTINGS))


@for_each_case("code", ["TransientError", "Interrupted", "LeaseExpired", "TerminalError"])
def test_failures_that_are_not_the_gmp_s_do_not_count(code: str) -> None:
    assert after(*(tried(at, code, at) for at in range(100))).state(100) is BreakerState.CLOSED


def test_delivery_closes_it_and_failed_probes_double_the_wait() -> None:
    opened = after(*(tried(at, message=at) for at in range(5)))
    assert opened.after(tried(30, None)).state(30) is BreakerState.CLOSED
    waits, now = [], 4.0
    for _ in range(4):
        now += opened.cooldown
        opened = opened.after(tried(now))
        waits.append(opened.cooldown)
    assert waits == [40, 80, 80, 80]


def test_open_deliveries_do_not_lengthen_the_wait() -> None:
    opened = after(*(tried(at, message=at) for at in range(5)))
    assert opened.after(tried(10)).probes_at == opened.probes_at


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_breaker_opens_after_enough_failures_up_to_the_cap(
    tries: list[tuple[bool, int]],
) -> None:
    breaker, row = Breaker(SETTINGS), 0
    failed: set[int] = set()
    for at, (works, message) in enumerate(tries):
        breaker = breaker.after(tried(at, None if works else "CallRevertedError", message))
        row, failed = (0, set()) if works else (row + 1, failed | {message})
        may_be_open = row >= SETTINGS.failures and len(failed) >= 3
        assert (breaker.opened_at is not None) == may_be_open
        assert breaker.cooldown <= SETTINGS.cooldown_cap


def entries(store: Store, gmp: Gmp) -> list[tuple[OutboxState, int]]:
    listed = store.outbox.listed(limit=1_000)
    return [(entry.state, entry.failed_tries) for entry in listed if entry.dispatch.gmp is gmp]


@in_virtual_time
async def test_messages_wait_for_a_gmp_and_are_all_delivered() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.AXELAR)
    # Ten tries in a few seconds: without a breaker every message is dead within a minute.
    impatient = {**DEFAULT_POLICIES, Kind.PLAIN: replace(DEFAULT_POLICIES[Kind.PLAIN], base=1, cap=2)}
    async with running(SimulatedRelayer(world, store, policies=impatient)):
        sent = [world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,)) for _ in range(8)]
        others = [world.send(ALPHA, BETA, gmps=(Gmp.HYPERLANE,)) for _ in range(8)]
        await asyncio.sleep(120)
        assert all(world.executions(other.message) == 1 for other in others)  # nobody else waits
        assert {state for state, _ in entries(store, Gmp.AXELAR)} == {OutboxState.PENDING}
        tries = sum(attempts for _, attempts in entries(store, Gmp.AXELAR))
        assert tries < 8 + BREAKER.failures + 120 / BREAKER.cooldown
        world.down.clear()
        await until(lambda: {state for state, _ in entries(store, Gmp.AXELAR)} == {OutboxState.DELIVERED}, seconds=120)
    assert all(world.executions(one.message) == 1 for one in sent)
    await world.stop()


@in_virtual_time
async def test_an_open_breaker_outlives_the_process(tmp_path: Path) -> None:
    world, store = World(), open_store(f"sqlite:///{tmp_path}/bridge.db")
    world.start()
    world.down.add(Gmp.AXELAR)
    async with running(SimulatedRelayer(world, store)):
        for _ in range(8):
            world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,))
        await until(lambda: len(store.figures.recent(0)) >= 2 * 8)
    before = len(store.figures.recent(0))
    async with running(SimulatedRelayer(world, store, name="next")):
        await asyncio.sleep(BREAKER.cooldown / 2)
        assert len(store.figures.recent(0)) == before
        await asyncio.sleep(60)
        assert before < len(store.figures.recent(0)) <= before + 3  # probes
    await world.stop()
    store.close()


@in_virtual_time
async def test_critical_actions_are_tried_behind_an_open_breaker_too() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.AXELAR)
    async with running(SimulatedRelayer(world, store)):
        for _ in range(8):
            world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,))
        critical = world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,), kind=Kind.REGULATORY_ACTION_CRITICAL)
        await asyncio.sleep(60)
        (entry,) = store.outbox.entries(critical.message.id)
        assert entry.failed_tries > 10
    await world.stop()


@in_virtual_time
async def test_denied_senders_wait_until_accepted() -> None:
    world, store = World(), memory_store()
    world.start()
    denied = RelaySettings(deny_senders=frozenset({DAPP.address}))
    async with running(SimulatedRelayer(world, store, relaying=denied)):
        sent = world.send(ALPHA, BETA)
        await asyncio.sleep(60)
        assert entries(store, Gmp.HYPERLANE) == [(OutboxState.PENDING, 0)]
    async with running(SimulatedRelayer(world, store, name="next")):
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()
