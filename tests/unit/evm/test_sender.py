"""Every call is sent once, and every nonce ends used: through crashes, lost answers, reorgs, other signers, empty accounts."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bridge.evm.signing import SignedTransaction, UnsignedTransaction
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import (
    Call,
    CallRevertedError,
    FeesTooHighError,
    NotTakenError,
    Receipt,
    TerminalError,
    TransientError,
    UnansweredError,
)
from bridge.records.outbox import StaleClaimError
from bridge.records.spending import SpendBlockedError
from bridge.records.transactions import SlotState
from tests.builders import BETA, message, observed_range
from tests.support.settings import tuned
from tests.support.simulation import RELAYER
from tests.support.simulation.contracts import DELIVER, gmp_address
from tests.unit.evm.sending_world import CHAIN, SETTINGS, Account, call
from tests.virtual_time import in_virtual_time, until


@in_virtual_time
async def test_bytes_are_stored_before_any_node_sees_them() -> None:
    account = Account()
    stored_when_sent = []

    async def broadcast(transaction: bytes) -> None:
        stored_when_sent.append(any(v.raw == transaction for slot in account.slots for v in slot.versions))
        await account.chain.broadcast(transaction)

    sender = account.sender(chain=account.chain_with(broadcast=broadcast))
    async with account.looked_after(sender):
        await asyncio.gather(*(sender.send(f"p{n}", call(n)) for n in range(3)))
    assert stored_when_sent == [True] * 3


@in_virtual_time
async def test_after_a_crash_the_same_bytes_are_sent_again() -> None:
    account = Account()
    account.chain.faults.forgets = 1  # the node took it, and lost it with the crash
    first = account.sender()
    task = asyncio.create_task(first.send("p", call()))
    await until(lambda: account.chain.broadcasts == 1)
    task.cancel()
    (slot,) = account.slots
    assert slot.state is not SlotState.INCLUDED

    account.chain.faults.forgets = 0
    second = account.sender()
    async with account.looked_after(second):
        receipt = await second.send("p", call(value=2))  # what the worker asks for after its restart
    assert slot.latest is not None
    assert receipt.transaction_hash == slot.latest.hash
    assert len(account.slots) == 1


@in_virtual_time
async def test_an_answer_that_is_lost_leads_to_no_second_transaction() -> None:
    account = Account()
    account.chain.faults.answer_lost = 1
    sender = account.sender()
    async with account.looked_after(sender):
        await sender.send("p", call())
    assert len(account.slots) == 1
    assert account.chain.state.nonces[RELAYER.address] == 1


class UnreliableSigner:
    """Signs only when it is in the mood."""

    def __init__(self) -> None:
        self.works = True

    @property
    def address(self) -> str:
        return RELAYER.address

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        if not self.works:
            raise TransientError("the signer does not answer")
        return await RELAYER.sign(transaction)


@in_virtual_time
async def test_a_call_that_could_not_be_signed_is_sent_later() -> None:
    account = Account()
    signer = UnreliableSigner()
    sender = account.sender(signer=signer)
    signer.works = False
    with pytest.raises(TransientError, match="signer"):
        await sender.send("p", call())
    assert [slot.state for slot in account.slots] == [SlotState.RESERVED]
    signer.works = True
    async with account.looked_after(sender):
        await sender.send("q", call())
        await until(lambda: not account.store.transactions.open_slots(CHAIN, RELAYER.address))
    assert [slot.ended_as_noop for slot in account.slots] == [False, False]


@in_virtual_time
async def test_a_transaction_that_the_pool_dropped_is_sent_again() -> None:
    account = Account()
    account.mining = False
    sender = account.sender()
    async with account.looked_after(sender):
        task = asyncio.create_task(sender.send("p", call()))
        await until(lambda: account.chain.pool != {})
        account.chain.pool.clear()
        account.mining = True
        receipt = await task
    (slot,) = account.slots
    assert [receipt.transaction_hash] == [version.hash for version in slot.versions]


@in_virtual_time
async def test_underpriced_transaction_is_replaced() -> None:
    account = Account()
    sender = account.sender()
    async with account.looked_after(sender):
        task = asyncio.create_task(sender.send("p", call()))
        await until(lambda: account.chain.pool != {})
        account.chain.base_fee = 500
        receipt = await task
    (slot,) = account.slots
    assert len(slot.versions) > 1
    assert receipt.transaction_hash == slot.versions[-1].hash
    assert slot.call == call()


@in_virtual_time
async def test_replacement_of_a_stuck_transaction_is_taken_by_nodes() -> None:
    account = Account()
    account.mining = False
    sender = account.sender()
    async with account.looked_after(sender):
        task = asyncio.create_task(sender.send("p", call()))
        await until(lambda: account.slots != [] and len(account.slots[0].versions) == 2)
        first, latest = account.slots[0].versions
        assert latest.hash != first.hash
        await until(lambda: latest.hash in account.chain.pool)
        account.mining = True
        assert (await task).transaction_hash == latest.hash


@in_virtual_time
async def test_no_replacement_offers_more_than_the_limit() -> None:
    account = Account()
    sender = account.sender(settings=tuned(SETTINGS, max_fee=100, INCLUSION_TIMEOUT=120))
    async with account.looked_after(sender):
        task = asyncio.create_task(sender.send("p", call()))
        await until(lambda: account.chain.pool != {})
        account.chain.base_fee = 500
        with pytest.raises(TransientError, match="limit of 100"):
            await task
    (slot,) = account.slots
    assert max(version.fees.max_fee for version in slot.versions) <= 100


@in_virtual_time
async def test_fees_above_the_limit_reserve_no_nonce() -> None:
    account = Account()
    account.chain.base_fee = 500
    sender = account.sender(settings=tuned(SETTINGS, max_fee=100))
    async with account.looked_after(sender):
        with pytest.raises(FeesTooHighError, match="requires 501 wei per gas, above the limit of 100"):
            await sender.send("p", call())
        assert (account.slots, account.chain.broadcasts, await sender.can_pay()) == ([], 0, False)
        account.chain.base_fee = 99
        assert await sender.can_pay()
        assert (await sender.send("p", call())).succeeded


@in_virtual_time
async def test_account_without_funds_waits_and_continues() -> None:
    account = Account(wei=5)
    sender = account.sender(settings=tuned(SETTINGS, INCLUSION_TIMEOUT=20))
    async with account.looked_after(sender):
        with pytest.raises(TransientError, match="has 5 wei but needs"):
            await sender.send("p", call())
        account.chain.fund(RELAYER.address, 10**24)
        assert (await sender.send("p", call())).succeeded
    assert len(account.slots) == 1


@in_virtual_time
async def test_refused_transaction_ends_in_an_error_and_a_noop() -> None:
    account = Account()
    refused: list[bytes] = []

    async def broadcast(transaction: bytes) -> None:
        if not refused:
            refused.append(transaction)
            raise TerminalError("exceeds block gas limit")
        await account.chain.broadcast(transaction)

    sender = account.sender(chain=account.chain_with(broadcast=broadcast))
    async with account.looked_after(sender):
        with pytest.raises(TransientError, match="block gas limit"):
            await sender.send("p", call())
        assert (await sender.send("q", call())).succeeded
    assert [slot.ended_as_noop for slot in account.slots] == [True, False]


@in_virtual_time
async def test_a_call_that_would_revert_is_not_sent() -> None:
    account = Account()
    bad = Call(to=gmp_address(Gmp.HYPERLANE), data=DELIVER + bytes(32) + message().encode())
    with pytest.raises(CallRevertedError):
        await account.sender().send("p", bad)
    assert account.slots == []


@in_virtual_time
async def test_gas_estimate_gets_a_margin_and_a_limit() -> None:
    account = Account()
    sender = account.sender(settings=tuned(SETTINGS, GAS_MARGIN=1.5))
    async with account.looked_after(sender):
        await sender.send("p", call(gas=None))
    assert account.slots[0].call == call(gas=75_000)
    just = account.sender(settings=tuned(SETTINGS, GAS_MARGIN=1.5, max_gas=60_000))
    async with account.looked_after(just):
        await just.send("r", call(gas=None))
    assert account.slots[1].call == call(gas=60_000), "the margin gives way: what just fits is sent"
    with pytest.raises(SpendBlockedError, match="needs 50000 gas, and max_gas is 49999"):
        await account.sender(settings=tuned(SETTINGS, max_gas=49_999)).send("s", call(gas=None))
    with pytest.raises(SpendBlockedError, match="needs 60000 gas, and max_gas is 50000"):
        await account.sender(settings=tuned(SETTINGS, max_gas=50_000)).send("q", call(gas=60_000))


@in_virtual_time
async def test_nothing_is_sent_for_a_claim_that_is_lost() -> None:
    account = Account()
    account.store.observations.record(observed_range(message()))
    (entry,) = account.store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=10)
    account.store.outbox.claim(worker="v", destination_chain=BETA, gmps=set(Gmp), limit=1, now=300, lease=10)
    with pytest.raises(StaleClaimError):
        await account.sender().send(entry.event_id, call(), entry.current_claim)
    assert account.slots == []
    assert account.chain.broadcasts == 0


@in_virtual_time
async def test_a_chain_that_does_not_answer_leaves_no_nonce_behind() -> None:
    account = Account()
    account.chain.faults.unavailable = 1
    with pytest.raises(TransientError):
        await account.sender().send("p", call())
    assert account.slots == []


@in_virtual_time
async def test_bytes_that_every_node_refuses_charge_one_call_alone() -> None:
    """In words that no table has; 9 to 40 deliveries behind them used to die."""
    account = Account()
    bad = replace(call(), data=b"what no sequencer takes")

    async def broadcast(transaction: bytes) -> None:
        if bad.data in transaction:
            raise NotTakenError("failed to add tx to the pool: out of counters at node level (Steps)")
        await account.chain.broadcast(transaction)

    sender = account.sender(chain=account.chain_with(broadcast=broadcast))
    async with account.looked_after(sender):
        sent = [sender.send("bad", bad), *(sender.send(f"p{number}", call(number)) for number in range(3))]
        refused, *others = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(refused, TransientError)
    assert not isinstance(refused, UnansweredError), "the refused call is charged"
    assert all(isinstance(one, Receipt) and one.succeeded for one in others)
    assert account.slots[0].ended_as_noop


@in_virtual_time
async def test_what_waits_behind_a_stuck_nonce_is_not_charged() -> None:
    account = Account()
    bad = replace(call(), data=b"what is always underpriced")

    async def broadcast(transaction: bytes) -> None:
        if bad.data in transaction:
            raise TransientError("replacement transaction underpriced")
        await account.chain.broadcast(transaction)

    settings = tuned(SETTINGS, INCLUSION_TIMEOUT=10, fee_bump_after=1_000)
    sender = account.sender(chain=account.chain_with(broadcast=broadcast), settings=settings)
    async with account.looked_after(sender):
        first, behind = await asyncio.gather(
            sender.send("stuck", bad), sender.send("p", call(1)), return_exceptions=True
        )
    assert isinstance(first, TransientError)
    assert not isinstance(first, UnansweredError)
    assert isinstance(behind, UnansweredError)
