"""Sending is cut off at any point, and what is there afterwards finds every nonce used."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from bridge.records import Store
from bridge.records.transactions import SlotState
from bridge.simulation import RELAYER, Power, PowerCut, run_in_virtual_time
from bridge.simulation.power import PoweredStore, powered_chain
from tests.unit.sending.world import CHAIN, Account, call
from tests.virtual_time import until


@pytest.mark.parametrize("draws", range(0, 60, 3))
def test_a_crash_at_any_point_of_sending_leaves_a_ledger_that_heals(draws: int) -> None:
    run_in_virtual_time(_crash_while_sending(draws))


async def _crash_while_sending(draws: int) -> None:
    account, power = Account(), Power(draws)
    first = account.sender(
        chain=powered_chain(account.chain, power), store=cast(Store, PoweredStore(account.store, power))
    )

    async def tick() -> None:
        while True:
            await first.tick()
            await asyncio.sleep(0.5)

    tasks = [asyncio.create_task(tick()), *(asyncio.create_task(first.send(f"p{n}", call(n))) for n in range(3))]
    async with account.mining_blocks():
        await asyncio.sleep(10)
    power.cut()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await first.close()

    second = account.sender()
    async with account.looked_after(second):
        await asyncio.gather(*(second.send(f"p{n}", call(n)) for n in range(3)), return_exceptions=True)
        await until(lambda: not account.store.transactions.open_slots(CHAIN, RELAYER.address))
    used = account.chain.state.nonces.get(RELAYER.address, 0)
    assert [slot.nonce for slot in account.slots] == list(range(used))
    assert all(slot.state in (SlotState.INCLUDED, SlotState.FINAL) for slot in account.slots)


def test_a_power_cut_is_no_error_that_anything_could_handle() -> None:
    assert not issubclass(PowerCut, Exception)
