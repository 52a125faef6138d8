"""What a relayer costs its endpoints while nothing happens: one HTTP request for each block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge.evm.chain import EvmChain
from bridge.evm.finality import FinalityRule
from bridge.protocol.ports import Block
from bridge.relayer.completeness import Completeness
from bridge.relayer.confirmation import Confirmation
from bridge.relayer.observer import BlockTime, Observer
from bridge.relayer.seen_capacity import SeenCapacity
from bridge.service.relayer_service import SystemClock
from bridge.store.observations import Finality
from tests.cases import for_each_case
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS, ROUTER_ADDRESS
from tests.support.stores import memory_store
from tests.unit.evm.rpc_server import Answer, RpcServer

ALPHA, BETA = 31337, 31338


def hash_of(number: int) -> str:
    return f"0x{number + 1:064x}"


class Quiet:
    """A chain of empty blocks, two seconds each."""

    def __init__(self) -> None:
        self.head = 30

    def __call__(self, method: str, params: list[Any]) -> Answer:
        match method:
            case "eth_getLogs":
                return {"result": []}
            case "eth_call":
                return {"result": "0x" + "00" * 64}  # no message was sent on any lane
        number = self.head if params[0] == "latest" else int(params[0], 16)
        block = {
            "number": hex(number),
            "hash": hash_of(number),
            "parentHash": hash_of(number - 1),
            "timestamp": hex(1_700_000_000 + 2 * number),
        }
        return {"result": block if number <= self.head else None}


class Idle:
    """Observation and confirmation of one chain, as the relayer puts them together."""

    def __init__(self, chain: EvmChain, confirmations: int) -> None:
        store, clock = memory_store(), SystemClock()
        self.chain = chain
        self.observer = Observer(
            chain,
            ROUTER_ADDRESS,
            [SimulatedAdapter(gmp, {}) for gmp in GMPS],
            store.observations,
            clock,
            start_block=0,
            finality=FinalityRule(confirmations),
            block_range=2_000,
            capacity=SeenCapacity(store.outbox, None, clock),
            completeness=Completeness(chain, ROUTER_ADDRESS, [BETA], store.observations, clock, every=0),
            asset_classes=(),
            found=lambda _: None,
        )
        self.confirmation = Confirmation(
            chain,
            ROUTER_ADDRESS,
            store.outbox,
            store.jobs,
            clock,
            finality=Finality(store.observations, ALPHA),
            head=self.observer.head,
        )
        self.height = Finality(store.observations, ALPHA).height

    async def look(self) -> None:
        while await self.observer.step():
            pass
        await self.confirmation.step()


@asynccontextmanager
async def idle(quiet: Quiet, confirmations: int) -> AsyncIterator[tuple[Idle, RpcServer]]:
    server = await RpcServer(quiet).start()
    try:
        async with await EvmChain.connect(ALPHA, [server.url]) as chain:
            yield Idle(chain, confirmations), server
    finally:
        await server.stop()


@pytest.mark.parametrize("confirmations", [1, 2, 12])
async def test_each_block_costs_one_http_request_and_is_read(confirmations: int) -> None:
    quiet = Quiet()
    async with idle(quiet, confirmations) as (relayer, server):
        await relayer.look()
        before = server.exchanges
        for _ in range(20):
            quiet.head += 1
            await relayer.look()
            assert relayer.height() == max(-1, quiet.head - confirmations)
        assert server.exchanges - before == 20


@for_each_case(
    "times, pause",
    [
        ([12, 12, 24, 12], 12),  # a block was left out
        ([2, 2, 2], 2),
        ([1, 1, 1], 0.5),  # whole seconds: it may be less
        ([0.25, 0.25], 0.5),
        ([600, 600], 15),
        ([300, 1, 900], 0.5),  # a devnet that makes blocks when there is something to put into them
        ([], 0.5),
    ],
)
def test_a_chain_is_looked_at_as_often_as_its_blocks_come(times: list[float], pause: float) -> None:
    block_time, now = BlockTime(), 1_700_000_000.0
    block_time.saw(Block(0, bytes(32), bytes(32), int(now)))
    for number, seconds in enumerate(times, start=1):
        now += seconds
        block_time.saw(Block(number, bytes(32), bytes(32), int(now)))
    assert block_time.pause(0.5) == pause
