"""Endpoints on real sockets, stopped when the test ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.unit.evm.rpc_server import Behaviour, RpcServer

Serve = Callable[..., Awaitable[RpcServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts an endpoint that behaves so; the options are those of `RpcServer`."""
    servers: list[RpcServer] = []

    async def start(behaviour: Behaviour, **options: Any) -> RpcServer:
        servers.append(await RpcServer(behaviour, **options).start())
        return servers[-1]

    yield start
    for server in servers:
        await server.stop()
