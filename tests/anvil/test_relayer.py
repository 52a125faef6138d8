"""The real relayer on real chains with the real GMPs: it delivers, is killed, and goes on; reorgs on either side are survived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.client import Client, Sent
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, DAPP_KEY, RELAYER_KEY, account
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import EvmChain
from bridge.protocol.errors import StoreMismatchError
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.records.outbox import OutboxState
from bridge.records.transactions import SlotState
from bridge.service.relayer_service import RelayerService, open_relayer
from bridge.service.settings import Settings
from bridge.store import Store
from tests.anvil.relayers import process, until
from tests.anvil.rpc import mine, rpc
from tests.anvil.traffic import RELAYER, World
from tests.asking_index import asking_index
from tests.builders import retry_request
from tests.waiting import PATIENCE

GMPS = (Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE)
STRANGER = account(ANVIL_KEYS[5])
pytestmark = pytest.mark.timeout(4 * PATIENCE)  # a wait that ends by itself stops what the test started; this does not


def settings(folder: Path, **changes: object) -> Settings:
    values = {
        "relayer_key": RELAYER_KEY,
        "store": f"sqlite:///{folder}/bridge.db",
        "poll_interval": 0.1,
        "fee_bump_after": 3,
        "policies": {"plain": {"base": 0.3, "cap": 3}},
        "retry_for": ["any"],
    }
    return Settings.load(**{**values, **changes})


@asynccontextmanager
async def blocks(devnet: Devnet) -> AsyncIterator[None]:
    """Blocks come on every chain, also without transactions."""

    async def keep_mining() -> None:
        while True:
            await asyncio.sleep(0.3)
            for chain in devnet.chains:
                await asyncio.to_thread(mine, chain.url)

    task = asyncio.create_task(keep_mining())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def relaying(devnet: Devnet, folder: Path, **changes: object) -> AsyncIterator[RelayerService]:
    async with open_relayer(devnet.deployment, settings(folder, **changes), devnet_attesters) as bridge:
        task = asyncio.create_task(bridge.run())
        try:
            yield bridge
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Traffic:
    """Messages of the example dApp, and what became of them."""

    def __init__(self, devnet: Devnet, chains: Mapping[int, EvmChain]) -> None:
        self._world = World(devnet.deployment, chains)
        self._client = Client(devnet.deployment, chains)
        self.sent: list[Sent] = []
        self._payloads = 0

    async def send(
        self, *gmps: Gmp, source: str = "alpha", destination: str = "beta", quorum: int | None = None
    ) -> Message:
        self._payloads += 1  # an equal message in the same second would have the same id once its nonce is free again
        payload = f"message {self._payloads}".encode()
        self.sent.append(
            await self._world.send(*gmps, source=source, destination=destination, quorum=quorum, payload=payload)
        )
        return self.sent[-1].message

    async def all_executed(self) -> None:
        ends = time.monotonic() + PATIENCE
        for one in self.sent:
            progress = await self._client.wait(one.message, timeout=max(ends - time.monotonic(), 0))
            assert progress.executed, f"message {one.message.nonce} has {progress.receipts}"

    async def all_received(self) -> None:
        async with asyncio.timeout(PATIENCE):
            for one in self.sent:
                while (await self._client.progress(one.message)).receipts != one.gmps:  # chains tell nobody
                    await asyncio.sleep(0.1)


def nonces_are_all_used(store: Store, devnet: Devnet) -> None:
    """Each nonce from the first one on has a slot, and each slot ended in a block."""
    for chain in devnet.deployment.chains:
        slots = store.transactions.slots(chain.chain_id, RELAYER.address)
        assert [slot.nonce for slot in slots] == list(range(slots[0].nonce, slots[0].nonce + len(slots)))
        assert {slot.state for slot in slots} <= {SlotState.INCLUDED, SlotState.FINAL}
        count = int(rpc(chain.rpc_urls[0], "eth_getTransactionCount", RELAYER.address, "latest"), 16)
        assert count == slots[-1].nonce + 1


async def test_all_gmps_both_ways_waste_no_transaction(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic = Traffic(devnet, chains)
    async with blocks(devnet), relaying(devnet, tmp_path) as bridge:
        for quorum in (1, 2, 3):
            await traffic.send(*GMPS, quorum=quorum)
            await traffic.send(*GMPS, quorum=quorum, source="beta", destination="alpha")
        await traffic.all_executed()
        await traffic.all_received()
        entries = bridge.store.outbox.listed
        await until(lambda: all(one.confirmed_at is not None for one in entries()), "every delivery is final")
        assert {one.state for one in entries()} == {OutboxState.DELIVERED}
        assert {one.failed_tries for one in entries()} == {0}
        for one in entries():
            slots = bridge.store.transactions.slots_for(one.event_id)
            assert len(slots) == (2 if one.dispatch.gmp is Gmp.AXELAR else 1)
            assert all(slot.included is not None and slot.included.succeeded for slot in slots)


def home_of(devnet: Devnet) -> Path:
    return devnet.deployments_file.parent.parent


@pytest.fixture
def clean_home(devnet: Devnet) -> Iterator[Path]:
    """The devnet's folder, with nothing that a relayer remembers."""
    state = home_of(devnet) / ".waybill" / "devnet" / "bridge.db"

    def forget() -> None:
        for file in state.parent.glob("bridge.db*") if state.parent.exists() else ():
            file.unlink()

    forget()
    yield home_of(devnet)
    forget()


