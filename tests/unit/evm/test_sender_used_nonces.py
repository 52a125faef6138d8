"""Nonces that somebody else has used, and blocks that a reorg takes back."""

from __future__ import annotations

import asyncio

import pytest

from bridge.evm.signing import UnsignedTransaction
from bridge.protocol.ports import Block, Fees, TransientError
from bridge.records.observations import BlockRef
from bridge.records.transactions import SlotState
from tests.support.simulation import RELAYER
from tests.unit.evm.sending_world import CHAIN, Account, call
from tests.virtual_time import in_virtual_time, until


@in_virtual_time
async def test_nonce_used_elsewhere_costs_one_retry() -> None:
    account = Account()
    account.mining = False
    sender = account.sender()
    async with account.looked_after(sender):
        task = asyncio.create_task(sender.send("p", call()))
        await until(lambda: account.chain.pool != {})
        await account.chain.broadcast(await _foreign_transaction())
        account.mining = True
        with pytest.raises(TransientError, match="signed elsewhere"):
            await task
        assert (await sender.send("p", call())).succeeded
    assert [slot.state for slot in account.slots] == [SlotState.USED_EXTERNALLY, SlotState.INCLUDED]


async def _foreign_transaction() -> bytes:
    signed = await RELAYER.sign(
        UnsignedTransaction(
            chain_id=CHAIN, nonce=0, to="0x" + "99" * 20, data=b"", value=0, gas=30_000, fees=Fees(900, 90)
        )
    )
    return signed.raw


@in_virtual_time
async def test_a_nonce_that_is_used_only_until_a_reorg_costs_nothing() -> None:
    account = Account()
    account.mining = False
    chain, refused = account.chain, 0

    async def broadcast(transaction: bytes) -> None:
        nonlocal refused
        if not refused:
            await chain.broadcast(await _foreign_transaction())
            chain.mine()
        try:
            await chain.broadcast(transaction)
        except Exception:
            refused += 1
            chain.rollback(1, keep=0)
            account.mining = True
            raise

    sender = account.sender(chain=account.chain_with(broadcast=broadcast))
    async with account.looked_after(sender):
        assert (await sender.send("p", call())).succeeded
    assert refused == 1
    assert [(slot.state, len(slot.versions)) for slot in account.slots] == [(SlotState.INCLUDED, 1)]


@in_virtual_time
async def test_account_used_elsewhere_continues_behind() -> None:
    account = Account()
    sender = account.sender()
    async with account.looked_after(sender):
        receipt = await sender.send("p", call())
        account.confirm_up_to(receipt.block_number)
        await until(
            lambda: account.slots[0].state is SlotState.FINAL
        )  # nothing is under way, nobody looks at the chain
        elsewhere = await RELAYER.sign(
            UnsignedTransaction(
                chain_id=CHAIN, nonce=1, to="0x" + "99" * 20, data=b"", value=0, gas=30_000, fees=Fees(900, 90)
            )
        )
        await account.chain.broadcast(elsewhere.raw)
        await asyncio.sleep(3)
        await sender.send("q", call())
    assert [slot.nonce for slot in account.slots] == [0, 2]


@in_virtual_time
async def test_nonce_freed_by_a_reorg_is_filled() -> None:
    account = Account()
    account.mining = False
    elsewhere = await RELAYER.sign(
        UnsignedTransaction(
            chain_id=CHAIN, nonce=0, to="0x" + "99" * 20, data=b"", value=0, gas=30_000, fees=Fees(900, 90)
        )
    )
    await account.chain.broadcast(elsewhere.raw)
    account.chain.mine()
    sender = account.sender()
    async with account.looked_after(sender):
        task = asyncio.create_task(sender.send("p", call()))
        await until(lambda: account.chain.pool != {})
        account.chain.rollback(1, keep=0)  # nonce 0 is free again, and ours is 1
        account.mining = True
        await task
    filled, ours = sorted(account.slots, key=lambda slot: slot.nonce)
    assert (filled.nonce, filled.ended_as_noop, ours.nonce) == (0, True, 1)


@in_virtual_time
async def test_an_included_transaction_whose_block_falls_is_sent_again() -> None:
    account = Account()
    sender = account.sender()
    async with account.looked_after(sender):
        await sender.send("p", call())
        account.chain.reorganise(2, keep=0)
        assert account.chain.state.nonces.get(RELAYER.address, 0) == 0
        await until(lambda: account.chain.state.nonces.get(RELAYER.address, 0) == 1)
        await asyncio.sleep(2)
    (slot,) = account.slots
    assert slot.state is SlotState.INCLUDED
    assert len(slot.versions) == 1


@in_virtual_time
async def test_block_is_not_final_if_a_reorg_came_before_the_answer() -> None:
    account = Account()
    account.confirm_up_to(0)
    fallen: list[int] = []

    async def block(number: int) -> Block | None:
        found = await account.chain.block(number)
        if not fallen:
            fallen.append(number)
            account.chain.reorganise(account.chain.height - number + 1, keep=0)
            # Another process notices, takes finality back, and is as far as before: on the new branch.
            account.store.observations.rewind(CHAIN, BlockRef(0, bytes(32)), 0)
            account.confirm_up_to(number + 1)
        return found

    sender = account.sender(chain=account.chain_with(block=block))
    async with account.looked_after(sender):
        receipt = await sender.send("p", call())
        account.confirm_up_to(receipt.block_number)
        await until(lambda: account.chain.state.nonces.get(RELAYER.address, 0) == 1 and fallen != [])
        await asyncio.sleep(5)
        account.confirm_up_to(account.chain.height)
        await asyncio.sleep(5)
    assert [(slot.state, slot.nonce) for slot in account.slots] == [(SlotState.FINAL, 0)]
    assert account.chain.state.nonces[RELAYER.address] == 1
