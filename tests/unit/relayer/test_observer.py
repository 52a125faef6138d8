"""What is read is recorded once, at its depth; what a reorg undid is taken back; what a node withholds is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bridge.evm.finality import FinalityRule
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.errors import StoreMismatchError
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Log, Receipt
from bridge.records.outbox import OutboxState
from bridge.relayer.completeness import Completeness
from bridge.relayer.observer import Observer
from bridge.relayer.seen_capacity import SeenCapacity
from bridge.relayer.settings import RelaySettings
from tests.cases import for_each_case
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS, ROUTER_ADDRESS
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
CONFIRMATIONS = 2
NOTHING = RelaySettings(gmps=frozenset())  # observes, delivers nothing


class Observed:
    """A world whose first chain is observed step by step."""

    def __init__(
        self,
        *,
        start_block: int = 0,
        block_range: int = 1_000,
        gmps: tuple[Gmp, ...] = GMPS,
        capacity: int | None = None,
    ) -> None:
        self.world = World()
        self.chain = self.world.chains[ALPHA]
        self.store = memory_store()
        self.found: list[int] = []
        self.capacity = capacity
        self.observer = self.another(start_block=start_block, block_range=block_range, gmps=gmps)

    def another(
        self,
        *,
        start_block: int = 0,
        block_range: int = 1_000,
        gmps: tuple[Gmp, ...] = GMPS,
        chain: Any = None,
        finality: FinalityTag | None = None,
    ) -> Observer:
        return Observer(
            chain or self.chain,
            ROUTER_ADDRESS,
            [SimulatedAdapter(gmp, {}) for gmp in gmps],
            self.store.observations,
            self.world.clock,
            start_block=start_block,
            finality=FinalityRule(CONFIRMATIONS, finality),
            block_range=block_range,
            asset_classes=(),
            capacity=SeenCapacity(self.store.outbox, self.capacity, self.world.clock),
            completeness=Completeness(
                chain or self.chain, ROUTER_ADDRESS, [BETA], self.store.observations, self.world.clock, every=60
            ),
            found=self.found.append,
        )

    async def catch_up(self) -> None:
        while await self.observer.step():
            pass

    @property
    def pending(self) -> list[str]:
        return [entry.event_id for entry in self.store.outbox.listed(limit=1000) if entry.orphaned_at is None]

    @property
    def position(self) -> int:
        return self.store.observations.final_height(ALPHA)


@in_virtual_time
async def test_a_message_is_recorded_once_it_is_as_deep_as_asked_for() -> None:
    case = Observed()
    case.world.send(ALPHA, BETA)
    case.chain.mine(CONFIRMATIONS)
    await case.catch_up()
    assert case.pending == []
    case.chain.mine()
    await case.catch_up()
    assert len(case.pending) == 1
    assert case.found == [BETA]
    assert case.position == case.chain.height - CONFIRMATIONS


@pytest.mark.parametrize(("tag", "depth"), [("safe", 4), ("finalized", 8)])
@in_virtual_time
async def test_nothing_above_the_chains_final_block_is_read(tag: FinalityTag, depth: int) -> None:
    case = Observed()
    case.observer = case.another(finality=tag)
    case.world.send(ALPHA, BETA)
    case.chain.mine(1)
    for above in range(1, depth + 1):
        assert case.pending == []
        case.chain.mine()
        await case.catch_up()
        assert (case.position, case.store.observations.final_height(ALPHA)) == (max(0, 1 + above - depth),) * 2
    assert len(case.pending) == 1
    case.chain.unsettled[tag] = 0
    case.chain.mine(3)
    await case.catch_up()
    assert case.position == case.chain.height - CONFIRMATIONS
    case.chain.unsettled[tag] = depth  # another endpoint, which is behind
    case.chain.mine()
    await case.catch_up()
    assert case.position == case.chain.height - 1 - CONFIRMATIONS, "it never goes back"


@in_virtual_time
async def test_a_long_chain_is_read_in_ranges_and_nothing_is_left_out() -> None:
    case = Observed(block_range=7)
    sent = []
    for _ in range(20):
        sent.append(case.world.send(ALPHA, BETA))
        case.chain.mine(5)
    case.chain.mine(CONFIRMATIONS)
    await case.catch_up()
    assert len(case.pending) == len(sent)


@in_virtual_time
async def test_reading_begins_at_the_start_block() -> None:
    case = Observed(start_block=3)
    case.world.send(ALPHA, BETA)
    case.chain.mine(3)
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    await case.catch_up()
    assert len(case.pending) == 1


@for_each_case("depth", [1, 3, 13, 64])
@in_virtual_time
async def test_reorg_leaves_exactly_the_new_chains_messages(depth: int) -> None:
    case = Observed()
    case.chain.mine(2)
    for _ in range(70):
        case.world.send(ALPHA, BETA, gmps=(Gmp.HYPERLANE, Gmp.AXELAR))
        case.chain.mine()
        await case.catch_up()
    case.chain.reorganise(depth, keep=0.5)
    case.chain.mine(CONFIRMATIONS)
    await case.catch_up()
    standing = [sent for sent in case.world.sent if case.chain.includes(sent.transaction_hash)]
    assert len(case.pending) == 2 * len(standing)
    assert {event_id.split("/")[0] for event_id in case.pending} == {f"0x{one.message.id.hex()}" for one in standing}
    for one in standing:
        for entry in case.store.outbox.entries(one.message.id):
            block = await case.chain.block(entry.dispatch.block_number)
            assert block is not None
            assert entry.dispatch.block_hash == block.hash


@in_virtual_time
async def test_transaction_included_again_is_delivered_as_it_is() -> None:
    world, store = World(), memory_store()
    world.start()
    async with running(SimulatedRelayer(world, store, relaying=NOTHING)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [])
        orphan = sent.message
        await asyncio.sleep(5)
        world.chains[ALPHA].reorganise(12, keep=1)
        assert sent.message.id != orphan.id  # sent at another time: another message
        await until(lambda: store.outbox.entries(sent.message.id) != [])
    assert store.outbox.entries(orphan.id) == []
    async with running(SimulatedRelayer(world, store)):
        await until(lambda: world.executions(sent.message) == 1)
        await asyncio.sleep(20)
    assert world.executions(orphan) == 0
    await world.stop()


@in_virtual_time
async def test_other_watched_contracts_cause_a_new_reading() -> None:
    case = Observed(gmps=(Gmp.HYPERLANE,))
    case.world.send(ALPHA, BETA, gmps=(Gmp.HYPERLANE, Gmp.WORMHOLE))
    case.chain.mine(1 + CONFIRMATIONS)
    await case.catch_up()
    assert [event_id.split("/")[1] for event_id in case.pending] == ["hyperlane"]
    case.observer = case.another()
    await case.catch_up()
    assert sorted(event_id.split("/")[1] for event_id in case.pending) == ["hyperlane", "wormhole"]


class Withholding:
    """A chain whose node leaves out a GMP's logs for a while."""

    def __init__(self, case: Observed, answers: int) -> None:
        self._chain = case.chain
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    async def logs(self, first: int, last: int, addresses: list[str], topics: list[bytes]) -> list[Log]:
        found = await self._chain.logs(first, last, addresses, topics)
        if self.answers == 0:
            return found
        self.answers -= 1
        return [log for log in found if log.address == ROUTER_ADDRESS]


