"""One life of a small relayer: the real store, outbox, sender and commits on a real chain, from observing to the end.

A delivery adds one to a count of its own, so that the chain itself says how often each message was executed, and an account of its
own pays for each history. Everything else is the relayer's own code.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eth_account import Account
from eth_utils import keccak

from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.signing import KeySealer
from bridge.evm.chain import EvmChain
from bridge.evm.sender import Sender
from bridge.evm.settings import SendingSettings
from bridge.evm.signing import LocalSigner
from bridge.evm.supervision import run_forever
from bridge.protocol.deployment import Deployment
from bridge.protocol.errors import CursorMovedError
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import ChoiceBounds, OperatorPolicies
from bridge.protocol.ports import Call, Dispatch, Log, Watch
from bridge.records.outbox import OutboxState
from bridge.records.relay_policy import EVERYTHING
from bridge.relayer.breaker import GmpHealth
from bridge.relayer.delivery import Deliveries
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.relayer.policies import Policies
from bridge.relayer.settings import RelaySettings
from bridge.relayer.spending import SpendGate
from bridge.store import Store, open_dead_letters
from bridge.store.observations import Finality
from tests.builders import BETA, block, message, observed_range
from tests.support.settings import tuned
from tests.waiting import PATIENCE

MESSAGES = 3

ROOT: Final = Path(__file__).resolve().parents[3]
MULTICALL: Final = "0x" + "CC" * 20
COUNTER: Final = "0x" + "C0" * 20
COUNTER_CODE: Final = "0x36602014601157" + "5f358054600101905500" + "5b5f35545f5260205ff3"
"""Data of 32 bytes asks for the count of that name; any more behind them adds one to it."""
ROUTER: Final = "0x" + "A0" * 20
ROUTER_CODE: Final = "0x60015f5260205ff3"
"""Answers every call with true: the router has a receipt once the count shows the delivery."""


def multicall_code() -> str:
    """What runs at `MULTICALL`, as `python -m scripts.release` compiled it."""
    artifact = ROOT / "build" / "release" / "out" / "BoundedMulticall.sol" / "BoundedMulticall.json"
    return str(json.loads(artifact.read_text())["deployedBytecode"]["object"])


@dataclass(frozen=True, slots=True)
class History:
    """What the lives of one relayer share: its store, its account and its messages."""

    name: str
    folder: Path
    rpc_url: str
    strategy: CommitStrategy
    max_calls_per_tx: int  # deliveries to a transaction at most

    @property
    def key(self) -> str:
        """The private key of the account that pays."""
        return "0x" + keccak(text=f"key of {self.name}").hex()

    @property
    def account(self) -> str:
        """The account that pays."""
        return LocalSigner.from_key(self.key).address

    @property
    def url(self) -> str:
        """The store's."""
        return f"sqlite:///{self.folder}/bridge.db"

    @property
    def counts(self) -> list[bytes]:
        """The name of each message's count, by its place."""
        return [count_of(self.name, nonce) for nonce in range(1, MESSAGES + 1)]


def count_of(history: str, nonce: int) -> bytes:
    """The name of a count that belongs to one message of one history."""
    return keccak(text=f"{history} counts {nonce}")


class Clock:
    """The machine's time plus `ahead` seconds, so that leases of an earlier life have expired in the next."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def now(self) -> float:
        """Unix seconds."""
        return time.time() + self._ahead

    async def sleep(self, seconds: float) -> None:
        """Returns after that many seconds."""
        await asyncio.sleep(seconds)


_GAS: Final = 60_000


class OneMore:
    """A GMP whose delivery adds one to a count, and whose receipt is that count."""

    gmp = Gmp.HYPERLANE

    def __init__(self, history: History, chain: EvmChain) -> None:
        self._history = history
        self.chain = chain

    def watch(self, chain_id: int) -> Watch:
        """See `Adapter.watch`."""
        return Watch((), ())

    def dispatches(self, chain_id: int, logs: Sequence[Log]) -> list[Dispatch]:
        """See `Adapter.dispatches`."""
        return []

    def delivery_gas(self, envelope: bytes) -> int:
        """See `Adapter.delivery_gas`."""
        return _GAS

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Adapter.attest`."""
        return b""

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """See `Adapter.next_call`."""
        count = count_of(self._history.name, int(dispatch.evidence["index"]))
        if int.from_bytes(await self.chain.call(Call(to=COUNTER, data=count)), "big") > 0:
            return None
        return Call(to=COUNTER, data=count + b"+", gas=_GAS, by_anyone=True)


def live(history: History, number: int) -> None:
    """Runs until every message is delivered and every nonce is used, or the process is killed.

    Raises:
        TimeoutError: it does not come to an end.
    """
    asyncio.run(_live(history, number))


async def _live(history: History, number: int) -> None:
    store, clock = Store(history.url), Clock(ahead=100 * number)
    async with await EvmChain.connect(BETA, [history.rpc_url]) as chain:
        signer = LocalSigner.from_key(history.key)
        sender = Sender(
            chain,
            signer,
            store.transactions,
            clock,
            finality=Finality(store.observations, BETA),
            settings=tuned(
                SendingSettings(poll_interval=0.02, fee_bump_after=0.9, max_calls_per_tx=history.max_calls_per_tx),
                RESERVATION=0.1,
                FOREIGN=0.5,
                INCLUSION_TIMEOUT=30,
            ),
            multicall=MULTICALL,
        )
        deliveries = _deliveries(history, store, sender, OneMore(history, chain), clock)
        tasks = [
            asyncio.create_task(run_forever("send", sender.tick, every=0.02)),
            asyncio.create_task(run_forever("deliver", deliveries.step, every=0.02, wakeup=deliveries.wakeup)),
        ]
        try:
            _observe(store, clock)
            async with asyncio.timeout(PATIENCE):
                while not _is_over(store, history):  # a database tells nobody
                    await asyncio.sleep(0.01)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await deliveries.stop()
            await sender.close()
    store.close()


def _deliveries(history: History, store: Store, sender: Sender, adapter: OneMore, clock: Clock) -> Deliveries:
    settings = RelaySettings(poll_interval=0.02, lease=30, commit=history.strategy, commit_seconds=0.2)
    dead_letters = open_dead_letters(history.url)
    return Deliveries(
        worker=f"life at {clock.now()}",
        chain=adapter.chain,
        router=ROUTER,
        adapters={adapter.gmp: adapter},
        outbox=store.outbox,
        dead_letters=DeadLetterQueue(dead_letters, store, KeySealer(Account.from_key(history.key)), clock),
        sender=sender,
        gate=SpendGate(store.spending, clock),
        health=GmpHealth(BETA, store.figures, clock),
        policies=Policies(Deployment.model_construct(), {}, OperatorPolicies(bounds=ChoiceBounds(enabled=False))),
        clock=clock,
        random=random.random,
        final_height=lambda: 0,
        settings=settings,
        acceptance=EVERYTHING,
    )


def _observe(store: Store, clock: Clock) -> None:
    messages = [message(nonce) for nonce in range(1, MESSAGES + 1)]
    try:
        store.observations.record(observed_range(*messages, position=block(10), now=clock.now() - 1))
    except CursorMovedError:
        assert len(store.outbox.listed(limit=99)) == MESSAGES, "cursor and entries were not committed together"


def _is_over(store: Store, history: History) -> bool:
    counts = {(one.state, one.count) for one in store.outbox.counts()}
    return counts == {(OutboxState.DELIVERED, MESSAGES)} and not store.transactions.open_slots(BETA, history.account)
