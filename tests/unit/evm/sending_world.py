"""One account on one simulated chain."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from bridge.evm.sender import Sender
from bridge.evm.settings import SendingSettings
from bridge.evm.signing import Signer
from bridge.protocol.ports import Call, Chain
from bridge.records.observations import BlockRef, ObservedRange
from bridge.records.transactions import Slot
from bridge.store import Store
from bridge.store.observations import Finality
from tests.support.settings import tuned
from tests.support.simulation import RELAYER, SimulatedChain, VirtualClock
from tests.support.stores import memory_store

CHAIN = 31337
SOMEBODY = "0x" + "7E" * 20
SETTINGS = tuned(
    SendingSettings(poll_interval=0.5, fee_bump_after=15, max_calls_per_tx=1),
    FOREIGN=5,
    INCLUSION_TIMEOUT=60,
    RESERVATION=3,
)


class Account:
    """A chain that mines every second, and senders of one key on it. The store outlives them."""

    def __init__(self, *, wei: int = 10**24) -> None:
        self.clock = VirtualClock()
        self.chain = SimulatedChain(CHAIN, random.Random(1), now=self.clock.now)
        self.chain.fund(RELAYER.address, wei)
        self.store: Store = memory_store()
        self.mining = True

    def sender(
        self,
        *,
        chain: Chain | None = None,
        store: Store | None = None,
        signer: Signer = RELAYER,
        settings: SendingSettings = SETTINGS,
        multicall: str | None = None,
    ) -> Sender:
        kept = store or self.store
        return Sender(
            chain or self.chain,
            signer,
            kept.transactions,
            self.clock,
            finality=Finality(kept.observations, CHAIN),
            settings=settings,
            multicall=multicall,
        )

    def chain_with(self, **methods: Callable[..., Awaitable[Any]]) -> Chain:
        """The chain, but for some methods."""
        return cast(Chain, _Overridden(self.chain, methods))

    @property
    def slots(self) -> list[Slot]:
        return self.store.transactions.slots(CHAIN, RELAYER.address)

    def confirm_up_to(self, number: int) -> None:
        """As an observer does: what is at that height counts as final."""
        observations = self.store.observations
        cursor = observations.cursor(CHAIN)
        observations.record(
            ObservedRange(
                chain_id=CHAIN,
                previous=cursor.position if cursor else None,
                position=BlockRef(number, bytes([number]) * 32),
                watched="",
                observed_at=0,
            )
        )

    @asynccontextmanager
    async def mining_blocks(self) -> AsyncIterator[None]:
        async def mine() -> None:
            while True:
                await asyncio.sleep(1)
                if self.mining:
                    self.chain.mine()

        task = asyncio.create_task(mine())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def looked_after(self, *senders: Sender) -> AsyncIterator[None]:
        """Blocks come, and the senders' transactions are looked after."""

        async def tick(sender: Sender) -> None:
            while True:
                await sender.tick()
                await asyncio.sleep(0.5)

        async with self.mining_blocks():
            tasks = [asyncio.create_task(tick(sender)) for sender in senders]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                errors = [one for one in results if isinstance(one, Exception)]
                if errors:
                    raise errors[0]


class _Overridden:
    def __init__(self, chain: SimulatedChain, methods: dict[str, Callable[..., Awaitable[Any]]]) -> None:
        self._chain = chain
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._chain, name)


def call(number: int = 0, *, value: int = 1, gas: int | None = 60_000) -> Call:
    return Call(to=SOMEBODY, data=bytes([number]), value=value, gas=gas)