@in_virtual_time
async def test_range_with_missing_logs_is_read_again() -> None:
    case = Observed()
    case.world.send(ALPHA, BETA, gmps=(Gmp.HYPERLANE, Gmp.AXELAR))
    case.chain.mine(1 + CONFIRMATIONS)
    case.observer = case.another(chain=Withholding(case, answers=1))
    assert not await case.observer.step()
    assert case.position == -1
    await case.catch_up()
    assert len(case.pending) == 2


@in_virtual_time
async def test_a_log_that_never_comes_does_not_stop_the_chain() -> None:
    case = Observed()
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    case.observer = case.another(chain=Withholding(case, answers=100))
    await case.catch_up()
    await case.catch_up()
    assert case.position == case.chain.height - CONFIRMATIONS
    assert case.observer.unrecognised == 1


class Unreceipted(Withholding):
    """A chain whose node does not answer for the receipts of its transactions."""

    def __init__(self, case: Observed, lie: Callable[[Receipt], Receipt | None]) -> None:
        super().__init__(case, answers=0)
        self.lie: Callable[[Receipt], Receipt | None] | None = lie

    async def receipt(self, transaction_hash: bytes) -> Receipt | None:
        found = await self._chain.receipt(transaction_hash)
        return found if found is None or self.lie is None else self.lie(found)


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (lambda _: None, "has no receipt"),
        (lambda receipt: replace(receipt, succeeded=False), "failed, so it has no events"),
        (lambda receipt: replace(receipt, logs=()), "does not contain these logs"),
        (
            lambda receipt: replace(receipt, logs=[replace(log, block_hash=bytes(32)) for log in receipt.logs]),
            "does not",
        ),
        (lambda receipt: replace(receipt, logs=[replace(log, data=log.data[:-1]) for log in receipt.logs]), "does not"),
    ],
    ids=["none", "failed", "without events", "in another block", "with other events"],
)
@in_virtual_time
async def test_logs_without_receipts_are_ignored_and_none_is_lost(
    lie: Callable[[Receipt], Receipt | None], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Observed()
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    chain = Unreceipted(case, lie)
    case.observer = case.another(chain=chain)
    for _ in range(5):
        assert not await case.observer.step()
    assert (case.position, case.pending, case.store.observations.created_on(ALPHA, BETA)) == (-1, [], 0)
    assert capsys.readouterr().out.count(says) == 1, "it is told once"
    chain.lie = None
    await case.catch_up()
    assert (case.position, len(case.pending)) == (case.chain.height - CONFIRMATIONS, 1)


@in_virtual_time
async def test_logs_of_a_changing_chain_are_discarded() -> None:
    case = Observed()
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)

    class Changing(Withholding):
        async def logs(self, first: int, last: int, addresses: list[str], topics: list[bytes]) -> list[Log]:
            found = await self._chain.logs(first, last, addresses, topics)
            if self.answers:
                self.answers -= 1
                self._chain.reorganise(3, keep=0)
            return found

    case.observer = case.another(chain=Changing(case, answers=1))
    assert not await case.observer.step()
    assert case.position == -1
    await case.catch_up()
    assert case.position == case.chain.height - CONFIRMATIONS
    assert case.pending == []


