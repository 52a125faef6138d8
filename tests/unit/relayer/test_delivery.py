"""A delivery is tried until it is there or its tries are spent, by one worker at a time, and never for nothing."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.evm.routers import shows_delivery
from bridge.evm.signing import LocalSigner
from bridge.protocol.events import topic_of
from bridge.protocol.failures import FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import (
    AttestationPendingError,
    Call,
    CallRevertedError,
    Dispatch,
    Log,
    Receipt,
    TerminalError,
)
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.relayer.delivery import MOST_CALLS
from bridge.relayer.settings import RelaySettings
from tests.builders import dispatch, message, word
from tests.cases import for_each_case
from tests.simulation.invariants import History, complaints, deliveries, wasted_transactions
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import DELIVER, GMPS, ROUTER_ADDRESS, gmp_address, proof_of, transact
from tests.support.simulation.world import Sent
from tests.support.stores import memory_store
from tests.unit.relayer.entries import only_entry, with_adapter
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
STRANGER = LocalSigner.from_key("0x" + "33" * 32)


def deliver_as_a_stranger(world: World, message: Message, gmp: Gmp) -> None:
    envelope = message.encode()
    call = Call(to=gmp_address(gmp), data=DELIVER + proof_of(gmp, envelope) + envelope)
    world.chains[message.destination_chain].submit(lambda state: transact(state, STRANGER.address, call))


@in_virtual_time
async def test_a_backlog_of_one_lane_and_gmp_keeps_no_other_waiting() -> None:
    world, store = World(chains=3), memory_store()
    world.start()
    world.chains[BETA].faults.forgets = 1.0  # nothing is included: what is claimed stays under way

    def states(*sent: Sent) -> list[OutboxState]:
        return [entry.state for one in sent for entry in store.outbox.entries(one.message.id)]

    async with running(SimulatedRelayer(world, store, relaying=RelaySettings(in_flight=32))):
        backlog = [world.send(ALPHA, BETA) for _ in range(100)]
        await until(lambda: all(one.created for one in backlog))
        await until(lambda: states(*backlog).count(OutboxState.CLAIMED) >= 32)
        live = [world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,)), world.send(BETA + 1, BETA)]
        await until(lambda: all(one.created for one in live) and states(*live) == [OutboxState.CLAIMED] * 2, seconds=15)
        await asyncio.sleep(20)
        assert states(*backlog).count(OutboxState.CLAIMED) == 32, "the backlog has no more than its room"
        world.chains[BETA].faults.forgets = 0.0
        await until(lambda: all(world.executions(one.message) == 1 for one in (*live, *backlog)), seconds=900)
    await world.stop()


@in_virtual_time
async def test_both_ways_over_all_gmps_waste_no_transaction() -> None:
    world, store = World(), memory_store()
    world.start()
    async with running(SimulatedRelayer(world, store)):
        for quorum in (1, 2, 3):
            for source, destination in ((ALPHA, BETA), (BETA, ALPHA)):
                world.send(source, destination, gmps=GMPS, quorum=quorum)
        history = History(0, world, store)
        await until(lambda: len(world.sent[-1].created) == 1 and not complaints(history))
    assert deliveries(history) == 18
    assert wasted_transactions(history) == 0
    used = sum(chain.state.nonces[RELAYER.address] for chain in world.chains.values())
    assert used == 18 + 6  # one each, and one more for each of Axelar's, which needs two
    await world.stop()


class Asked(SimulatedAdapter):
    calls = 0

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        Asked.calls += 1
        return await super().next_call(dispatch, attestation)


@for_each_case("differs", ["nothing", "router", "message", "source", "gmp", "event", "success"])
def test_only_the_routers_own_event_shows_a_delivery(differs: str) -> None:
    sent = dispatch(message(), Gmp.WORMHOLE)
    words = {"source": sent.source_chain, "gmp": int(sent.gmp)}
    if differs in words:
        words[differs] += 1
    log = Log(
        address=("0x" + "71" * 20) if differs == "router" else ROUTER_ADDRESS.lower(),
        topics=(
            topic_of("LateReceipt" if differs == "event" else "MessageReceived"),
            word("another") if differs == "message" else sent.message_id,
            *(number.to_bytes(32, "big") for number in words.values()),
        ),
        data=b"",
        block_number=1,
        block_hash=word("block"),
        transaction_hash=word("transaction"),
        log_index=0,
    )
    receipt = Receipt(
        transaction_hash=log.transaction_hash,
        block_number=1,
        block_hash=log.block_hash,
        succeeded=differs != "success",
        gas_used=1,
        logs=(log,),
    )
    assert shows_delivery(receipt, ROUTER_ADDRESS, sent) is (differs == "nothing")


@in_virtual_time
async def test_foreign_delivery_is_success_and_costs_nothing() -> None:
    world, store = World(), memory_store()
    world.start()
    sent = world.send(ALPHA, BETA)
    await until(lambda: sent.created != [])
    deliver_as_a_stranger(world, sent.message, Gmp.HYPERLANE)
    await until(lambda: world.executions(sent.message) == 1)
    async with running(SimulatedRelayer(world, store)):
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DELIVERED)
    entry = only_entry(store, sent)
    assert entry.delivery is not None
    assert (entry.delivery.transaction_hash, entry.failed_tries) == (None, 0)
    assert world.chains[BETA].broadcasts == 0
    await world.stop()


@in_virtual_time
async def test_a_race_lost_on_chain_is_success_too() -> None:
    world, store = World(), memory_store()
    world.start()
    beta = world.chains[BETA]
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: beta.pool != {}, what="our delivery in the pool")
        ours = dict(beta.pool)
        beta.pool.clear()
        deliver_as_a_stranger(world, sent.message, Gmp.HYPERLANE)
        beta.pool.update(ours)  # the stranger is first
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
        await asyncio.sleep(10)
    entry = only_entry(store, sent)
    assert entry.failed_tries == 0
    assert store.outbox.failures(entry.event_id) == []
    assert world.executions(sent.message) == 1
    await world.stop()


@pytest.mark.parametrize(("about_this", "attempts"), [(True, 0), (False, 1)])
@in_virtual_time
async def test_already_received_counts_only_for_this_delivery(
    about_this: bool,
    attempts: int,
) -> None:
    world, store = World(), memory_store()
    world.start()

    class Late(SimulatedAdapter):
        """Sees that it is late only when it tries the call."""

        async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
            if store.outbox.failures(f"0x{dispatch.message_id.hex()}/hyperlane/0"):
                return None
            named = dispatch.message_id if about_this else bytes(32)
            selector = keccak(text="AlreadyReceived(bytes32,uint8)")[:4]
            raise CallRevertedError(selector + encode(["bytes32", "uint8"], [named, int(dispatch.gmp)]))

    sent = world.send(ALPHA, BETA)
    await until(lambda: sent.created != [])
    deliver_as_a_stranger(world, sent.message, Gmp.HYPERLANE)
    await until(lambda: world.executions(sent.message) == 1)
    async with running(with_adapter(SimulatedRelayer(world, store), world, Late)):
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DELIVERED)
    assert only_entry(store, sent).failed_tries == attempts
    await world.stop()


@in_virtual_time
async def test_missing_proof_is_asked_for_at_growing_intervals() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).failed_tries >= 4)
        history = store.outbox.failures(only_entry(store, sent).event_id)
        waits = [later.failure.at - earlier.failure.at for earlier, later in itertools.pairwise(history)]
        for wait, nominal in zip(waits, (5, 10, 20), strict=False):
            assert nominal * 0.9 <= wait <= nominal * 1.1 + 1.1  # the worker looks once in half a second
        assert {one.failure.kind for one in history} == {FailureKind.TRANSIENT}
        assert only_entry(store, sent).last_error == "hyperlane gives no proof now"
        world.down.clear()
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
    assert world.executions(sent.message) == 1
    await world.stop()


@in_virtual_time
async def test_spent_tries_leave_a_dead_entry_with_its_history() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedRelayer(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.QUERY)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DEAD)
        entry = only_entry(store, sent)
        assert entry.failed_tries == 4  # three retries
        failures = store.outbox.failures(entry.event_id)
        assert [one.number for one in failures] == [1, 2, 3, 4]
        assert [[line.failed_tries for line in one.failure.delivery_snapshot] for one in failures] == [
            [0],
            [1],
            [2],
            [3],
        ]
        assert entry.last_error == "MAX_RETRIES_EXCEEDED: hyperlane gives no proof now"  # a query leaves no dead letter
        world.down.clear()
        await asyncio.sleep(60)
        assert only_entry(store, sent).state is OutboxState.DEAD
        assert world.executions(sent.message) == 0
        store.outbox.replay(entry.event_id, "by hand", world.clock.now())
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


@in_virtual_time
async def test_pending_proof_costs_no_try() -> None:
    world, store = World(), memory_store()
    world.start()
    asked: list[float] = []

    class Slow(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            asked.append(world.clock.now())
            if len(asked) < 40:
                raise AttestationPendingError("not yet")
            return await super().attest(dispatch)

    async with running(with_adapter(SimulatedRelayer(world, store), world, Slow)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: sent.created != [] and world.executions(sent.message) == 1, seconds=3_600)
        assert only_entry(store, sent).failed_tries == 0
    waits = [later - earlier for earlier, later in itertools.pairwise(asked)]
    for wait, age in zip(waits, (at - asked[0] for at in asked), strict=False):
        assert wait >= max(age / 10, 1), "asked too often"
        assert wait <= max(age / 10, 1) * 1.1 + 1.1  # the worker looks once in half a second
    await world.stop()


@in_virtual_time
async def test_a_heartbeat_is_tried_once_and_leaves_no_dead_letter() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    relayer = SimulatedRelayer(world, store)
    async with running(relayer):
        sent = world.send(ALPHA, BETA, kind=Kind.HEARTBEAT)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DEAD)
    assert (only_entry(store, sent).failed_tries, relayer.dead_letters.records()) == (1, [])
    await world.stop()


@in_virtual_time
async def test_critical_action_ends_once_its_execution_is_final() -> None:
    world, store = World(block_time=30), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge):
        sent = world.send(ALPHA, BETA, gmps=(Gmp.HYPERLANE, Gmp.AXELAR), quorum=1, kind=Kind.REGULATORY_ACTION_CRITICAL)
        await until(lambda: sent.created != [] and world.executions(sent.message) == 1, seconds=300)

        def left() -> OutboxEntry:
            return next(one for one in store.outbox.entries(sent.message.id) if one.dispatch.gmp is Gmp.HYPERLANE)

        await asyncio.sleep(20)
        assert left().state in (OutboxState.PENDING, OutboxState.CLAIMED), "a reorg may take the execution back"
        await until(lambda: left().state is OutboxState.DEAD, seconds=300)
    assert "MESSAGE_ENDED" in store.outbox.failures(left().event_id)[-1].failure.message
    assert bridge.dead_letters.records() == []
    await world.stop()


class TerminallyBroken(SimulatedAdapter):
    async def attest(self, dispatch: Dispatch) -> bytes:
        raise TerminalError("the message is of no use")


class Buggy(SimulatedAdapter):
    async def attest(self, dispatch: Dispatch) -> bytes:
        if dispatch.message_id not in self._seen:
            self._seen.add(dispatch.message_id)
            raise ZeroDivisionError("a bug")
        return await super().attest(dispatch)

    _seen: set[bytes] = set()  # noqa: RUF012  # shared by the lives of one test


class NeverDone(SimulatedAdapter):
    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        return Call(to=STRANGER.address, data=attestation[:4] + dispatch.envelope, gas=50_000)


@in_virtual_time
async def test_critical_action_is_tried_despite_permanent_errors() -> None:
    world, store = World(), memory_store()
    world.start()
    bridge = SimulatedRelayer(world, store)
    async with running(with_adapter(bridge, world, TerminallyBroken)):
        sent = world.send(ALPHA, BETA, kind=Kind.REGULATORY_ACTION_CRITICAL)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).failed_tries > 20)
    assert only_entry(store, sent).state is OutboxState.PENDING
    assert bridge.dead_letters.records() == []
    await world.stop()


@in_virtual_time
async def test_unexpected_error_costs_a_try_and_stops_nothing() -> None:
    world, store = World(), memory_store()
    world.start()
    Buggy._seen.clear()
    async with running(with_adapter(SimulatedRelayer(world, store), world, Buggy)):
        sent = [world.send(ALPHA, BETA) for _ in range(3)]
        await until(lambda: all(one.created and world.executions(one.message) == 1 for one in sent))
        await until(lambda: only_entry(store, sent[0]).state is OutboxState.DELIVERED)
    (failure,) = store.outbox.failures(only_entry(store, sent[0]).event_id)
    assert (failure.failure.kind, failure.failure.code) == (FailureKind.UNKNOWN, "ZeroDivisionError")
    await world.stop()


@in_virtual_time
async def test_adapter_blind_to_its_success_stops_sending() -> None:
    world, store = World(), memory_store()
    world.start()
    async with running(with_adapter(SimulatedRelayer(world, store), world, NeverDone)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).failed_tries == 1)
    assert len(store.transactions.slots_for(only_entry(store, sent).event_id)) == MOST_CALLS
    await world.stop()


@in_virtual_time
async def test_refused_transaction_is_one_failed_try() -> None:
    world, store, asked = World(), memory_store(), list[bytes]()
    world.start()

    class Refused(SimulatedAdapter):
        async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
            asked.append(dispatch.message_id)
            call = await super().next_call(dispatch, attestation)
            return call and Call(to=call.to, data=call.data[:-1] + b"!")

    async with running(with_adapter(SimulatedRelayer(world, store), world, Refused)):
        sent = world.send(ALPHA, BETA, kind=Kind.QUERY)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DEAD)
    codes = [one.failure.code for one in store.outbox.failures(only_entry(store, sent).event_id)]
    assert codes == ["CallRevertedError"] * 4
    assert (len(asked), world.chains[BETA].broadcasts) == (4, 0)
    await world.stop()
