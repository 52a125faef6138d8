"""The real relayer, seen and steered over HTTP: what it says survives its death, and what it is told is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bridge.devnet import Devnet
from bridge.domain.outbox import OutboxState
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import PATIENCE, process
from tests.anvil.test_dead_letters import FEW_TRIES, broken_axelar
from tests.anvil.test_relayer import Traffic, blocks

TOKEN = "an operator's long token"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
RELAYER = ("relayer", "run", "--pause-gmp", "hyperlane")


@asynccontextmanager
async def served(home: Path, *arguments: str) -> AsyncIterator[httpx.AsyncClient]:
    """A `waybill` process with the API at a free port, killed without a chance to clean up when the block ends."""
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


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # a relayer tells nobody
            await asyncio.sleep(0.2)
    assert await condition(), what


async def test_a_relayer_is_scraped_steered_and_killed_and_its_numbers_outlive_it(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic, home = Traffic(devnet, chains), new_home(devnet, tmp_path)
    async with blocks(devnet):
        async with served(home, *RELAYER) as http:
            assert (await http.get("/healthz")).json() == {"status": "ok"}
            assert (await http.get("/readyz")).json() == {"ready": True, "problems": []}
            with broken_axelar(devnet):
                delivered, silent, dead = [
                    f"0x{(await traffic.send(gmp)).id.hex()}" for gmp in (Gmp.WORMHOLE, Gmp.HYPERLANE, Gmp.AXELAR)
                ]
                await _is_seen(http, delivered, silent, dead)
            await _is_steered(http, silent)

            async def is_observed() -> bool:
                numbers = await scraped(http)
                return numbers["observed_total"] == 4 and numbers["commits_total"] > 0

            await until(is_observed, "the retry is observed, and what was committed is counted")
            numbers = await scraped(http)
        assert (numbers["lane_held"], numbers["lag_messages"]) == (1, 2)
        assert numbers["account_balance_wei"] > 0
        assert numbers["delivery_failures_total"] - numbers["delivery_retries_total"] == 1, (
            "one died of its last failure"
        )
        assert numbers["delivery_retries_total"] > 0

        async with served(home, "api") as http:  # the relayer was killed
            again = await scraped(http)
            lasting = (
                "observed_total",
                "deliveries_total",
                "delivery_retries_total",
                "lag_messages",
                "lane_held",
                "delivery_seconds_sum",
            )
            assert [again[name] for name in lasting] == [numbers[name] for name in lasting]
            status: dict[str, Any] = (await http.get("/v1/status")).json()
            assert [row["state"] for row in status["lanes"]] == ["PAUSED"]
            await http.post("/v1/lanes/alpha/beta/resume", json={"reason": "test"}, headers=AUTHORIZED)
            await _is_requeued_by_an_operator_alone(home, http, f"{dead}/axelar/0")

        async with served(home, *RELAYER) as http:

            async def all_are_delivered() -> bool:
                rows = (await http.get("/v1/deliveries?state=DELIVERED")).json()
                return {row["gmp"] for row in rows} == {"wormhole", "axelar"} and len(rows) == 3

            await until(all_are_delivered, "what was opened again and retried is delivered")
            explained = (await http.get(f"/v1/messages/{silent}")).json()
            assert explained["status"] == "EXECUTED"


async def _is_requeued_by_an_operator_alone(home: Path, http: httpx.AsyncClient, event_id: str) -> None:
    """The API's token is no operator's signature."""
    assert (await scraped(http))["dead_letters"] == 1
    refused = await http.post(
        f"/v1/deliveries/{event_id}/replay", json={"reason": "the gateway is back"}, headers=AUTHORIZED
    )
    assert refused.status_code == 409
    assert refused.json()["error"]["next"].startswith(f"waybill dlq requeue {event_id}")
    assert (await http.get(f"/v1/deliveries/{event_id}")).json()["state"] == OutboxState.DEAD
    why = ("--rationale", "the gateway is back")
    (decided,) = await asyncio.to_thread(Waybill(home).json, "dlq", "requeue", event_id, *why)
    assert decided["document"]["decisionType"] == "REQUEUE"
    assert (await http.get(f"/v1/deliveries/{event_id}")).json()["state"] == OutboxState.PENDING

    async def none_waits() -> bool:
        return (await scraped(http))["dead_letters"] == 0

    await until(none_waits, "the letter that was decided counts no more")


async def _is_seen(http: httpx.AsyncClient, delivered: str, silent: str, dead: str) -> None:
    """One message that arrived, one that waits and one that is dead, each as the API tells of it."""

    async def are_told_apart() -> bool:
        numbers = await scraped(http)
        dead_letters = (await http.get("/v1/dead-letters")).json()
        return (numbers.get("deliveries_total"), len(dead_letters)) == (1, 1)

    await until(are_told_apart, "one delivery and one dead letter")
    explained = (await http.get(f"/v1/messages/{delivered}")).json()
    assert (explained["status"], explained["messageId"]) == ("EXECUTED", delivered)
    (waiting,) = (await http.get("/v1/deliveries?state=PENDING")).json()
    assert (waiting["messageId"], waiting["gmp"]) == (silent, "hyperlane")
    (letter,) = (await http.get("/v1/dead-letters?status=PENDING_REVIEW")).json()
    assert letter["id"] == f"{dead}/axelar/0"
    opened = (await http.get(f"/v1/dead-letters/{letter['id']}", headers=AUTHORIZED)).json()
    assert len(opened["document"]["failureHistory"]) == 2
    assert opened["analysis"]["permanentOrTransient"].startswith("likely permanent")
    assert (await http.get(f"/v1/dead-letters/{silent}/hyperlane/0", headers=AUTHORIZED)).status_code == 404


async def _is_steered(http: httpx.AsyncClient, silent: str) -> None:
    """A lane is paused and a message retried, by whoever has the token and nobody else."""
    pause = await http.post("/v1/lanes/alpha/beta/pause", json={"reason": "test"}, headers=AUTHORIZED)
    assert pause.json()["state"] == "PAUSED"
    retry, request = f"/v1/messages/{silent}/retry", {"gmps": ["wormhole"]}
    assert (await http.post(retry, json=request)).status_code == 401
    wrong = {"Authorization": "Bearer this is not the token"}
    assert (await http.post(retry, json=request, headers=wrong)).status_code == 401
    retried = await http.post(retry, json=request, headers=AUTHORIZED)
    assert (retried.status_code, retried.json()["attempt"]) == (200, 1), retried.text
    assert retried.json()["gmps"] == request["gmps"]
