"""Measures the relayer's throughput between two anvil chains, in messages per second, against the chain's own limit."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from web3 import Web3

from bench.indexing import indexing
from bridge import devnet as devnets
from bridge.devnet import Devnet
from bridge.devnet.accounts import RELAYER_KEY, account
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import open_chains
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.records.transactions import Slot
from bridge.service.relayer_service import freeze_loaded_objects, open_relayer
from bridge.service.settings import Settings
from bridge.store import Store
from tests.anvil.rpc import free_ports, mine, rpc
from tests.anvil.traffic import World

BURST: Final = 600  # messages that wait when the relayer starts
IN_FLIGHT: Final = 200  # deliveries under way at once
SHARE: Final = 20  # deliveries to a transaction at most, as in the profile high-throughput
NAIVE: Final = 40
TRICKLE: Final = 30
PATIENCE: Final = 120  # seconds
RELAYER: Final = account(RELAYER_KEY)


@dataclass(frozen=True, slots=True)
class Measured:
    """Messages and transactions per second, milliseconds from observation to broadcast, wasted calls per delivery."""

    delivered: float
    delivered_alone: float  # with one delivery to a transaction
    ceiling: float  # of transactions with one delivery
    naive: float
    pickup: dict[str, float]  # with an indexer at work beside it
    pickup_alone: dict[str, float]
    wasted: float


def measure(folder: Path) -> Measured:
    """Runs all measurements on a new devnet."""
    (port,) = free_ports(2)[:1]
    devnet = asyncio.run(devnets.up(home=folder, block_time=0, first_port=port))
    try:
        return _measure(devnet, folder)
    finally:
        devnets.down(home=folder)


def _measure(devnet: Devnet, folder: Path) -> Measured:
    beta = devnet.deployment.chain("beta")
    url = beta.rpc_urls[0]
    asyncio.run(_send(devnet, BURST, pause=0))
    before = rpc(url, "evm_snapshot")
    alone, slots, _ = _burst(devnet, folder / "alone.db", max_calls_per_tx=1)
    before = _undone(url, before)
    ceiling = _ceiling(url, slots)
    before = _undone(url, before)
    delivered, _, wasted = _burst(devnet, folder / "shared.db", max_calls_per_tx=SHARE)
    _undone(url, before)
    naive = _naive(url, beta.chain_id, slots[:NAIVE])
    pickup_alone = _trickle(devnet, folder / "trickle.db", BURST)
    with indexing(folder, before=BURST + TRICKLE, after=BURST + 2 * TRICKLE):
        pickup = _trickle(devnet, folder / "trickle-beside.db", BURST + TRICKLE)
    return Measured(
        delivered=delivered,
        delivered_alone=alone,
        ceiling=ceiling,
        naive=naive,
        pickup=pickup,
        pickup_alone=pickup_alone,
        wasted=wasted,
    )


def _undone(url: str, snapshot: Any) -> Any:
    """Reverts to a snapshot and returns the next one."""
    assert rpc(url, "evm_revert", snapshot)
    return rpc(url, "evm_snapshot")


def _burst(devnet: Devnet, path: Path, *, max_calls_per_tx: int) -> tuple[float, Sequence[Slot], float]:
    """Lets a new relayer deliver a backlog; returns messages per second, its slots, and wasted calls."""
    store = asyncio.run(_relay(devnet, path, max_calls_per_tx=max_calls_per_tx, sends=0, expected=BURST))
    entries = store.outbox.listed(limit=BURST)
    seconds = max(e.delivered_at or 0 for e in entries) - min(e.created_at for e in entries)
    slots = store.transactions.slots(devnet.deployment.chain("beta").chain_id, RELAYER.address)
    store.close()
    return BURST / seconds, slots, (sum(len(slot.transaction_keys) for slot in slots) - BURST) / BURST


async def _send(devnet: Devnet, count: int, *, pause: float) -> None:
    async with open_chains(devnet.deployment) as chains:
        world = World(devnet.deployment, chains)
        for number in range(count):
            await world.send(Gmp.HYPERLANE, payload=b"%d" % number)
            await asyncio.sleep(pause)


async def _relay(devnet: Devnet, path: Path, *, max_calls_per_tx: int, sends: int, expected: int) -> Store:
    """Runs a relayer until it has made a number of deliveries; more messages may be sent meanwhile."""
    settings = Settings.load(
        relayer_key=RELAYER_KEY,
        store=f"sqlite:///{path}",
        poll_interval=0.1,
        in_flight=IN_FLIGHT,
        max_calls_per_tx=max_calls_per_tx,
    )
    store = Store(settings.store)
    async with open_relayer(devnet.deployment, settings, devnet_attesters) as bridge:
        freeze_loaded_objects()  # as the relayer's own process does
        tasks = [asyncio.create_task(bridge.run()), asyncio.create_task(_mine(devnet))]
        try:
            await _until(store, expected - sends)
            await _send(devnet, sends, pause=0.2)
            await _until(store, expected)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return store


async def _mine(devnet: Devnet) -> None:
    while True:
        await asyncio.sleep(0.25)
        for chain in devnet.chains:
            await asyncio.to_thread(mine, chain.url)


async def _until(store: Store, expected: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while sum(c.count for c in store.outbox.counts() if c.state is OutboxState.DELIVERED) < expected:  # noqa: ASYNC110  a database tells nobody
            await asyncio.sleep(0.1)


def _trickle(devnet: Devnet, path: Path, known: int) -> dict[str, float]:
    """Returns the milliseconds from observation to broadcast of single messages, with a relayer that is up to date."""
    store = asyncio.run(_relay(devnet, path, max_calls_per_tx=SHARE, sends=TRICKLE, expected=known + TRICKLE))
    waits = []
    for entry in store.outbox.listed(limit=TRICKLE):
        slot = store.transactions.slots_for(entry.event_id)[0]
        assert slot.broadcast_at is not None
        waits.append(1_000 * (slot.broadcast_at - entry.created_at))
    store.close()
    cuts = statistics.quantiles(waits, n=20, method="inclusive")
    return {"p50": cuts[9], "p95": cuts[18], "max": max(waits)}


def _ceiling(url: str, slots: Sequence[Slot]) -> float:
    """Sends the relayer's transactions again, one delivery each, signed in advance, in batched requests."""
    raws = ["0x" + slot.latest.raw.hex() for slot in slots if slot.latest is not None]
    batches = [
        [
            {"jsonrpc": "2.0", "id": number, "method": "eth_sendRawTransaction", "params": [raw]}
            for number, raw in enumerate(raws[first : first + 100])
        ]
        for first in range(0, len(raws), 100)
    ]
    with httpx.Client(timeout=60, trust_env=False) as client:
        started = time.perf_counter()
        for batch in batches:
            answers = client.post(url, json=batch).json()
            assert all("result" in answer for answer in answers), answers[0]
        deadline = time.monotonic() + PATIENCE
        while int(rpc(url, "eth_getTransactionCount", RELAYER.address, "latest"), 16) <= slots[-1].nonce:
            assert time.monotonic() < deadline, "the chain does not take what it took before"
            time.sleep(0.005)
        return len(raws) / (time.perf_counter() - started)


def _naive(url: str, chain_id: int, slots: Sequence[Slot]) -> float:
    """Sends the same calls in a plain web3.py loop: estimate, sign, send, with local nonces and no waiting."""
    web3 = Web3(Web3.HTTPProvider(url))
    started = time.perf_counter()
    sent: Any = None
    for slot in slots:
        assert slot.call is not None
        transaction: dict[str, Any] = {
            "from": RELAYER.address,
            "to": Web3.to_checksum_address(slot.call.to),
            "data": slot.call.data,
            "value": slot.call.value,
            "chainId": chain_id,
            "nonce": slot.nonce,
        }
        transaction["gas"] = web3.eth.estimate_gas(transaction)  # type: ignore[arg-type]  # web3's own TypedDict
        transaction["gasPrice"] = web3.eth.gas_price
        sent = web3.eth.send_raw_transaction(RELAYER.sign_transaction(transaction).raw_transaction)
    web3.eth.wait_for_transaction_receipt(sent)
    return len(slots) / (time.perf_counter() - started)
