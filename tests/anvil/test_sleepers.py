"""Relayers that share a store and fall asleep (SIGSTOP): others go on, and whoever wakes up acts on nothing that is no longer its own."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.records.transactions import SlotState
from bridge.store import Store
from tests.anvil.command import new_home
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.relayers import Process, process, until
from tests.anvil.test_relayer import Traffic, blocks
from tests.anvil.traffic import RELAYER
from tests.postgresql import running_postgresql

pytestmark = pytest.mark.long

SQLITE, POSTGRESQL = "sqlite", "postgresql"


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with running_postgresql() if request.param == POSTGRESQL else nullcontext() as server:
        url = server.new_url() if server is not None else f"sqlite:///{tmp_path}/bridge.db"
        Store(url).close()  # a relayer makes none that is named
        yield url


# What a relayer waits for as it falls asleep: whether the router has the delivery, or, just before it takes a nonce, the fees.
# From the first it wakes up to find its lease lost; in the second only the store keeps it from sending.
ROUTER, FEES = "eth_call", "eth_maxPriorityFeePerGas"


async def put_to_sleep(relayer: Process, url: str) -> None:
    """Stops a relayer, though not where it has the whole of a SQLite file locked: nobody could go on then, and nobody should."""
    while True:
        relayer.stop()
        if not url.startswith(SQLITE):
            return
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.5, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            relayer.go_on()
            await asyncio.sleep(0.05)
        else:
            return
        finally:
            connection.close()


def states(store: Store) -> set[OutboxState]:
    return {one.state for one in store.outbox.listed(limit=1000)}


def holds_nothing(store: Store, relayer: Process) -> bool:
    """Whether no entry is in the hands of a relayer."""
    return not any(f":{relayer.pid}:" in (one.claimed_by or "") for one in store.outbox.listed(limit=1000))


def nothing_was_wasted(store: Store, devnet: Devnet) -> None:
    """Each delivery has one transaction, which succeeded."""
    for entry in store.outbox.listed(limit=1000):
        slots = store.transactions.slots_for(entry.event_id)
        assert len(slots) == 1, f"{entry.event_id} was sent {len(slots)} times"
    for chain in devnet.deployment.chains:
        for slot in store.transactions.slots(chain.chain_id, RELAYER.address):
            assert slot.state in (SlotState.INCLUDED, SlotState.FINAL)
            assert slot.included is not None
            assert slot.included.succeeded


@pytest.mark.parametrize("waits_for", [ROUTER, FEES])
async def test_woken_relayer_respects_a_lease_taken_over(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, store_url: str, waits_for: str
) -> None:
    home, traffic = new_home(devnet, tmp_path), Traffic(devnet, chains)
    beta = FaultProxy(devnet.deployment.chain("beta").rpc_urls[0], seed=0, share=0)
    async with blocks(devnet), beta.serving() as url:
        slow = {"WAYBILL_CHAINS": json.dumps({"beta": {"rpc_urls": [url]}}), "WAYBILL_STORE": store_url}
        with process(home, tmp_path / "first.log", **slow) as first:
            await first.is_at_work()
            store = Store(store_url)
            await traffic.send(Gmp.HYPERLANE)
            await until(lambda: states(store) == {OutboxState.DELIVERED}, "the first one works")
            beta.hold(waits_for)
            message = await traffic.send(Gmp.HYPERLANE)
            await until(lambda: OutboxState.CLAIMED in states(store), "the first one delivers")
            (claimed,) = store.outbox.entries(message.id)
            await until(lambda: beta.held > 0, "it asks, and gets no answer")
            await put_to_sleep(first, store_url)
            first.end_leases(store)
            with process(home, tmp_path / "second.log", WAYBILL_STORE=store_url) as second:
                await until(lambda: states(store) == {OutboxState.DELIVERED}, "the second one has delivered")
                (delivered,) = store.outbox.entries(message.id)
                assert delivered.fence > claimed.fence
                beta.release()  # with answers from before the delivery
                first.go_on()
                given_up = ("lease lost", "claim lost while delivering", "delivery failed")
                await until(lambda: any(text in first.log for text in given_up), "the first one notices")
                assert second.terminate() == 0
            await traffic.send(Gmp.HYPERLANE)
            await traffic.all_executed()
            await until(lambda: states(store) == {OutboxState.DELIVERED}, "the first one works again, alone")
            assert first.terminate() == 0
    (kept,) = store.outbox.entries(message.id)
    assert (kept.fence, kept.delivery) == (delivered.fence, delivered.delivery), "the sleeper changed nothing"
    nothing_was_wasted(store, devnet)
    store.close()


async def test_relayers_falling_asleep_in_turn_deliver_everything(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path, store_url: str
) -> None:
    home, traffic, dice = new_home(devnet, tmp_path), Traffic(devnet, chains), random.Random(1)
    shared = {"WAYBILL_STORE": store_url}
    async with blocks(devnet):
        with (
            process(home, tmp_path / "first.log", **shared) as first,
            process(home, tmp_path / "second.log", **shared) as second,
        ):
            await first.is_at_work()
            await second.is_at_work()
            store = Store(store_url)
            for _ in range(6):
                for _ in range(3):
                    await traffic.send(Gmp.HYPERLANE, Gmp.WORMHOLE, quorum=dice.choice([1, 2]))
                await asyncio.sleep(dice.uniform(0, 1))
                sleeper = dice.choice([first, second])
                await put_to_sleep(sleeper, store_url)
                sleeper.end_leases(store)
                await until(partial(holds_nothing, store, sleeper), "the other one has taken over")
                sleeper.go_on()
            await traffic.all_executed()
            await traffic.all_received()
            await until(lambda: states(store) == {OutboxState.DELIVERED}, "every entry is delivered")
            await until(
                lambda: (
                    not any(
                        store.transactions.open_slots(chain.chain_id, RELAYER.address)
                        for chain in devnet.deployment.chains
                    )
                ),
                "every nonce is used",
            )
            assert first.terminate() == second.terminate() == 0
    nothing_was_wasted(store, devnet)
    store.close()
