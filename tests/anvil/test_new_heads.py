"""Blocks announced over WebSocket wake the relayer; without the WebSocket, it polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bridge.devnet import Devnet
from bridge.evm.chain import EvmChain
from bridge.evm.new_heads import NewHeads
from bridge.protocol.gmps import Gmp
from tests.anvil.relayers import until
from tests.anvil.rpc import free_ports, mine
from tests.anvil.test_relayer import Traffic, blocks, relaying

pytestmark = pytest.mark.long

NEVER = 3600.0  # seconds between two polls


def announced_at(url: str) -> dict[str, object]:
    return {"chains": {"alpha": {"ws_url": url}}}


async def test_announced_block_is_read_before_the_next_poll(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic, url = Traffic(devnet, chains), devnet.deployment.chain("alpha").rpc_urls[0]
    rare = {"poll_interval": NEVER, "lease": 2 * NEVER, **announced_at(url.replace("http", "ws"))}
    async with relaying(devnet, tmp_path, **rare) as bridge:
        await until(
            lambda: bridge.store.observations.cursor(devnet.deployment.chains[0].chain_id) is not None,
            "the relayer has read a block",
        )
        await traffic.send(Gmp.HYPERLANE)
        await until(lambda: _next_block(url) and bridge.store.outbox.listed() != [], "the message is seen")


def _next_block(url: str) -> bool:
    mine(url)
    return True


@asynccontextmanager
async def useless(how: str) -> AsyncIterator[tuple[str, list[str]]]:
    """The URL of an endpoint whose WebSocket is of no use, and the clients that have connected so far."""
    connected: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        connected.append(str(request.remote))
        if how == "refuses the handshake":
            return web.Response(status=403)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if how == "talks nonsense":
            await socket.send_str("<html>")
        elif how == "does not subscribe":
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no such method"}})
        await socket.close()
        return socket

    application = web.Application()
    application.router.add_get("/", handle)
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/", connected
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("how", ["refuses the handshake", "hangs up", "talks nonsense", "does not subscribe"])
async def test_a_useless_websocket_is_said_once_and_tried_again(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.evm.new_heads._FIRST_PAUSE", 0.01)
    async with useless(how) as (url, connected):
        with capture_logs() as logged:
            task = asyncio.create_task(NewHeads(url, lambda: None).run())
            await until(lambda: len(connected) > 2, "it has connected three times")
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    assert [line["event"] for line in logged] == ["new-block subscription lost, polling continues"]
    assert logged[0]["error"]


async def test_with_a_dead_websocket_messages_are_delivered_by_polling(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    traffic = Traffic(devnet, chains)
    (port,) = free_ports(1)
    async with blocks(devnet), relaying(devnet, tmp_path, **announced_at(f"ws://127.0.0.1:{port}")):
        await traffic.send(Gmp.HYPERLANE)
        await traffic.all_executed()
