"""A real relayer whose HTTP API is attacked: it goes on relaying, answers who asks in time, and outlives its API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil

from bridge.devnet import Devnet
from bridge.devnet.accounts import RELAYER_KEY
from bridge.evm.chain import EvmChain
from bridge.protocol.gmps import Gmp
from tests.anvil.command import new_home
from tests.anvil.relayers import PATIENCE, process
from tests.anvil.test_http import AUTHORIZED, RELAYER, TOKEN
from tests.anvil.test_relayer import Traffic, blocks

MB = 1 << 20
READERS = 40
IN_TIME = 10.0  # seconds, on a busy machine; without limits it took minutes


@asynccontextmanager
async def attack(url: str) -> AsyncIterator[None]:
    """Bodies of 80 MB without a token, and parallel reads of what is dearest, until the block ends."""
    tasks = [asyncio.create_task(_flood(url)) for _ in range(3)]
    tasks += [asyncio.create_task(_read(url)) for _ in range(READERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _flood(url: str) -> None:
    parts, body = urlsplit(url), bytes(MB)
    head = f"POST /v1/lanes/alpha/beta/pause HTTP/1.1\r\nHost: x\r\nContent-Length: {80 * MB}\r\n\r\n".encode()
    while True:
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            writer.write(head)
            for _ in range(80):
                writer.write(body)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
        await asyncio.sleep(0.05)  # the attacker shares this machine's two cores


async def _read(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        while True:
            for path in ("/v1/status", "/metrics", "/v1/deliveries?limit=1000", f"/v1/messages/0x{'ab' * 32}"):
                try:
                    await http.get(path)
                except httpx.HTTPError:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.05)


async def answers(url: str) -> float:
    """Seconds until `/healthz` answers; it is asked again while nobody listens."""
    started = time.monotonic()
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    assert (await http.get("/healthz")).json() == {"status": "ok"}
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
                else:
                    return time.monotonic() - started


async def test_whoever_asks_can_not_slow_who_relays(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic, home = Traffic(devnet, chains), new_home(devnet, tmp_path)
    arguments = (*RELAYER, "--http", "127.0.0.1:0")
    environment = {"WAYBILL_API_TOKEN": TOKEN, "WAYBILL_RELAYER_KEY": RELAYER_KEY}
    async with blocks(devnet):
        with process(home, home / "relayer.log", *arguments, **environment) as running:
            url = await running.url()
            await answers(url)
            await running.is_at_work()
            relayer = psutil.Process(running.pid)
            (api,) = relayer.children()
            sizes = relayer.memory_info().rss, api.memory_info().rss
            async with attack(url):
                for _ in range(3):
                    await traffic.send(Gmp.WORMHOLE, quorum=1)
                await traffic.all_executed()
                assert max([await answers(url) for _ in range(5)]) < IN_TIME
                async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=IN_TIME) as http:
                    refused = await http.post("/v1/lanes/alpha/beta/pause", content=b"{")
                    assert refused.status_code in (401, 429)
            now = relayer.memory_info().rss, api.memory_info().rss
            assert max(now[0] - sizes[0], now[1] - sizes[1]) < 150 * MB, (sizes, now)
            assert api.nice() > relayer.nice(), "where both want a core, the relayer goes first"
            assert "WAYBILL_RELAYER_KEY" not in api.environ()

            api.kill()
            await answers(url)
            (again,) = relayer.children()
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=IN_TIME) as http:
                assert (await http.post("/v1/lanes/alpha/beta/pause", json={"reason": "x"})).status_code == 401
                paused = await http.post("/v1/lanes/alpha/beta/pause", json={"reason": "x"}, headers=AUTHORIZED)
                assert paused.json()["state"] == "PAUSED"
            running.kill()
            await asyncio.to_thread(again.wait, 20)  # it ends with the relayer, however that ended


async def test_an_api_without_a_relayer_ends_cleanly_when_it_is_asked_to(devnet: Devnet, tmp_path: Path) -> None:
    home = new_home(devnet, tmp_path)
    with process(home, home / "api.log", "api", "--http", "127.0.0.1:0") as running:
        url = await running.url()
        await answers(url)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=IN_TIME) as http:
            status = (await http.get("/v1/status")).json()
            assert abs(status["asOf"] - time.time()) < 60
            assert [chain["error"] for chain in status["chains"]] == [None] * len(devnet.chains)
        (api,) = psutil.Process(running.pid).children()
        assert await asyncio.to_thread(running.terminate) == 0
        assert not api.is_running()
    assert "Traceback" not in running.log