async def test_stopped_relayer_returns_its_work(
    devnet: Devnet, chains: dict[int, EvmChain], clean_home: Path, tmp_path: Path
) -> None:
    traffic = Traffic(devnet, chains)
    (alpha, beta) = devnet.deployment.chains
    rpc(beta.rpc_urls[0], "evm_setAutomine", False)  # a delivery waits in the pool
    try:
        message = await traffic.send(Gmp.HYPERLANE)
        mine(alpha.rpc_urls[0], 2)
        with process(clean_home, tmp_path / "relayer.log") as running:
            store = Store(f"sqlite:///{clean_home}/.waybill/devnet/bridge.db")
            await until(lambda: bool(store.outbox.listed(state=OutboxState.CLAIMED)), "the message is claimed")
            assert running.terminate() == 0, running.log
        (entry,) = store.outbox.entries(message.id)
        assert entry.state is OutboxState.PENDING
        assert "Traceback" not in running.log
        store.close()
    finally:
        rpc(beta.rpc_urls[0], "evm_setAutomine", True)


@pytest.mark.parametrize("depth", [1, 3, 8])
async def test_delivery_dropped_by_a_reorg_is_repeated(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, depth: int
) -> None:
    traffic = Traffic(devnet, chains)
    beta = devnet.deployment.chain("beta")
    mine(beta.rpc_urls[0], 20)
    async with relaying(devnet, tmp_path) as bridge:
        async with blocks(devnet):
            message = await traffic.send(Gmp.HYPERLANE, Gmp.WORMHOLE)
            await traffic.all_executed()
            await until(
                lambda: any(one.delivery for one in bridge.store.outbox.entries(message.id)), "a delivery is noted"
            )
        included = [one.delivery.block.number for one in bridge.store.outbox.entries(message.id) if one.delivery]
        height = (await chains[beta.chain_id].head()).number
        rpc(beta.rpc_urls[0], "anvil_reorg", max(depth, height - min(included) + 1), [])
        progress = await Client(devnet.deployment, chains).progress(message)
        assert not progress.executed, "the reorg did not reach the delivery"
        async with blocks(devnet):
            await traffic.all_executed()
            await traffic.all_received()


async def test_index_request_is_retried_over_another_gmp(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic = Traffic(devnet, chains)
    index = tmp_path / "index.db"
    changes = {"paused_gmps": "hyperlane", "retry_keys": DAPP_KEY, "index_store": f"sqlite:///{index}"}
    async with blocks(devnet), relaying(devnet, tmp_path, **changes) as bridge:
        message = await traffic.send(Gmp.HYPERLANE)
        asking_index(index, retry_request(1, message)).close()
        await traffic.all_executed()
        progress = await Client(devnet.deployment, chains).progress(message)
        assert progress.receipts == {Gmp.AXELAR}
        await until(lambda: len(bridge.store.observations.attempts(message.id)) == 2, "the retry is observed")
    async with blocks(devnet), relaying(devnet, tmp_path):  # Hyperlane is resumed, and late
        traffic.sent[0] = replace(traffic.sent[0], gmps=frozenset({Gmp.AXELAR, Gmp.HYPERLANE}))
        await traffic.all_received()


async def test_a_store_of_a_devnet_that_is_gone_is_refused(devnet: Devnet, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/bridge.db")
    store.observations.identify(devnet.deployment.chains[0].chain_id, bytes(32))
    store.close()
    async with open_relayer(devnet.deployment, settings(tmp_path), devnet_attesters) as bridge:
        with pytest.raises(StoreMismatchError, match="use the store of that chain"):
            await asyncio.wait_for(bridge.run(), timeout=PATIENCE)
