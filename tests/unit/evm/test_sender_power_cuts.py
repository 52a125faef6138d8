"""Sending is cut off at any point, and what is there afterwards finds every nonce used."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from bridge.evm.sender import Sender
from bridge.evm.settings import SendingSettings
from bridge.protocol.ports import Receipt
from bridge.records.transactions import SlotState
from tests.cases import for_each_case
from tests.support.settings import tuned
from tests.support.simulation import RELAYER, Power, PowerCut, run_in_virtual_time
from tests.support.simulation.contracts import MULTICALL_ADDRESS
from tests.support.simulation.power import powered_chain, powered_store
from tests.unit.evm.sending_world import CHAIN, SETTINGS, Account, call
from tests.virtual_time import until


@for_each_case("max_calls_per_tx, draws", [*((1, n) for n in range(0, 60, 3)), *((3, n) for n in range(0, 40, 3))])
def test_crash_at_any_point_leaves_a_ledger_that_heals(max_calls_per_tx: int, draws: int) -> None:
    run_in_virtual_time(_crash_while_sending(tuned(SETTINGS, max_calls_per_tx=max_calls_per_tx), draws))


async def _crash_while_sending(settings: SendingSettings, draws: int) -> None:
    account, power = Account(), Power(draws)
    first = account.sender(
        chain=powered_chain(account.chain, power),
        store=powered_store(account.store, power),
        settings=settings,
        multicall=MULTICALL_ADDRESS,
    )

    def send(sender: Sender, number: int) -> Coroutine[Any, Any, Receipt]:
        return sender.send(f"p{number}", call(number, value=0), may_share=True)

    async def tick() -> None:
        while True:
            await first.tick()
            await asyncio.sleep(0.5)

    tasks = [asyncio.create_task(tick()), *(asyncio.create_task(send(first, n)) for n in range(3))]
    async with account.mining_blocks():
        await asyncio.sleep(10)
    power.cut()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await first.close()

    second = account.sender(settings=settings, multicall=MULTICALL_ADDRESS)
    async with account.looked_after(second):
        await asyncio.gather(*(send(second, n) for n in range(3)), return_exceptions=True)
        await until(lambda: not account.store.transactions.open_slots(CHAIN, RELAYER.address))
    used = account.chain.state.nonces.get(RELAYER.address, 0)
    assert [slot.nonce for slot in account.slots] == list(range(used))
    assert all(slot.state in (SlotState.INCLUDED, SlotState.FINAL) for slot in account.slots)
    assert {transaction_key for slot in account.slots for transaction_key in slot.transaction_keys} >= {
        "p0",
        "p1",
        "p2",
    }


def test_a_power_cut_is_no_error_that_anything_could_handle() -> None:
    assert not issubclass(PowerCut, Exception)
