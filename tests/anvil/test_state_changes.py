"""One state change for two chains, of which one is down: it is brought forward after 300 seconds, and applied there once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account
from eth_typing import Hash32
from web3.types import TxReceipt

from bridge import devnet as devnets
from bridge.client import Client, RouteRequest
from bridge.devnet import Devnet
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY, account
from bridge.devnet.gmps import devnet_attesters
from bridge.domain.finality_records import Heartbeat, SyncProgress
from bridge.domain.jobs import SyncJob, SyncState
from bridge.domain.lanes import Lane
from bridge.domain.ports import Call
from bridge.evm.chain import EvmChain, open_chains
from bridge.protocol.contracts import INBOX
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.events import MessageRouted, decode_event
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.service.relayer_service import RelayerService, SystemClock, open_relayer
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.relayers import until
from tests.anvil.rpc import free_ports, rpc
from tests.anvil.test_dead_letters import DELEGATES_TO, broken_axelar
from tests.anvil.test_relayer import blocks, settings
from tests.anvil.traffic import DAPP, transact
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

DAY = 86_400
OWNER = account(DEPLOYER_KEY)
HASTY = {
    "retry_keys": DAPP_KEY,
    "sync": {"heartbeat": 0.5},
    "policies": {"state_sync": {"max_retries": 200, "base": 0.3, "cap": 1}},
}
IN_STEP = SyncProgress(primary_final=2, applied=2, lag_seconds=0)
BATCHES = "0x" + "ba" * 20
# What an account that delegates to it makes of its calldata: (value, target, size, data) again and again, a call each.
BATCH_CODE = (
    "0x5f"  # the place in the calldata
    "5b368110600957005b"  # stop at its end
    "80604001358082606001" "5f37"  # size; data to memory
    "5f5f825f85358660200135" "5af1"  # call target with value and data
    "15602e57"  # revert if it does
    "01606001600156" "5b5f5ffd"  # the next one
)  # fmt: skip


class SetClock(SystemClock):
    """The machine's time and what a test adds to it, or a moment at which it stands still."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._stands_at: float | None = None

    def now(self) -> float:
        return time.time() + self.ahead if self._stands_at is None else self._stands_at

    def stand_at(self, moment: float) -> None:
        self._stands_at = moment

    def go_on_from(self, moment: float) -> None:
        self.ahead, self._stands_at = moment - time.time(), None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    made = SetClock()
    monkeypatch.setattr("bridge.service.relayer_service.SystemClock", lambda: made)
    return made


@pytest.fixture(scope="module")
def three_chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    home = tmp_path_factory.mktemp("devnet")
    try:
        yield asyncio.run(devnets.up(home=home, chains=3, block_time=0, first_port=free_ports(3)[0]))
    finally:
        devnets.down(home=home)


class Batch(Client):
    """Keeps the transactions that it would send."""

    def __init__(self, devnet: Devnet, chains: dict[int, EvmChain]) -> None:
        super().__init__(devnet.deployment, chains, DAPP)
        self.calls: list[Call] = []

    async def _transact(self, where: ChainDeployment, data: bytes, value: int) -> TxReceipt:
        self.calls.append(Call(to=where.router, data=data, value=value))
        raise CollectedError


class CollectedError(Exception):
    """Nothing was sent: the call was kept."""


