"""A retry is made when it is needed, once, over a GMP that can help, by whoever may."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import update

from bridge.protocol.gmps import Gmp
from bridge.protocol.retry_requests import RetryRequest
from bridge.records.jobs import RetryJob, RetryState, totals
from bridge.relayer.retries import RecoverySettings, RetryFailedError
from bridge.relayer.settings import RelaySettings
from bridge.store import Store
from bridge.store.tables import messages
from tests.cases import for_each_case
from tests.support.simulation import DAPP, Power, SimulatedRelayer, World, contracts, run_in_virtual_time
from tests.support.simulation.contracts import GMPS, Emitted, State
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
H, A, W = GMPS


def job(store: Store, request: RetryRequest) -> RetryJob:
    return next(
        one for one in store.jobs.of_message(RetryJob, request.message_id) if one.request.sequence == request.sequence
    )


def only_attempt(store: Store, message_id: bytes, number: int) -> frozenset[Gmp]:
    return next(one.gmps for one in store.observations.attempts(message_id) if one.attempt == number)


def replace_envelope(store: Store, message_id: bytes, envelope: bytes) -> None:
    """Has the store remember another content of a message, as after a fault of its disk."""
    with store._database.transaction() as connection:
        connection.execute(update(messages).where(messages.c.message_id == message_id).values(envelope=envelope))


class Stalled:
    """A world in which Hyperlane gives no proofs, and messages over it wait."""

    def __init__(self, *, paused: frozenset[Gmp] = frozenset()) -> None:
        self.world, self.store = World(), memory_store()
        self.world.down.add(H)
        self.world.start()
        self.bridge = SimulatedRelayer(self.world, self.store, relaying=RelaySettings(paused_gmps=paused))

    def spent(self, chain: int = ALPHA) -> int:
        """How many transactions the dApp's account has made."""
        return self.world.chains[chain].state.nonces.get(DAPP.address, 0)


@in_virtual_time
async def test_stalled_message_is_retried_over_an_untried_gmp() -> None:
    case = Stalled()
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [])
        request = case.world.request_retry(sent.message)
        await until(lambda: case.world.executions(sent.message) == 1)
        await until(lambda: len(case.store.observations.attempts(sent.message.id)) == 2)
        done = job(case.store, request)
        assert (done.state, done.gmps) == (RetryState.SENT, frozenset({A}))
        assert done.transaction_hash is not None
        assert only_attempt(case.store, sent.message.id, 1) == {A}
        case.world.down.clear()  # Hyperlane wakes up
        await until(lambda: case.world.receipts(sent.message) == {H, A}, seconds=1200)
    assert case.world.executions(sent.message) == 1
    assert case.spent() == 1
    await case.world.stop()


@in_virtual_time
async def test_retry_waits_until_a_gmp_can_help() -> None:
    case = Stalled(paused=frozenset({H, A}))
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H, W), quorum=2)
        await until(lambda: sent.created != [] and case.world.receipts(sent.message) == {W})
        request = case.world.request_retry(sent.message)
        await until(
            lambda: case.store.jobs.of_message(RetryJob, sent.message.id) != [] and job(case.store, request).tries > 2
        )
        assert job(case.store, request).state is RetryState.OPEN
        assert "no GMP left" in (job(case.store, request).outcome or "")
    async with running(SimulatedRelayer(case.world, case.store)):
        await until(lambda: case.world.executions(sent.message) == 1)
    await case.world.stop()


@in_virtual_time
async def test_a_message_executed_meanwhile_needs_no_retry() -> None:
    case = Stalled()
    case.world.down.clear()
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [] and case.world.executions(sent.message) == 1)
        request = case.world.request_retry(sent.message)
        await until(lambda: totals(case.store.jobs.counts(RetryJob)) == {RetryState.NOT_NEEDED: 1})
    assert job(case.store, request).outcome == "the message was already executed"
    assert case.spent() == 0
    await case.world.stop()


@in_virtual_time
async def test_a_message_that_has_expired_needs_no_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    case, expired = Stalled(), 2
    monkeypatch.setitem(contracts._VIEWS, "receiptsOf", lambda _state, _arguments: (["uint16", "uint8"], [0, expired]))
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [])
        request = case.world.request_retry(sent.message)
        await until(lambda: totals(case.store.jobs.counts(RetryJob)) == {RetryState.NOT_NEEDED: 1})
    assert job(case.store, request).outcome == "the message has expired or was cancelled"
    assert case.spent() == 0
    await case.world.stop()


@in_virtual_time
async def test_a_message_whose_recipient_refuses_is_not_retried() -> None:
    case = Stalled()
    case.world.down.clear()
    case.world.chains[BETA].submit(_refuse)
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [] and case.world.receipts(sent.message) == {H})
        request = case.world.request_retry(sent.message)
        await until(lambda: totals(case.store.jobs.counts(RetryJob)) == {RetryState.NOT_NEEDED: 1})
    assert "execute the message instead of retrying it" in (job(case.store, request).outcome or "")
    assert case.spent() == 0
    await case.world.stop()


def _refuse(state: State) -> list[Emitted]:
    state.refusing = True
    return []


