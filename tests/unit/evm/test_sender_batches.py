"""Calls share transactions: each counts by itself, none is sent twice, and none suffers from another."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from bridge.evm.sender import CallBatching, Sender, receipt_of
from bridge.protocol.contracts import MULTICALL
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Chain, Log, NotTakenError, Receipt, UnansweredError
from bridge.records.transactions import Slot, SlotRequest
from tests.builders import word
from tests.cases import for_each_case
from tests.support.settings import tuned
from tests.support.simulation import RELAYER
from tests.support.simulation.contracts import DELIVER, MULTICALL_ADDRESS, gmp_address
from tests.unit.evm.sending_world import CHAIN, SETTINGS, Account, call
from tests.virtual_time import in_virtual_time, until

SHARING = tuned(SETTINGS, max_calls_per_tx=8)
REFUSED = Call(to=gmp_address(Gmp.HYPERLANE), data=DELIVER + bytes(40), gas=200_000)
MOST_GAS = 16_000_000


def sharing_sender(account: Account, chain: Chain | None = None) -> Sender:
    return account.sender(chain=chain, settings=SHARING, multicall=MULTICALL_ADDRESS)


async def sent(sender: Sender, *calls: Call) -> list[Receipt]:
    transaction_keys = [f"p{number}" for number in range(len(calls))]
    pairs = zip(transaction_keys, calls, strict=True)
    return list(
        await asyncio.gather(*(sender.send(transaction_key, one, may_share=True) for transaction_key, one in pairs))
    )


REQUESTS = st.builds(
    lambda number, gas, size, value, may_share: SlotRequest(
        f"p{number}", Call(to=RELAYER.address, data=bytes(size), gas=gas, value=value), may_share=may_share
    ),
    st.integers(0, 10**9),
    st.integers(21_000, MOST_GAS),
    st.one_of(st.integers(0, 2_000), st.integers(0, 150_000)),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([True, True, True, False]),
)


@given(st.lists(REQUESTS, max_size=40, unique_by=lambda one: one.transaction_key), st.integers(1, 12))
def test_shared_transaction_has_gas_and_room_for_its_calls(requests: list[SlotRequest], most: int) -> None:
    batches = CallBatching(MULTICALL_ADDRESS, most=most, max_gas=MOST_GAS).pack(requests)
    by_purpose = {one.transaction_key: one for one in requests}
    assert sorted(part.transaction_key for batch in batches for part in batch.parts) == sorted(by_purpose)
    for batch in batches:
        calls = [by_purpose[part.transaction_key].call for part in batch.parts]
        gas = batch.call.gas
        assert gas is not None
        assert sum(part.gas for part in batch.parts) == gas <= MOST_GAS
        if len(calls) == 1:
            assert batch.call == calls[0]
            continue
        assert len(calls) <= most
        assert len(batch.call.data) < 128 * 1024
        made = [(one.to, one.gas, one.data) for one in calls]
        assert (batch.call.to, batch.call.data) == (MULTICALL_ADDRESS, MULTICALL.encode("multicall", made))
        assert all(
            by_purpose[part.transaction_key].may_share and one.value == 0
            for part, one in zip(batch.parts, calls, strict=True)
        )
        left = gas - 21_000 - 16 * len(batch.call.data)
        for one in calls:  # the contract's own check, before each call, with what calls and checks cost
            assert one.gas is not None
            assert (left - 10_000) * 63 // 64 >= one.gas
            left -= one.gas + 10_000


@pytest.mark.parametrize("most", [1, 10])
def test_without_a_contract_for_it_or_a_wish_nothing_is_shared(most: int) -> None:
    requests = [SlotRequest(f"p{number}", call(number, value=0), may_share=True) for number in range(5)]
    for sharing in (
        CallBatching(None, most=most, max_gas=MOST_GAS),
        CallBatching(MULTICALL_ADDRESS, most=1, max_gas=MOST_GAS),
    ):
        assert [batch.call for batch in sharing.pack(requests)] == [one.call for one in requests]


@in_virtual_time
async def test_concurrent_calls_share_a_transaction() -> None:
    account = Account()
    sender = sharing_sender(account)
    async with account.looked_after(sender):
        receipts = await sent(sender, call(0, value=0), REFUSED, call(2, value=0), call(3, value=1))
    assert [receipt.succeeded for receipt in receipts] == [True, False, True, True]
    shared, alone = account.slots
    assert (shared.transaction_keys, alone.transaction_keys) == (("p0", "p1", "p2"), ("p3",))
    assert {one.transaction_hash for one in receipts} == {
        slot.included.transaction_hash for slot in (shared, alone) if slot.included is not None
    }


def made(bits: int, *, address: str = MULTICALL_ADDRESS) -> Log:
    return Log(
        address=address.lower(),
        topics=(keccak(text="CallsMade(uint256)"),),
        data=bits.to_bytes(32, "big"),
        block_number=1,
        block_hash=word("block"),
        transaction_hash=word("transaction"),
        log_index=0,
    )


@for_each_case(
    "logs, expected",
    [
        ([made(0b101)], [True, False, True]),
        ([made(0b010), made(0b101)], [True, False, True]),  # a callee called the contract again, before ours ended
        ([made(0b101), made(0b010, address=RELAYER.address)], [True, False, True]),
        ([], [False, False, False]),
    ],
)
def test_call_result_comes_from_the_contracts_last_event(logs: list[Log], expected: list[bool]) -> None:
    requests = [SlotRequest(f"p{number}", call(number, value=0), may_share=True) for number in range(3)]
    (batch,) = CallBatching(MULTICALL_ADDRESS, most=8, max_gas=MOST_GAS).pack(requests)
    slot = Slot.reserved(CHAIN, RELAYER.address, 0, batch, 1.0)
    receipt = Receipt(
        transaction_hash=word("transaction"),
        block_number=1,
        block_hash=word("block"),
        succeeded=True,
        gas_used=1,
        logs=tuple(logs),
    )
    assert [receipt_of(one.transaction_key, slot, receipt).succeeded for one in requests] == expected
    reverted = replace(receipt, succeeded=False)
    assert not any(receipt_of(one.transaction_key, slot, reverted).succeeded for one in requests)


@in_virtual_time
async def test_shared_transaction_is_found_after_a_crash() -> None:
    account = Account()
    account.chain.faults.forgets = 1  # the node took it, and lost it with the crash
    first = sharing_sender(account)
    task = asyncio.create_task(sent(first, call(0, value=0), REFUSED, call(2, value=0)))
    await until(lambda: account.chain.broadcasts == 1)
    task.cancel()

    account.chain.faults.forgets = 0
    second = account.sender()  # as if sharing had been turned off meanwhile
    async with account.looked_after(second):
        refused = await second.send("p1", call(1))
        taken = await second.send("p2", call(2))
    (slot,) = [slot for slot in account.slots if "p1" in slot.transaction_keys]
    assert slot.latest is not None
    assert (refused.transaction_hash, refused.succeeded) == (slot.latest.hash, False)
    assert [one.nonce for one in account.slots] == [0, 1]  # p2 was asked for after the end of the first
    assert taken.succeeded


@in_virtual_time
async def test_a_refused_batch_charges_nobody_and_its_calls_go_alone() -> None:
    account = Account()
    bad = call(3, value=0)

    async def broadcast(transaction: bytes) -> None:
        if MULTICALL.selector("multicall") in transaction:
            raise NotTakenError("intrinsic gas too high -- tx.gas_limit > env.block.gas_limit")
        await account.chain.broadcast(transaction)

    sender = sharing_sender(account, chain=account.chain_with(broadcast=broadcast))
    calls = [call(0, value=0), bad]
    async with account.looked_after(sender):
        asked = [sender.send(f"p{n}", one, may_share=True) for n, one in enumerate(calls)]
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, UnansweredError) for one in refused), "it costs no try"
        await until(lambda: not account.store.transactions.open_slots(CHAIN, RELAYER.address))
        alone = [await sender.send(f"p{n}", one, may_share=True) for n, one in enumerate(calls)]
    assert all(receipt.succeeded for receipt in alone)


def test_a_batch_takes_at_most_half_of_a_blocks_gas() -> None:
    requests = [SlotRequest(str(n), call(n, value=0, gas=1_000_000), may_share=True) for n in range(40)]
    batching = CallBatching(MULTICALL_ADDRESS, most=40, max_gas=15_000_000)
    fullest = max(batch.call.gas or 0 for batch in batching.within(5_000_000).pack(requests))
    assert fullest <= 2_500_000
    assert len(batching.within(0).pack(requests)) == len(batching.pack(requests))
