"""Heartbeats that travel: the destination shows lag and loss of a lane without asking its relayer or its source."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridge.client import Client, RouteRequest
from bridge.devnet import Devnet
from bridge.domain.guarantee import LEAST_TTL
from bridge.evm.chain import EvmChain
from bridge.evm.routers import RouterReader, SentMessage
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import PATIENCE, process, until
from tests.anvil.test_dead_letters import routed
from tests.anvil.test_http import scraped
from tests.anvil.test_relayer import Traffic, blocks
from tests.anvil.traffic import DAPP, RELAYER

pytestmark = pytest.mark.long

LANE = {"source": "alpha", "destination": "beta"}
A_DAY = 86_400


def hasty(**more: object) -> dict[str, str]:
    return {"WAYBILL_HEARTBEATS": json.dumps({"enabled": True, "interval": 1, **more})}


@pytest.fixture
def waybill(devnet: Devnet, tmp_path: Path) -> Waybill:
    return Waybill(new_home(devnet, tmp_path))


async def shown(devnet: Devnet, waybill: Waybill, *arguments: str) -> dict[str, Any] | None:
    """What beta has of alpha's lane, by the command."""
    lane = f"{devnet.deployment.chain('alpha').chain_id}>{devnet.deployment.chain('beta').chain_id}"
    found = await asyncio.to_thread(waybill.json, "sync", "heartbeats", *arguments)
    return next((one for one in found if one["lane"] == lane), None)


async def kept_for_retries(devnet: Devnet, chains: dict[int, EvmChain], sent: Message) -> SentMessage | None:
    """What the source remembers of a message, so that it could be sent again."""
    router = devnet.deployment.chain(sent.source_chain).router
    return await RouterReader(chains[sent.source_chain], router).sent_message(sent.id)


async def shows(devnet: Devnet, waybill: Waybill, missing: int) -> dict[str, Any]:
    """The same, once it is about the message that is missing."""
    async with asyncio.timeout(PATIENCE):
        while (found := await shown(devnet, waybill)) is None or found["primaryFinal"] == 0 or not found["lagSeconds"]:
            await asyncio.sleep(0.5)
    assert found["missing"] >= missing
    return found


async def test_the_destination_sees_lag_and_loss_after_the_relayer_and_its_store_are_gone(
    devnet: Devnet, chains: dict[int, EvmChain], waybill: Waybill
) -> None:
    home, client = waybill.home, Client(devnet.deployment, chains, DAPP)
    beta = devnet.deployment.chain("beta")
    request = RouteRequest(
        destination="beta",
        recipient=beta.examples["inbox"],
        payload=b"a new state",
        gmps=(Gmp.AXELAR,),
        kind=Kind.STATE_SYNC,
        ttl=A_DAY,
    )
    run = ("relayer", "run", "--pause-gmp", "axelar", "--http", "127.0.0.1:0")
    async with blocks(devnet):
        with process(home, home / "relayer.log", *run, **hasty()) as relayer:
            url = await relayer.url()
            await client.route("alpha", request)
            found = await shows(devnet, waybill, 1)
            assert (found["primaryFinal"], found["applied"], found["matches"]) == (1, 0, True)
            assert found["sender"] == RELAYER.address
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
                numbers = await scraped(http)
            assert numbers["heartbeat_lag_seconds"] > 0
            assert numbers["heartbeat_missing_messages"] >= 1
            beats = [one for one in await routed(devnet, chains) if one.kind is Kind.HEARTBEAT]
            assert {one.source_chain for one in beats} == {chain.chain_id for chain in devnet.deployment.chains}
            assert {one.ttl for one in beats} == {LEAST_TTL}
            assert {await kept_for_retries(devnet, chains, one) for one in beats} == {None}
            assert relayer.terminate() == 0
        shutil.rmtree(home / ".waybill")
        after = await shown(devnet, waybill)
    assert after is not None
    assert after["missing"] >= 1, "nobody but the destination was asked"
    assert await shown(devnet, waybill, "--from", DAPP.address) is None, "each relayer speaks for itself"


async def test_heartbeats_stop_at_their_ceiling_and_go_on_for_nothing_else(
    devnet: Devnet, chains: dict[int, EvmChain], waybill: Waybill
) -> None:
    home = waybill.home
    async with blocks(devnet):
        with process(home, home / "relayer.log", "relayer", "run", **hasty(wei_per_day=1)) as relayer:
            await until(lambda: relayer.says("wei_per_day is 1 wei"), "the ceiling is reached")
            await asyncio.sleep(2)
            beats = [one for one in await routed(devnet, chains) if one.kind is Kind.HEARTBEAT]
            assert len(beats) == 2, "one on each lane, by which the ceiling is passed"
            message = await Traffic(devnet, chains).send(Gmp.WORMHOLE)
            assert (await Client(devnet.deployment, chains).wait(message, timeout=PATIENCE)).executed, relayer.log
            assert relayer.terminate() == 0


async def test_no_heartbeat_is_paid_for_unless_somebody_asks(
    devnet: Devnet, chains: dict[int, EvmChain], waybill: Waybill
) -> None:
    home = waybill.home
    async with blocks(devnet):
        with process(home, home / "relayer.log") as relayer:
            message = await Traffic(devnet, chains).send(Gmp.WORMHOLE)
            assert (await Client(devnet.deployment, chains).wait(message, timeout=PATIENCE)).executed, relayer.log
            assert relayer.terminate() == 0
    assert [one.kind for one in await routed(devnet, chains)] == [Kind.PLAIN]
