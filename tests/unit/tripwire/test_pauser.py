"""How a pause gets into a block, on a simulated chain."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from eth_account import Account

from bridge.domain.ports import Block, Call, CallRevertedError, Fees, TransientError
from bridge.evm.signing import LocalSigner, UnsignedTransaction
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from bridge.tripwire.pauser import Pauser, RefusedPauseError
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import ROUTER_ADDRESS, Emitted, State
from tests.support.simulation.time import VirtualClock, run_in_virtual_time

KEY = Account.from_key("0x" + "55" * 32)
SECONDS = 3_600


class AskedChain(SimulatedChain):
    """Notes what is asked of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.asked: list[str] = []
        self.refuses_pauses = False

    async def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> bytes:
        if self.refuses_pauses and call.data[:4] == ROUTER.selector("pauseGmp"):
            raise CallRevertedError(b"")
        return await super().call(call, sender=sender, block=block)

    async def head(self) -> Block:
        self.asked.append("head")
        return await super().head()

    async def fees(self, limit: int | None = None) -> Fees:
        self.asked.append("fees")
        return await super().fees(limit)

    async def broadcast(self, transaction: bytes) -> None:
        self.asked.append("broadcast")
        await super().broadcast(transaction)


def play(work: Callable[[AskedChain, Pauser], Awaitable[None]]) -> None:
    """A chain with a block every two seconds, and the tripwire's account on it."""

    async def playing() -> None:
        chain = AskedChain(1, random.Random(1), now=VirtualClock().now)
        chain.fund(KEY.address, 10**24)
        chain.mine()

        async def mining() -> None:
            while True:
                await asyncio.sleep(2)
                chain.mine()

        blocks = asyncio.create_task(mining())
        try:
            await work(chain, Pauser(chain, ROUTER_ADDRESS, LocalSigner(KEY)))
        finally:
            blocks.cancel()

    run_in_virtual_time(playing())


def paused(chain: SimulatedChain, *gmps: Gmp) -> bool:
    return all(chain.state.pauses.get(int(gmp), 0) > chain.state.timestamp for gmp in gmps)


def resume(state: State) -> list[Emitted]:
    """A person ends all pauses."""
    state.pauses.clear()
    return []


def test_a_pause_that_was_prepared_is_sent_without_a_question() -> None:
    async def work(chain: AskedChain, pauser: Pauser) -> None:
        await pauser.prepare(Gmp.AXELAR, SECONDS)
        chain.asked.clear()
        height = chain.height
        done = await pauser.pause(Gmp.AXELAR, SECONDS)
        assert chain.asked[0] == "broadcast"
        assert done.block == height + 1
        assert paused(chain, Gmp.AXELAR)

    play(work)


def test_a_pause_that_the_router_would_refuse_is_not_sent() -> None:
    async def work(chain: AskedChain, pauser: Pauser) -> None:
        chain.refuses_pauses = True
        with pytest.raises(RefusedPauseError, match="the router refuses"):
            await pauser.pause(Gmp.AXELAR, SECONDS)
        assert "broadcast" not in chain.asked
        assert not paused(chain, Gmp.AXELAR)

    play(work)


def test_what_was_prepared_too_long_ago_is_asked_again() -> None:
    async def work(chain: AskedChain, pauser: Pauser) -> None:
        await pauser.prepare(Gmp.AXELAR, SECONDS)
        await asyncio.sleep(60)
        chain.asked.clear()
        await pauser.pause(Gmp.AXELAR, SECONDS)
        assert chain.asked[0] != "broadcast"

    play(work)


def test_pauses_prepared_with_the_same_nonce_get_in_beside_each_other_and_after_each_other() -> None:
    async def work(chain: AskedChain, pauser: Pauser) -> None:
        for gmp in (Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE):
            await pauser.prepare(gmp, SECONDS)
        height = chain.height
        await asyncio.gather(*(pauser.pause(gmp, SECONDS) for gmp in (Gmp.HYPERLANE, Gmp.AXELAR)))
        assert chain.height == height + 1
        await pauser.pause(Gmp.WORMHOLE, SECONDS)
        assert chain.height == height + 2
        assert paused(chain, Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE)

    play(work)


def test_a_nonce_that_another_transaction_used_costs_no_patience() -> None:
    async def work(chain: AskedChain, pauser: Pauser) -> None:
        await pauser.prepare(Gmp.AXELAR, SECONDS)
        foreign = UnsignedTransaction(
            chain_id=1, nonce=0, to=ROUTER_ADDRESS, data=b"", value=0, gas=21_000, fees=await chain.fees()
        )
        await chain.broadcast((await LocalSigner(KEY).sign(foreign)).raw)
        await asyncio.sleep(3)
        began = asyncio.get_running_loop().time()
        with pytest.raises(TransientError, match="another transaction has used nonce 0"):
            await pauser.pause(Gmp.AXELAR, SECONDS)
        await pauser.pause(Gmp.AXELAR, SECONDS)
        assert asyncio.get_running_loop().time() - began < 6
        assert paused(chain, Gmp.AXELAR)

    play(work)


def test_a_gmp_that_is_paused_already_is_looked_at_again_before_that_is_believed() -> None:
    async def work(chain: AskedChain, pauser: Pauser) -> None:
        await pauser.pause(Gmp.AXELAR, SECONDS)
        await pauser.prepare(Gmp.AXELAR, SECONDS)
        assert (await pauser.pause(Gmp.AXELAR, SECONDS)).block is None, "it is there already"
        await pauser.prepare(Gmp.AXELAR, SECONDS)
        chain.submit(resume)
        await asyncio.sleep(3)
        done = await pauser.pause(Gmp.AXELAR, SECONDS)
        assert done.block is not None
        assert paused(chain, Gmp.AXELAR)

    play(work)
