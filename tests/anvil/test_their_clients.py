"""The GMPs' own clients deliver what Waybill dispatched: two implementations that agree. `interop/README.md` says which."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.client import Client
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, account
from bridge.evm.chain import EvmChain
from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.ccip.message import SUCCESS
from bridge.gmps.hyperlane.devnet import THRESHOLD, VALIDATORS
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Dispatch, read_view
from tests.anvil.public_network import PublicNetwork
from tests.anvil.their_clients import NODE, chain_of, exchange_hooks, hyperlane_chains, installed
from tests.anvil.traffic import World
from tests.builders import BETA

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ANYONE = ANVIL_KEYS[7]


@dataclass(frozen=True)
class Clients:
    """The scripts in a folder, with a Node that is new enough for them."""

    devnet: Devnet
    folder: Path

    async def run(self, script: str, given: dict[str, Any], **environment: str) -> dict[str, Any]:
        """What a script answers."""
        process = await asyncio.create_subprocess_exec(
            str(NODE),
            script,
            cwd=self.folder,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(json.dumps(given).encode())
        assert process.returncode == 0, (
            f"{err.decode(errors='replace')[-6000:]}\n{out.decode(errors='replace')[-2000:]}"
        )
        answer: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
        return answer


@pytest.fixture(scope="session")
def interop() -> Path:
    return installed()


@pytest.fixture
def clients(devnet: Devnet, interop: Path) -> Clients:
    return Clients(devnet, interop)


@pytest.fixture
async def public(devnet: Devnet, chains: dict[int, EvmChain]) -> AsyncIterator[PublicNetwork]:
    network = PublicNetwork(World(devnet.deployment, chains))
    async with network.serving():
        yield network


async def test_hyperlanes_relayer_delivers_what_waybill_dispatched(public: PublicNetwork, clients: Clients) -> None:
    world = public.world
    await public.announce_validators(bucket="waybill")  # it reads nothing but S3
    await exchange_hooks(world)
    sent = await world.send(Gmp.HYPERLANE)
    (dispatch,) = await world.dispatches(Gmp.HYPERLANE)
    for validator in VALIDATORS[:THRESHOLD]:
        await public.sign_checkpoint(dispatch, validator)
    answer = await clients.run(
        "hyperlane.mjs",
        {
            "chains": hyperlane_chains(clients.devnet, public),
            "source": "alpha",
            "transaction": f"0x{dispatch.transaction_hash.hex()}",
            "key": ANYONE,
        },
        AWS_ENDPOINT_URL_S3=public.url,
    )
    receipt = await world.chains[BETA].receipt(bytes.fromhex(answer["transaction"][2:]))
    assert receipt is not None
    assert receipt.succeeded
    beta = world.deployment.chain(BETA)
    assert await read_view(world.chains[BETA], ROUTER, beta.router, "hasReceived", sent.message.id, int(Gmp.HYPERLANE))
    # Their relayer sends with the gas of an estimate. The router takes a delivery with so little, and defers the execution.
    assert not await world.executed(dispatch)
    await Client(world.deployment, world.chains, account(ANYONE)).execute(sent.message)
    assert await world.executed(dispatch)


def lane(world: World, clients: Clients, dispatch: Dispatch) -> dict[str, Any]:
    """What the script for CCIP takes."""
    source, destination = (world.deployment.chain(one) for one in (dispatch.source_chain, dispatch.destination_chain))
    return {
        name: chain_of(clients.devnet, chain) | {"selector": str(CcipContracts.of(chain).selector)}
        for name, chain in (("source", source), ("destination", destination))
    } | {"transaction": f"0x{dispatch.transaction_hash.hex()}", "key": ANYONE}


async def test_ccips_sdk_executes_with_the_same_document(public: PublicNetwork, clients: Clients) -> None:
    world = public.world
    await world.send(Gmp.CCIP)
    (dispatch,) = await world.dispatches(Gmp.CCIP)
    await public.publish_results(dispatch)
    answer = await clients.run("ccip.mjs", lane(world, clients, dispatch) | {"api": public.url})
    assert answer["messageId"] == dispatch.transport_id
    assert (answer["version"], answer["state"]) == ("2.0.0", SUCCESS)
    assert await world.executed(dispatch)