class StateChanges:
    """State changes of alpha's example dApp, each for all other chains in one transaction, and what became of them there."""

    def __init__(self, devnet: Devnet, chains: dict[int, EvmChain]) -> None:
        self.alpha, *self.destinations = devnet.deployment.chains
        self._devnet = devnet
        self._chains = chains
        self._client = Client(devnet.deployment, chains)
        rpc(self.alpha.rpc_urls[0], "anvil_setCode", BATCHES, BATCH_CODE)
        rpc(self.alpha.rpc_urls[0], "anvil_setCode", DAPP.address, DELEGATES_TO + BATCHES.removeprefix("0x"))

    async def send(self, payload: bytes, gmp: Gmp) -> list[Message]:
        batch = Batch(self._devnet, self._chains)
        for destination in self.destinations:
            request = RouteRequest(
                destination=destination.chain_id,
                recipient=destination.examples["inbox"],
                payload=payload,
                gmps=(gmp,),
                kind=Kind.STATE_SYNC,
                ttl=DAY,
            )
            with pytest.raises(CollectedError):
                await batch.route("alpha", request)
        data = b"".join(_packed(call) for call in batch.calls)
        receipt = await transact(self._chains[self.alpha.chain_id], DAPP, Call(to=DAPP.address, data=data))
        events = [decode_event(log.topics, log.data) for log in receipt.logs if log.address == self.alpha.router]
        sent = [decode_envelope(one.envelope).message for one in events if isinstance(one, MessageRouted)]
        assert [one.destination_chain for one in sent] == [one.chain_id for one in self.destinations]
        return sent

    async def close_inbox(self, chain: str, *, closed: bool) -> None:
        destination = next(one for one in self.destinations if one.name == chain)
        call = Call(to=destination.examples["inbox"], data=INBOX.encode("setClosed", closed))
        assert (await transact(self._chains[destination.chain_id], OWNER, call)).succeeded

    async def applied(self, message: Message) -> int:
        """How often the recipient took it."""
        destination = next(one for one in self.destinations if one.chain_id == message.destination_chain)
        call = Call(to=destination.examples["inbox"], data=INBOX.encode("timesReceived", message.id))
        return int(INBOX.decode("timesReceived", await self._chains[destination.chain_id].call(call)))

    async def received(self, message: Message) -> frozenset[Gmp]:
        return (await self._client.progress(message)).receipts

    async def has_received(self, message: Message, gmp: Gmp) -> bool:
        return gmp in await self.received(message)


def _packed(call: Call) -> bytes:
    words = (call.value, int(call.to, 16), len(call.data))
    return b"".join(word.to_bytes(32, "big") for word in words) + call.data


@dataclass(frozen=True, slots=True)
class Relaying:
    """A relayer that reaches gamma through a proxy, which may be down."""

    bridge: RelayerService
    changes: StateChanges
    gamma: FaultProxy

    def followed(self, message: Message) -> SyncJob:
        found = self.bridge.store.jobs.newest(SyncJob, message.id)
        assert found is not None
        return found

    async def until_all(self, state: SyncState, *sent: Message) -> None:
        jobs = self.bridge.store.jobs
        await until(
            lambda: all(getattr(jobs.newest(SyncJob, one.id), "state", None) is state for one in sent), f"{state}"
        )

    async def until_applied(self, clock: SetClock, *sent: Message) -> None:
        async def applied() -> bool:
            return all(self.followed(one).state is SyncState.APPLIED for one in sent)

        await sooner_or_later(applied, clock)

    def heartbeat_of(self, message: Message) -> Heartbeat:
        lane = Lane(message.source_chain, message.destination_chain)
        (found,) = [one for one in self.bridge.store.finality_records.heartbeats() if one.lane == lane]
        signer = Account._recover_hash(Hash32(found.digest), signature=found.signature)
        assert signer == found.signer == self.bridge.dead_letter_service.sealer.address
        return found


@asynccontextmanager
async def opened(devnet: Devnet, folder: Path) -> AsyncIterator[Relaying]:
    """Everything is connected, and does nothing yet."""
    gamma = FaultProxy(devnet.deployment.chain("gamma").rpc_urls[0], seed=0, share=0)
    async with gamma.serving() as url, open_chains(devnet.deployment) as chains:
        through = tuple(
            one.model_copy(update={"rpc_urls": (url,)}) if one.name == "gamma" else one
            for one in devnet.deployment.chains
        )
        deployment = devnet.deployment.model_copy(update={"chains": through})
        async with open_relayer(deployment, settings(folder, **HASTY), devnet_attesters) as bridge:
            yield Relaying(bridge, StateChanges(devnet, chains), gamma)


@asynccontextmanager
async def at_work(devnet: Devnet, folder: Path) -> AsyncIterator[Relaying]:
    async with opened(devnet, folder) as relaying, blocks(devnet):
        task = asyncio.create_task(relaying.bridge.run())
        try:
            yield relaying
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # chains tell nobody
            await asyncio.sleep(0.1)


