"""A delivery is tried until it is there or its tries are spent, by one worker at a time, and never for nothing."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.policies import DEFAULT_POLICIES, RetryPolicy
from bridge.ports import Call, CallRevertedError, Dispatch, TerminalError
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.records import Store
from bridge.records.outbox import FailureKind, OutboxEntry, OutboxState
from bridge.records.transactions import SlotRequest
from bridge.relay import RelaySettings
from bridge.relay.delivery import MOST_CALLS
from bridge.sending import LocalSigner
from bridge.simulation import RELAYER, SimulatedBridge, World
from bridge.simulation.adapter import SimulatedAdapter
from bridge.simulation.contracts import DELIVER, GMPS, gmp_address, proof_of, transact
from bridge.simulation.world import Sent
from bridge.store import MemoryStore
from tests.unit.simulation.chaos import History, complaints, deliveries, wasted_transactions
from tests.virtual_time import crash, in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
STRANGER = LocalSigner.from_key("0x" + "33" * 32)


def only_entry(store: Store, sent: Sent) -> OutboxEntry:
    (entry,) = store.outbox.entries(sent.message.id)
    return entry


def deliver_as_a_stranger(world: World, message: Message, gmp: Gmp) -> None:
    envelope = message.encode()
    call = Call(to=gmp_address(gmp), data=DELIVER + proof_of(gmp, envelope) + envelope)
    world.chains[message.destination_chain].submit(lambda state: transact(state, STRANGER.address, call))


@pytest.mark.requirement("OBX-6", "OBX-9")
@in_virtual_time
async def test_messages_both_ways_over_all_gmps_are_executed_and_no_transaction_is_wasted() -> None:
    world, store = World(), MemoryStore()
    world.start()
    async with running(SimulatedBridge(world, store)):
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


@pytest.mark.requirement("X-16", "GLA-11")
@in_virtual_time
async def test_what_somebody_else_delivered_is_success_and_costs_nothing() -> None:
    world, store = World(), MemoryStore()
    world.start()
    sent = world.send(ALPHA, BETA)
    await until(lambda: sent.created != [])
    deliver_as_a_stranger(world, sent.message, Gmp.HYPERLANE)
    await until(lambda: world.executions(sent.message) == 1)
    async with running(SimulatedBridge(world, store)):
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DELIVERED)
    entry = only_entry(store, sent)
    assert entry.delivery is not None
    assert (entry.delivery.transaction_hash, entry.attempts) == (None, 0)
    assert world.chains[BETA].broadcasts == 0
    await world.stop()


@pytest.mark.requirement("X-16")
@in_virtual_time
async def test_a_race_lost_on_chain_is_success_too() -> None:
    world, store = World(), MemoryStore()
    world.start()
    beta = world.chains[BETA]
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: beta.pool != {}, what="our delivery in the pool")
        ours = dict(beta.pool)
        beta.pool.clear()
        deliver_as_a_stranger(world, sent.message, Gmp.HYPERLANE)
        beta.pool.update(ours)  # the stranger is first
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
        await asyncio.sleep(10)
    entry = only_entry(store, sent)
    assert entry.attempts == 0
    assert store.outbox.failures(entry.event_id) == []
    assert world.executions(sent.message) == 1
    await world.stop()


@pytest.mark.requirement("X-16")
@pytest.mark.parametrize(("about_this", "attempts"), [(True, 0), (False, 1)])
@in_virtual_time
async def test_a_revert_that_says_already_received_is_success_only_if_it_is_about_this_delivery(
    about_this: bool,  # noqa: FBT001
    attempts: int,
) -> None:
    world, store = World(), MemoryStore()
    world.start()

    class Late(SimulatedAdapter):
        """Sees that it is late only when it tries the call."""

        async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:  # noqa: ARG002
            if store.outbox.failures(f"0x{dispatch.message_id.hex()}/hyperlane/0"):
                return None
            named = dispatch.message_id if about_this else bytes(32)
            selector = keccak(text="AlreadyReceived(bytes32,uint8)")[:4]
            raise CallRevertedError(selector + encode(["bytes32", "uint8"], [named, int(dispatch.gmp)]))

    async with running(with_adapter(SimulatedBridge(world, store), world, Late)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DELIVERED)
    assert only_entry(store, sent).attempts == attempts
    await world.stop()


@pytest.mark.requirement("OBX-31", "SF-86", "OBX-35", "OBX-60", "OBX-61", "OBX-62")
@in_virtual_time
async def test_a_gmp_that_gives_no_proof_is_asked_again_at_growing_intervals() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).attempts >= 4)
        history = store.outbox.failures(only_entry(store, sent).event_id)
        waits = [later.failure.at - earlier.failure.at for earlier, later in itertools.pairwise(history)]
        for wait, nominal in zip(waits, (5, 10, 20), strict=False):
            assert nominal * 0.9 <= wait <= nominal * 1.1 + 1.1  # the worker looks once in half a second
        assert {one.failure.kind for one in history} == {FailureKind.TRANSIENT}
        world.down.clear()
        await until(lambda: world.executions(sent.message) == 1)
    assert only_entry(store, sent).state is OutboxState.DELIVERED
    await world.stop()


@pytest.mark.requirement("OBX-29", "OIP-151", "X-8")
@in_virtual_time
async def test_when_all_tries_are_spent_the_entry_is_dead_with_its_whole_history() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.QUERY)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DEAD)
        entry = only_entry(store, sent)
        assert entry.attempts == 4  # three retries
        assert [one.number for one in store.outbox.failures(entry.event_id)] == [1, 2, 3, 4]
        assert entry.last_error == "hyperlane gives no proof now"
        world.down.clear()
        await asyncio.sleep(1000)
        assert only_entry(store, sent).state is OutboxState.DEAD
        assert world.executions(sent.message) == 0
        store.outbox.replay(entry.event_id, "by hand", world.clock.now())
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


@pytest.mark.requirement("OIP-67", "OIP-80")
@in_virtual_time
async def test_a_heartbeat_is_tried_once() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.HEARTBEAT)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DEAD)
    assert only_entry(store, sent).attempts == 1
    await world.stop()


@pytest.mark.requirement("OIP-5", "OIP-61", "OIP-76")
@in_virtual_time
async def test_a_critical_action_is_still_tried_after_an_hour() -> None:
    world, store = World(block_time=30), MemoryStore()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA, kind=Kind.REGULATORY_ACTION_CRITICAL)
        await asyncio.sleep(3600)
        assert only_entry(store, sent).attempts > 500
        world.down.clear()
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


class TerminallyBroken(SimulatedAdapter):
    async def attest(self, dispatch: Dispatch) -> bytes:  # noqa: ARG002
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


def with_adapter(bridge: SimulatedBridge, world: World, kind: type[SimulatedAdapter]) -> SimulatedBridge:
    for deliveries_ in bridge.relay.deliveries.values():
        deliveries_._adapters = {gmp: kind(gmp, world.chains) for gmp in GMPS}
    return bridge


@pytest.mark.requirement("OBX-49", "OBX-48", "OBX-50")
@in_virtual_time
async def test_what_can_never_succeed_is_dead_at_once() -> None:
    world, store = World(), MemoryStore()
    world.start()
    async with running(with_adapter(SimulatedBridge(world, store), world, TerminallyBroken)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DEAD)
    assert only_entry(store, sent).attempts == 1
    await world.stop()


@in_virtual_time
async def test_an_error_that_nobody_expected_costs_a_try_and_stops_nothing() -> None:
    world, store = World(), MemoryStore()
    world.start()
    Buggy._seen.clear()
    async with running(with_adapter(SimulatedBridge(world, store), world, Buggy)):
        sent = [world.send(ALPHA, BETA) for _ in range(3)]
        await until(lambda: all(one.created and world.executions(one.message) == 1 for one in sent))
    (failure,) = store.outbox.failures(only_entry(store, sent[0]).event_id)
    assert (failure.failure.kind, failure.failure.code) == (FailureKind.UNKNOWN, "ZeroDivisionError")
    await world.stop()


@in_virtual_time
async def test_an_adapter_that_never_sees_its_own_success_does_not_send_for_ever() -> None:
    world, store = World(), MemoryStore()
    world.start()
    async with running(with_adapter(SimulatedBridge(world, store), world, NeverDone)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).attempts == 1)
    assert len(store.transactions.slots_for(only_entry(store, sent).event_id)) == MOST_CALLS
    await world.stop()


@in_virtual_time
async def test_a_transaction_that_reverts_counts_as_a_failed_try() -> None:
    world, store = World(), MemoryStore()
    world.start()
    beta = world.chains[BETA]

    class Careless(SimulatedAdapter):
        async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
            call = await super().next_call(dispatch, attestation)
            if call is None or store.outbox.failures(f"0x{dispatch.message_id.hex()}/hyperlane/0"):
                return call
            return Call(to=call.to, data=call.data[:-1] + b"!", gas=call.gas)

    async with running(with_adapter(SimulatedBridge(world, store), world, Careless)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.DELIVERED)
    (failure,) = store.outbox.failures(only_entry(store, sent).event_id)
    assert failure.failure.code == "DeliveryRevertedError"
    assert "0x" in failure.failure.message
    assert beta.state.nonces[RELAYER.address] == 2
    await world.stop()


@pytest.mark.requirement("OBXS-5", "OBX-14", "SF-94")
@in_virtual_time
async def test_when_a_worker_dies_another_one_takes_over_after_the_lease() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.chains[BETA].base_fee = 10**6  # nothing is included: the first worker dies with its entry claimed
    first = SimulatedBridge(world, store, name="first")
    task = asyncio.create_task(first.run())
    sent = world.send(ALPHA, BETA)
    await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
    await crash(first, task)
    world.chains[BETA].base_fee = 10
    died = world.clock.now()
    async with running(SimulatedBridge(world, store, name="second")):
        await until(lambda: world.executions(sent.message) == 1 and only_entry(store, sent).delivered_at is not None)
    entry = only_entry(store, sent)
    assert entry.delivered_at is not None
    lease = RelaySettings().lease
    assert entry.fence == 2
    assert entry.delivered_at - died < lease + 30
    assert [one.worker for one in store.outbox.failures(entry.event_id)] == ["first"]
    await world.stop()


@pytest.mark.requirement("OBXS-5", "OBX-12")
@in_virtual_time
async def test_a_nonce_that_a_dead_worker_reserved_and_never_signed_for_costs_the_delivery_no_try() -> None:
    world, store = World(), MemoryStore()
    world.start()
    watching = SimulatedBridge(world, store, relaying=RelaySettings(gmps=frozenset()))
    async with running(watching):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [])
    event_id = only_entry(store, sent).event_id
    call = Call(to=gmp_address(Gmp.HYPERLANE), data=b"", gas=100_000)
    store.transactions.reserve(
        BETA, RELAYER.address, [SlotRequest(event_id, call)], first_nonce=0, now=world.clock.now()
    )
    async with running(SimulatedBridge(world, store)):
        await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
    lost, used = store.transactions.slots_for(event_id)
    assert lost.ended_as_noop
    assert not used.ended_as_noop
    assert (only_entry(store, sent).attempts, store.outbox.failures(event_id)) == (0, [])
    assert world.executions(sent.message) == 1
    await world.stop()


@pytest.mark.requirement("OBXS-4", "OBXS-5")
@in_virtual_time
async def test_a_worker_that_slept_past_its_lease_is_fenced_and_sends_nothing() -> None:
    world, store = World(), MemoryStore()
    world.start()
    asleep = asyncio.Event()

    class Sleepy(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            await asleep.wait()
            return await super().attest(dispatch)

    first = with_adapter(SimulatedBridge(world, store, name="first"), world, Sleepy)
    claim = first.relay.deliveries[BETA].step

    async def claim_once() -> bool:
        return False if first.relay.deliveries[BETA]._active else await claim()

    # What SIGSTOP stops: renewing, and claiming anew.
    first.relay.deliveries[BETA].renew = _never  # type: ignore[method-assign]
    first.relay.deliveries[BETA].step = claim_once  # type: ignore[method-assign]
    async with running(first):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
        async with running(SimulatedBridge(world, store, name="second")):
            await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
            broadcasts = world.chains[BETA].broadcasts
            asleep.set()
            await asyncio.sleep(30)
    entry = only_entry(store, sent)
    assert world.chains[BETA].broadcasts == broadcasts
    assert (entry.state, entry.fence) == (OutboxState.DELIVERED, 2)
    assert [one.worker for one in store.outbox.failures(entry.event_id)] == ["first"]
    await world.stop()


async def _never() -> bool:
    return False


@in_virtual_time
async def test_a_worker_whose_delivery_takes_long_keeps_its_lease() -> None:
    world, store = World(), MemoryStore()
    world.start()

    class Slow(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            await asyncio.sleep(5 * RelaySettings().lease)
            return await super().attest(dispatch)

    async with running(with_adapter(SimulatedBridge(world, store, name="slow"), world, Slow)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
        async with running(SimulatedBridge(world, store, name="other")):
            await until(lambda: only_entry(store, sent).state is OutboxState.DELIVERED)
    assert only_entry(store, sent).fence == 1
    await world.stop()


@pytest.mark.requirement("OBX-33")
@in_virtual_time
async def test_a_worker_that_is_stopped_gives_its_entries_back_at_once() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.chains[BETA].base_fee = 10**6
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, sent).state is OutboxState.CLAIMED)
    entry = only_entry(store, sent)
    assert (entry.state, entry.last_error) == (OutboxState.PENDING, "the worker stopped")
    assert entry.available_at <= world.clock.now()
    await world.stop()


@pytest.mark.requirement("OBX-18", "OBXS-11")
@in_virtual_time
async def test_an_entry_that_fails_does_not_block_those_behind_it_on_its_lane() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.down.add(Gmp.AXELAR)
    async with running(SimulatedBridge(world, store)):
        stuck = world.send(ALPHA, BETA, gmps=(Gmp.AXELAR,))
        behind = [world.send(ALPHA, BETA) for _ in range(5)]
        await until(lambda: all(one.created and world.executions(one.message) == 1 for one in behind))
    assert world.executions(stuck.message) == 0
    await world.stop()


@in_virtual_time
async def test_a_destination_that_does_not_answer_does_not_block_the_others() -> None:
    world, store = World(chains=3), MemoryStore()
    world.start()
    third = BETA + 1
    world.chains[BETA].faults.unavailable = 1
    async with running(SimulatedBridge(world, store)):
        stuck = world.send(ALPHA, BETA)
        fine = world.send(ALPHA, third)
        await until(lambda: fine.created != [] and world.executions(fine.message) == 1)
        world.chains[BETA].faults.unavailable = 0
        await until(lambda: world.executions(stuck.message) == 1, seconds=600)
    await world.stop()


@in_virtual_time
async def test_a_chain_that_is_down_at_the_start_is_waited_for() -> None:
    world, store = World(), MemoryStore()
    world.start()
    for chain in world.chains.values():
        chain.faults.unavailable = 1
    async with running(SimulatedBridge(world, store)):
        sent = world.send(ALPHA, BETA)
        await asyncio.sleep(60)
        for chain in world.chains.values():
            chain.faults.unavailable = 0
        await until(lambda: world.executions(sent.message) == 1)
    await world.stop()


def test_policies_that_contradict_themselves_stop_the_bridge_before_it_starts() -> None:
    broken = {**DEFAULT_POLICIES, Kind.PLAIN: RetryPolicy(-1, 1, 1, dead_letter=True)}

    @in_virtual_time
    async def start() -> None:
        SimulatedBridge(World(), MemoryStore(), policies=broken)

    with pytest.raises(ValueError, match="PLAIN"):
        start()