@in_virtual_time
async def test_retry_waits_for_the_senders_key() -> None:
    case = Stalled()
    for chain in (ALPHA, BETA):
        del case.bridge.senders[chain, DAPP.address.lower()]
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [])
        request = case.world.request_retry(sent.message)
        await until(
            lambda: case.store.jobs.of_message(RetryJob, sent.message.id) != [] and job(case.store, request).tries > 0
        )
    waiting = job(case.store, request)
    assert waiting.state is RetryState.OPEN
    assert DAPP.address.lower() in (waiting.outcome or "")
    async with running(SimulatedRelayer(case.world, case.store)):  # somebody has added the key
        await until(lambda: case.world.executions(sent.message) == 1)
    await case.world.stop()


@in_virtual_time
async def test_two_requests_for_one_attempt_make_one_retry() -> None:
    case = Stalled()
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [])
        case.world.request_retry(sent.message, generation=0)
        case.world.request_retry(sent.message, generation=1)
        await until(lambda: sum(totals(case.store.jobs.counts(RetryJob)).values()) == 2)
        await until(lambda: RetryState.OPEN not in totals(case.store.jobs.counts(RetryJob)))
        await asyncio.sleep(30)
    assert totals(case.store.jobs.counts(RetryJob)) == {RetryState.SENT: 1, RetryState.NOT_NEEDED: 1}
    assert case.spent() == 1
    await case.world.stop()


@in_virtual_time
async def test_rebuilt_index_repeats_no_old_requests() -> None:
    case = Stalled()
    async with running(case.bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: sent.created != [])
        for generation in range(3):
            case.world.request_retry(sent.message, generation=generation)
        await until(lambda: case.store.jobs.request_cursor() == 3)
        await until(lambda: RetryState.OPEN not in totals(case.store.jobs.counts(RetryJob)))
        case.world.requests.requests.clear()
        again = case.world.request_retry(sent.message)
        other = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: other.created != [])
        case.world.request_retry(other.message)
        await until(lambda: case.world.executions(other.message) == 1)
    assert again.sequence == 1
    assert case.store.jobs.request_cursor() == 2
    assert case.spent() == 2
    await case.world.stop()


@for_each_case("draws", [*range(20, 320, 40)])
def test_a_crash_at_any_point_of_a_retry_costs_no_second_one(draws: int) -> None:
    run_in_virtual_time(_crash_while_retrying(draws))


async def _crash_while_retrying(draws: int) -> None:
    case = Stalled()
    sent = case.world.send(ALPHA, BETA, gmps=(H,))
    await until(lambda: sent.created != [])
    case.world.request_retry(sent.message)
    first = SimulatedRelayer(case.world, case.store, power=Power(draws))
    life = asyncio.create_task(first.run())
    await asyncio.wait([life], timeout=20)
    first.power.cut()
    await life
    async with running(SimulatedRelayer(case.world, case.store)):
        await until(lambda: case.world.executions(sent.message) == 1)
        await until(lambda: RetryState.OPEN not in totals(case.store.jobs.counts(RetryJob)))
        await until(lambda: RetryState.SENDING not in totals(case.store.jobs.counts(RetryJob)))
        await asyncio.sleep(30)
    assert case.world.chains[ALPHA].state.sent[sent.message.id][1] == 1
    assert totals(case.store.jobs.counts(RetryJob)) == {RetryState.SENT: 1}
    await case.world.stop()


@in_virtual_time
async def test_message_older_than_the_store_is_found_in_logs() -> None:
    case = Stalled()
    sent = case.world.send(ALPHA, BETA, gmps=(H,))
    await until(lambda: sent.created != [])
    unseen = SimulatedRelayer(case.world, case.store)
    for observer in unseen.relayer.observers.values():
        observer._start_block = 10_000
    async with running(unseen):
        case.world.request_retry(sent.message)
        await until(lambda: case.world.chains[ALPHA].state.sent[sent.message.id][1] == 1)
    assert case.store.observations.message(sent.message.id) is None
    await case.world.stop()


# --- what retries may cost


@in_virtual_time
async def test_refused_retry_does_not_count_for_its_bound() -> None:
    case = Stalled()
    bridge = SimulatedRelayer(case.world, case.store, recovering=RecoverySettings(max_message_retries=1))
    async with running(bridge):
        sent = case.world.send(ALPHA, BETA, gmps=(H,))
        await until(lambda: case.store.observations.message(sent.message.id) is not None if sent.created else False)
        original = sent.message.encode()
        replace_envelope(case.store, sent.message.id, original[:-1] + b"!")
        with pytest.raises(RetryFailedError):
            await bridge.recovery.retry(sent.message.id)
        replace_envelope(case.store, sent.message.id, original)
        assert (await bridge.recovery.retry(sent.message.id)).attempt == 1
        with pytest.raises(RetryFailedError, match="the message was retried 1 times; max_message_retries is 1"):
            await bridge.recovery.retry(sent.message.id)
    assert case.spent() == 1
    await case.world.stop()


# --- by hand


@in_virtual_time
async def test_a_retry_by_hand_that_can_not_be_made_says_why() -> None:
    case = Stalled()
    async with running(case.bridge):
        fixed = case.world.send(ALPHA, BETA, gmps=(H,), retriable=False)
        await until(lambda: fixed.created != [])
        with pytest.raises(RetryFailedError, match="not routed as retriable"):
            await case.bridge.recovery.retry(fixed.message.id)
        with pytest.raises(RetryFailedError, match="no router of network 'simulation' created"):
            await case.bridge.recovery.retry(bytes(32))
        case.world.down.clear()
        await until(lambda: case.world.executions(fixed.message) == 1)
        with pytest.raises(RetryFailedError, match="the message was already executed"):
            await case.bridge.recovery.retry(fixed.message.id)
    await case.world.stop()