async def sooner_or_later(condition: Callable[[], Awaitable[bool]], clock: SetClock) -> None:
    """As `eventually`, and time passes fast: looks are a minute apart by now, and a circuit breaker may be open."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            clock.ahead += 30
            await asyncio.sleep(0.5)


@pytest.mark.long
async def test_a_change_whose_one_destination_is_down_is_brought_forward_after_300_seconds_and_applied_once_on_each(
    three_chains: Devnet, tmp_path: Path, clock: SetClock
) -> None:
    async with at_work(three_chains, tmp_path) as work:
        changes = work.changes
        await changes.close_inbox("gamma", closed=True)
        refused = await changes.send(b"its recipient refuses it", Gmp.HYPERLANE)
        await eventually(lambda: changes.has_received(refused[1], Gmp.HYPERLANE))
        await changes.close_inbox("gamma", closed=False)
        work.gamma.is_down = True
        on_beta, on_gamma = late = await changes.send(b"its destination is down", Gmp.AXELAR)
        await work.until_all(SyncState.APPLIED, refused[0], on_beta)
        await work.until_all(SyncState.PENDING, refused[1], on_gamma)
        await _is_brought_forward_when_it_lags(three_chains, work, clock, late)
        await sooner_or_later(lambda: changes.has_received(on_gamma, Gmp.AXELAR), clock)
        await work.until_applied(clock, *refused, *late)
        assert [await changes.applied(one) for one in (*refused, *late)] == [1, 1, 1, 1]
        assert [work.followed(one).tries for one in (*refused, *late)] == [0, 1, 0, 1]
        assert await changes.received(refused[1]) == {Gmp.HYPERLANE}, "it was executed, not sent again"
        traced = work.bridge.store.jobs.of_change(work.followed(on_beta).record)
        assert {one.record.message_id for one in traced} == {one.id for one in late}
        await until(lambda: work.heartbeat_of(on_gamma).progress == IN_STEP, "nothing lags any more")
    await _what_its_destination_has_lost_is_applied_again(three_chains, tmp_path, clock, on_gamma)


async def _is_brought_forward_when_it_lags(
    devnet: Devnet, work: Relaying, clock: SetClock, late: Sequence[Message]
) -> None:
    """At 299 seconds it is looked at and left alone; at 301 it goes another way, since the first one is barred."""
    on_beta, on_gamma = late
    final_at = work.followed(on_gamma).record.final_at
    clock.stand_at(final_at + 200)
    await until(lambda: work.heartbeat_of(on_gamma).progress.lag_seconds >= 200, "gamma lags")
    assert work.heartbeat_of(on_beta).progress == IN_STEP
    with broken_axelar(devnet, "gamma"):
        work.gamma.is_down = False
        clock.stand_at(final_at + 299)
        await until(lambda: work.followed(on_gamma).available_at > final_at + 299, "gamma is asked")
        assert [work.followed(one).tries for one in late] == [0, 0]
        clock.go_on_from(final_at + 301)
        await eventually(lambda: _is_applied(work, on_gamma))
        await until(lambda: [work.followed(one).tries for one in late] == [0, 1], "brought forward once")
        assert Gmp.AXELAR not in await work.changes.received(on_gamma), "it went another way"


async def _is_applied(work: Relaying, message: Message) -> bool:
    return await work.changes.applied(message) > 0


async def _what_its_destination_has_lost_is_applied_again(
    devnet: Devnet, folder: Path, clock: SetClock, message: Message
) -> None:
    """A reorg deeper than finality takes it away: the primary record wins, and stays verifiable."""
    async with opened(devnet, folder) as work:
        gamma = devnet.deployment.chain("gamma")
        url, topics = gamma.rpc_urls[0], [None, f"0x{message.id.hex()}"]
        wanted = {"address": gamma.examples["inbox"], "topics": topics, "fromBlock": "0x0"}
        (taken,) = rpc(url, "eth_getLogs", wanted)
        since = int(rpc(url, "eth_blockNumber"), 16) - int(taken["blockNumber"], 16) + 1
        rpc(url, "anvil_reorg", since, [])
        assert await work.changes.applied(message) == 0
        reconciled = await work.bridge.propagation.reconcile(message.id)
        assert reconciled.state is SyncState.PENDING
    async with at_work(devnet, folder) as work:
        await work.until_applied(clock, message)
        assert await work.changes.applied(message) == 1
        record = work.followed(message).record
        signer = Account._recover_hash(Hash32(record.digest), signature=record.signature)
        assert signer == work.bridge.dead_letter_service.sealer.address
