"""Bytes that have to be handed over again go together, and none goes that a node has taken meanwhile."""

from __future__ import annotations

import asyncio

from bridge.protocol.ports import Fees, Receipt
from tests.unit.evm.sending_world import SETTINGS, Account, call
from tests.virtual_time import in_virtual_time, until


@in_virtual_time
async def test_restart_rebroadcasts_everything_at_once() -> None:
    account = Account()
    account.chain.faults.forgets = 1  # a node took them, and lost them with the crash
    first = account.sender()
    lost = [asyncio.create_task(first.send(f"p{n}", call(n))) for n in range(30)]
    await until(lambda: account.chain.broadcasts == 30)
    for task in lost:
        task.cancel()
    account.chain.faults.forgets = 0

    async def broadcast(transaction: bytes) -> None:
        await asyncio.sleep(1)
        await account.chain.broadcast(transaction)

    second = account.sender(chain=account.chain_with(broadcast=broadcast))
    began = account.clock.now()
    await second.tick()
    assert account.clock.now() - began < 2
    assert len(account.chain.pool) == 30


@in_virtual_time
async def test_bytes_taken_meanwhile_are_not_sent_again() -> None:
    account = Account()
    handed_over: list[bytes] = []

    async def broadcast(transaction: bytes) -> None:
        handed_over.append(transaction)
        if len(handed_over) > 1:
            await asyncio.sleep(4 * SETTINGS.poll_interval)
        await account.chain.broadcast(transaction)

    async def receipt(transaction_hash: bytes) -> Receipt | None:
        await asyncio.sleep(8 * SETTINGS.poll_interval)
        return await account.chain.receipt(transaction_hash)

    sender = account.sender(chain=account.chain_with(broadcast=broadcast, receipt=receipt))
    first = asyncio.create_task(sender.send("p", call()))
    await until(lambda: len(handed_over) == 1)
    account.chain.mine()
    second = asyncio.create_task(sender.send("q", call(1)))
    await until(lambda: len(handed_over) == 2)
    await sender.tick()  # reads "q" as not sent yet, and waits for the receipt of "p" until a node has taken it
    assert (await first).succeeded
    assert len(handed_over) == 2
    second.cancel()


@in_virtual_time
async def test_call_cancelled_in_a_batch_disturbs_no_other() -> None:
    account = Account()

    async def fees(limit: int | None = None) -> Fees:
        await asyncio.sleep(2)
        return await account.chain.fees(limit)

    sender = account.sender(chain=account.chain_with(fees=fees))
    async with account.looked_after(sender):
        given_up = asyncio.create_task(sender.send("p0", call()))
        kept = asyncio.create_task(sender.send("p1", call(1)))
        await asyncio.sleep(1)
        given_up.cancel()
        assert (await kept).succeeded
