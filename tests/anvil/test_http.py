"""The real relayer and the real web server: what is reported survives the relayer's death, and what is ordered is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from tests.anvil.command import new_home
from tests.anvil.relayers import process
from tests.anvil.test_dead_letters import FEW_TRIES, broken_axelar
from tests.anvil.test_relayer import Traffic, blocks
from tests.waiting import eventually_answered

pytestmark = pytest.mark.long

TOKEN = "an operator's long token"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
RELAYER = ("relayer", "run", "--pause-gmp", "hyperlane")


@asynccontextmanager
async def served(home: Path, *arguments: str) -> AsyncIterator[httpx.AsyncClient]:
    """A `waybill` process that serves at a free port, killed when the block ends."""
    log = home / f"{arguments[0]}.log"
    http = (*arguments, "--http", "127.0.0.1:0")
    with process(home, log, *http, WAYBILL_API_TOKEN=TOKEN, **FEW_TRIES) as running:
        async with httpx.AsyncClient(base_url=await running.url(), trust_env=False, timeout=30) as client:
            yield client


async def scraped(http: httpx.AsyncClient) -> dict[str, float]:
    """Sums of all samples, by name."""
    text = (await http.get("/metrics")).text
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix("waybill_")
            sums[name] = sums.get(name, 0) + sample.value
    return sums


async def test_relayer_is_scraped_steered_and_killed(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    """Numbers survive the relayer's death, and an order given over the API waits in the store for the next one."""
    traffic, home = Traffic(devnet, chains), new_home(devnet, tmp_path)
    async with blocks(devnet), served(home, "web") as web:
        async with served(home, *RELAYER) as relayer:
            assert (await relayer.get("/healthz")).json() == {"status": "ok"}
            with broken_axelar(devnet):
                _, silent, dead = [
                    f"0x{(await traffic.send(gmp)).id.hex()}" for gmp in (Gmp.WORMHOLE, Gmp.HYPERLANE, Gmp.AXELAR)
                ]
                await _is_seen(relayer, web, dead)

            async def is_observed() -> bool:
                numbers = await scraped(relayer)
                return numbers["observed_total"] == 3 and numbers["commits_total"] > 0

            await eventually_answered(is_observed, "all are observed")
            numbers = await scraped(relayer)
        assert numbers["lag_messages"] == 1, "the silent one"
        assert numbers["account_balance_wei"] > 0
        await _is_ordered(web, silent)

        async with served(home, *RELAYER) as relayer:
            again = await scraped(relayer)
            for name in ("observed_total", "delivery_retries_total", "delivery_seconds_sum"):
                assert again[name] >= numbers[name], name

            async def is_executed() -> bool:
                return bool((await web.get(f"/v1/messages/{silent}")).json()["retries"][0]["state"] == "SENT")

            await eventually_answered(is_executed, "the next relayer carries the order out")
            (ordered,) = (await web.get(f"/v1/messages/{silent}")).json()["retries"]
            assert (ordered["gmps"], ordered["attempt"]) == (["wormhole"], 1)


async def _is_seen(relayer: httpx.AsyncClient, web: httpx.AsyncClient, dead: str) -> None:
    """One message that arrived, one that waits and one that is dead, each as the API reports it."""

    async def are_told_apart() -> bool:
        numbers = await scraped(relayer)
        dead_letters = (await web.get("/v1/dead-letters")).json()
        return (numbers.get("deliveries_total"), len(dead_letters)) == (1, 1)

    await eventually_answered(are_told_apart, "one delivery and one dead letter")
    queues = {(one["state"], one["gmp"]) for one in (await web.get("/v1/status")).json()["outbox"]}
    assert {("DELIVERED", "wormhole"), ("PENDING", "hyperlane"), ("DEAD", "axelar")} <= queues
    (letter,) = (await web.get("/v1/dead-letters?status=PENDING_REVIEW")).json()
    assert letter["id"] == f"{dead}/axelar/0"
    opened = (await web.get(f"/v1/dead-letters/{letter['id']}", headers=AUTHORIZED)).json()
    assert len(opened["document"]["failureHistory"]) == 2


async def _is_ordered(web: httpx.AsyncClient, silent: str) -> None:
    """A retry is ordered by whoever has the token and nobody else."""
    retry, order = f"/v1/messages/{silent}/retry", {"gmps": ["wormhole"]}
    assert (await web.post(retry, json=order)).status_code == 401
    ordered = await web.post(retry, json=order, headers=AUTHORIZED)
    assert (ordered.status_code, ordered.json()["state"]) == (202, "OPEN"), ordered.text
