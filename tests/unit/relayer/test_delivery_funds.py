"""Deliveries wait for money and for tomorrow without losing a try, and several accounts share them."""

from __future__ import annotations

import asyncio

from bridge.evm.sender import Sender, SenderPool
from bridge.evm.signing import LocalSigner
from bridge.protocol.ports import TransientError
from bridge.records.figures import SlotSum
from bridge.records.outbox import OutboxState
from bridge.records.spending import SpendBounds
from bridge.records.transactions import SlotState
from tests.support.simulation import RELAYER, SimulatedRelayer, World
from tests.support.simulation.world import Sent
from tests.support.stores import memory_store
from tests.unit.evm.sending_world import SETTINGS, Account, call
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
DAY = 86_400
DELIVERY = 10**9  # wei that one costs at most: amounts are kept in whole gwei


def is_executed(world: World, sent: Sent) -> bool:
    return sent.created != [] and world.executions(sent.message) == 1


@in_virtual_time
async def test_lane_at_its_bound_waits_until_midnight() -> None:
    world, store = World(), memory_store()
    world.start()
    limited = SpendBounds(lane=DELIVERY)
    async with running(SimulatedRelayer(world, store, bounds=limited)):
        first = world.send(ALPHA, BETA)
        await until(lambda: is_executed(world, first))
        await asyncio.sleep(10)
        second, back = world.send(ALPHA, BETA), world.send(BETA, ALPHA)
        await until(lambda: is_executed(world, back))
        await asyncio.sleep(100)
        (waiting,) = store.outbox.entries(second.message.id)
        assert (waiting.state, waiting.failed_tries) == (OutboxState.PENDING, 0)
    async with running(SimulatedRelayer(world, store, name="next", bounds=limited)):
        await asyncio.sleep(60)  # a restart forgets nothing
        assert world.executions(second.message) == 0
    before = world.clock.now()
    await world.stop()
    await asyncio.sleep(DAY - before % DAY)
    world.start()
    async with running(SimulatedRelayer(world, store, name="tomorrow", bounds=limited)):
        await until(lambda: world.executions(second.message) == 1)
    await world.stop()


def senders_of(account: Account, *signers: LocalSigner) -> list[Sender]:
    return [account.sender(signer=signer, settings=SETTINGS) for signer in signers]


def used(account: Account) -> dict[str, int]:
    sums: list[SlotSum] = account.store.figures.slots()
    return {one.account: one.count for one in sums if one.state is SlotState.INCLUDED}


@in_virtual_time
async def test_an_empty_account_leaves_the_sending_to_the_others() -> None:
    account, empty = Account(), LocalSigner.from_key("0x" + "44" * 32)
    senders = senders_of(account, empty, RELAYER)
    async with account.looked_after(*senders):
        pool = SenderPool(senders)
        try:
            async with asyncio.timeout(5):
                await senders[0].send("stuck", call())
        except (TimeoutError, TransientError):
            pass
        receipts = [await pool.send(f"transaction_key {number}", call(number)) for number in range(4)]
    assert all(receipt.succeeded for receipt in receipts)
    assert used(account) == {RELAYER.address: 4}


@in_virtual_time
async def test_purpose_keeps_its_account_over_a_restart() -> None:
    account, other = Account(), LocalSigner.from_key("0x" + "44" * 32)
    account.chain.fund(other.address, 10**24)
    account.mining = False
    senders = senders_of(account, RELAYER, other)
    async with account.looked_after(*senders):
        task = asyncio.create_task(senders[1].send("p", call()))
        await asyncio.sleep(2)
        task.cancel()
    account.mining = True
    senders = senders_of(account, RELAYER, other)
    async with account.looked_after(*senders):
        assert (await SenderPool(senders).send("p", call())).succeeded
    assert used(account) == {other.address: 1}
