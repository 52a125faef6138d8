"""The real relayer on real chains whose nodes fail and lie, over all five GMPs."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bridge.client import Client, NothingToRetryError, RefusedError
from bridge.devnet import Devnet
from bridge.devnet.demo.audit import Audit, audit
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState
from bridge.service.relayer_service import open_relayer
from bridge.store import Store
from tests.anvil.devnets import new_devnet
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.test_relayer import blocks, nonces_are_all_used, settings
from tests.anvil.traffic import DAPP, RELAYER, World
from tests.waiting import PATIENCE, eventually_true

pytestmark = pytest.mark.long

SHARE_OF_FAULTS = 0.1
MESSAGES = 60
RETRIED_EACH = 4  # messages, if there is a GMP left that has not taken it

EXPLAINED = {
    "step failed, will be retried": "a node did not answer, or not sensibly",
    "delivery failed": "a node did not answer, or not sensibly; it is tried again",
    "messages missing, rereading the chain": "a node left logs out",
    "dispatch not recognised": "a node left a GMP's logs out, twice in a row",
    "block is final but router has no receipt, delivery reopened": "a node showed a receipt that is not there",
    "endpoint failed": "a node did not answer, or not sensibly",
    "nonce used by another signer": "a node was behind",
    "transaction rejected": "a node was behind, and knew of another state",
    "sender's delivery choice unreadable, delivery postponed": "a node did not answer, or not sensibly",
    "circuit breaker opened": "deliveries over one GMP failed in a row",
}
"""Warnings that this weather accounts for; any other warning or error fails the test."""


@pytest.fixture
def devnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    """Chains for one storm."""
    with new_devnet(tmp_path_factory.mktemp("devnet")) as devnet:
        yield devnet


class Storm:
    """Sends messages both ways, and waits until each was executed."""

    def __init__(self, devnet: Devnet, chains: Mapping[int, EvmChain], seed: int) -> None:
        self._devnet = devnet
        self._chains = chains
        self._dice = random.Random(f"storm {seed}")
        self._world = World(devnet.deployment, chains)
        self.retries = 0

    async def blow(self, messages: int) -> None:
        """Sends `messages` messages."""
        for number in range(messages):
            await self._send(number)

    async def _send(self, number: int) -> None:
        lane = self._dice.choice([("alpha", "beta"), ("beta", "alpha")])
        gmps = self._dice.sample(sorted(Gmp), self._dice.randint(1, len(Gmp)))
        # The relayer may be quicker than the retry.
        with suppress(NothingToRetryError, RefusedError):
            sent = await self._world.send(
                *gmps,
                source=lane[0],
                destination=lane[1],
                quorum=self._dice.randint(1, len(gmps)),
                payload=b"%d" % number,
            )
            if others := sorted(set(Gmp) - set(gmps)) * (number % RETRIED_EACH == 0):
                client = Client(self._devnet.deployment, self._chains, DAPP)
                await client.retry(sent.message, [self._dice.choice(others)])
                self.retries += 1

    async def settled(self, store: Store) -> Audit:
        """What the chains' own logs say once the relayer has nothing left to do, and every message was executed.

        Fails after `PATIENCE`, and names what is left.
        """
        deadline = time.monotonic() + PATIENCE
        while True:  # neither databases nor chains tell anybody
            left, seen = _unfinished(store), await audit(self._devnet.deployment, self._chains)
            if not left and not seen.lost:
                return seen
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{seen.lost} messages are lost, {len(left)} deliveries are not final: {left[:20]}"
                )
            await asyncio.sleep(1)


def _unfinished(store: Store) -> list[str]:
    """The deliveries that are not yet final."""
    return [
        f"{one.event_id} is {one.state} after {one.failed_tries} tries: {one.last_error}"
        for one in store.outbox.listed(limit=10_000)
        if one.orphaned_at is None and (one.state is not OutboxState.DELIVERED or one.confirmed_at is None)
    ]


async def ended(running: asyncio.Task[None]) -> None:
    """Cancels it, and waits until it is gone."""
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_lying_nodes_leave_every_message_executed_once(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    """Nothing may be lost, executed twice, left open or logged without a reason."""
    storm = Storm(devnet, chains, 0)
    proxies = [
        FaultProxy(chain.rpc_urls[0], number, SHARE_OF_FAULTS) for number, chain in enumerate(devnet.deployment.chains)
    ]
    patient = {
        "policies": {"plain": {"base": 0.3, "cap": 3, "max_retries": 100}},
        "max_calls_per_tx": 8,
    }
    with capture_logs() as logged:
        async with AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(proxy.serving()) for proxy in proxies]
            pairs = zip(devnet.deployment.chains, urls, strict=True)
            chains_through_proxies = tuple(
                chain.model_copy(update={"rpc_urls": (url,), "confirmations": 1}) for chain, url in pairs
            )
            through_proxies = devnet.deployment.model_copy(update={"chains": chains_through_proxies})
            bridge = await stack.enter_async_context(
                open_relayer(through_proxies, settings(tmp_path, **patient), devnet_attesters)
            )
            running = asyncio.create_task(bridge.run())
            stack.push_async_callback(ended, running)
            await stack.enter_async_context(blocks(devnet))
            await storm.blow(MESSAGES)
            for proxy in proxies:
                proxy.share = 0
            seen = await storm.settled(bridge.store)
            await eventually_true(
                lambda: (
                    not any(
                        bridge.store.transactions.open_slots(chain.chain_id, RELAYER.address)
                        for chain in devnet.deployment.chains
                    )
                ),
                "every nonce is used",
            )
            await ended(running)
            nonces_are_all_used(bridge.store, devnet)
    assert (seen.executed, seen.executed_twice, seen.lost) == (seen.messages, 0, 0)
    assert seen.messages >= MESSAGES
    assert storm.retries > 0
    assert all(proxy.faults for proxy in proxies)
    unexplained = Counter(
        line["event"] for line in logged if line["log_level"] in ("warning", "error") and line["event"] not in EXPLAINED
    )
    assert not unexplained