@in_virtual_time
async def test_restarted_observer_sees_a_reorg() -> None:
    case = Observed()
    case.world.send(ALPHA, BETA)
    case.chain.mine(1 + CONFIRMATIONS)
    await case.catch_up()
    case.chain.reorganise(3, keep=0)
    case.observer = case.another()
    await case.catch_up()
    assert case.pending == []


@in_virtual_time
async def test_a_store_of_another_chain_with_the_same_id_is_refused() -> None:
    case = Observed()
    case.store = memory_store()
    case.store.observations.identify(ALPHA, bytes(32))
    case.observer = case.another()
    with pytest.raises(StoreMismatchError):
        await case.observer.identify()


@in_virtual_time
async def test_paused_gmp_is_observed_and_not_delivered() -> None:
    world, store = World(), memory_store()
    world.start()
    paused = RelaySettings(paused_gmps=frozenset({Gmp.AXELAR}))
    async with running(SimulatedRelayer(world, store, relaying=paused)):
        sent = world.send(ALPHA, BETA, gmps=GMPS, quorum=3)
        await until(lambda: sent.created != [] and len(world.receipts(sent.message)) == 2)
        await asyncio.sleep(60)
        assert world.receipts(sent.message) == {Gmp.HYPERLANE, Gmp.WORMHOLE}
        (axelar,) = [one for one in store.outbox.entries(sent.message.id) if one.dispatch.gmp is Gmp.AXELAR]
        assert (axelar.state, axelar.failed_tries) == (OutboxState.PENDING, 0)
    async with running(SimulatedRelayer(world, store)):
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


@in_virtual_time
async def test_restricted_relayer_leaves_other_gmps() -> None:
    world, store = World(), memory_store()
    world.start()
    only = RelaySettings(gmps=frozenset({Gmp.WORMHOLE}))
    async with running(SimulatedRelayer(world, store, relaying=only)):
        sent = world.send(ALPHA, BETA, gmps=GMPS, quorum=3)
        await until(lambda: sent.created != [] and len(world.receipts(sent.message)) == 1)
    assert len(store.outbox.entries(sent.message.id)) == 3
    async with running(SimulatedRelayer(world, store)):
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()
