"""What the relayer sends of its own accord is sent once for each key, through a crash and beside its own upkeep."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from bridge.client import Client, RouteRequest
from bridge.evm.sender import Sender
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import Call
from bridge.records.spending import SpendBlockedError
from bridge.relayer.own_messages import OwnMessages
from tests.builders import ALPHA, BETA
from tests.cases import for_each_case
from tests.unit.dead_letters.test_review import deployed
from tests.unit.evm.sending_world import CHAIN, Account, call
from tests.virtual_time import in_virtual_time, until

REQUEST = RouteRequest(destination=BETA, recipient="0x" + "09" * 20, payload=b"", gmps=())


class SlowClient:
    """Makes the same call for every request, and takes its time, as nodes do."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def route_call(self, source: int, request: RouteRequest, sender: str) -> Call:
        await asyncio.sleep(self._seconds)
        return call()


def messages(account: Account, sender: Sender, *, slowness: float = 0) -> OwnMessages:
    document = {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    return OwnMessages(
        deployment=Deployment.model_validate(document),
        client=cast(Client, SlowClient(slowness)),
        senders={CHAIN: sender},
        ledger=account.store.transactions,
        clock=account.clock,
    )


async def send(own: OwnMessages, *, wei_per_day: int = 10**18) -> None:
    await own.send("governance/dlq/1", CHAIN, REQUEST, budget="governance", wei_per_day=wei_per_day)


@for_each_case("slowness", [0, 0.3, 1, 3, 10])
@in_virtual_time
async def test_own_message_is_sent_once_across_a_crash(
    slowness: float,
) -> None:
    account = Account()
    before_the_crash = account.sender()
    task = asyncio.create_task(send(messages(account, before_the_crash)))
    await until(lambda: account.chain.pool != {})
    task.cancel()
    await before_the_crash.close()

    sender = account.sender()
    async with account.looked_after(sender):
        for _ in range(2):
            await send(messages(account, sender, slowness=slowness))
    assert [slot.nonce for slot in account.slots] == [0]


@in_virtual_time
async def test_a_message_beyond_the_days_budget_waits() -> None:
    account = Account()
    sender = account.sender()
    async with account.looked_after(sender):
        with pytest.raises(SpendBlockedError, match=r"dlq\.governance\.wei_per_day is 1 wei"):
            await send(messages(account, sender), wei_per_day=1)
        assert account.slots == []
        await send(messages(account, sender))
    assert [slot.nonce for slot in account.slots] == [0]
