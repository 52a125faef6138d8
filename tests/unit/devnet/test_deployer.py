"""The devnet's deployer, on a chain that forgets."""

from __future__ import annotations

import asyncio
import random

import pytest
from eth_account import Account

from bridge.devnet.deployer import Deployer
from bridge.devnet.errors import DevnetError
from tests.cases import for_each_case
from tests.support.simulation import Faults, SimulatedChain, VirtualClock
from tests.virtual_time import in_virtual_time

CHAIN = 31337
PAYER = Account.from_key("0x" + "33" * 32)
SOMEBODY = "0x" + "11" * 20


async def mining(chain: SimulatedChain) -> None:
    while True:
        await asyncio.sleep(1)
        chain.mine()


@for_each_case("seed", range(5))
@in_virtual_time
async def test_what_the_chain_took_and_forgot_is_sent_again(seed: int) -> None:
    chain = SimulatedChain(CHAIN, random.Random(seed), faults=Faults(forgets=0.6), now=VirtualClock().now)
    chain.fund(PAYER.address, 10**24)
    deployer = await Deployer.on(chain, PAYER)
    for _ in range(6):
        deployer.fund(SOMEBODY, 1)
    miner = asyncio.create_task(mining(chain))
    await deployer.send()
    miner.cancel()
    assert chain.state.nonces[PAYER.address] == 6
    assert chain.broadcasts > 6


class _Stuck(SimulatedChain):
    """Says that it has the first transaction it was given, each time, and never includes those bytes."""

    stuck: bytes | None = None

    async def broadcast(self, transaction: bytes) -> None:
        self.stuck = self.stuck or transaction
        if transaction != self.stuck:
            await super().broadcast(transaction)


@in_virtual_time
async def test_bytes_that_the_chain_keeps_for_itself_are_replaced() -> None:
    chain = _Stuck(CHAIN, random.Random(1), now=VirtualClock().now)
    chain.fund(PAYER.address, 10**24)
    deployer = await Deployer.on(chain, PAYER)
    deployer.fund(SOMEBODY, 1)
    deployer.fund(SOMEBODY, 2)
    miner = asyncio.create_task(mining(chain))
    await deployer.send()
    miner.cancel()
    assert chain.state.nonces[PAYER.address] == 2


@in_virtual_time
async def test_what_is_never_included_is_an_error_that_names_the_step() -> None:
    chain = SimulatedChain(CHAIN, random.Random(1), now=VirtualClock().now)
    chain.fund(PAYER.address, 10**24)
    deployer = await Deployer.on(chain, PAYER)
    deployer.fund(SOMEBODY, 1)
    with pytest.raises(DevnetError, match=rf"funding {SOMEBODY} was not included on chain {CHAIN} within 120 s"):
        await deployer.send()
