"""Serves ASGI applications with uvicorn. Public servers belong behind a reverse proxy, which also handles TLS and slow clients."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from bridge.metrics.samples import CONTENT_TYPE
from bridge.service.listening import url_of

_CONNECTIONS: Final = 512
"""Maximum number of concurrent connections and requests; uvicorn answers further ones with 503."""

_HEAD_BYTES: Final = 16_384


class _Server(uvicorn.Server):
    """A server that leaves signal handling to its process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def metrics_app(expose: Callable[[], Awaitable[bytes]]) -> Starlette:
    """Returns an application that serves ``/healthz``, and ``/metrics`` in Prometheus' text format."""

    async def metrics(_request: Request) -> Response:
        return Response(await expose(), media_type=CONTENT_TYPE)

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz)])


@asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket, *, trusted_proxy: str | None = None) -> AsyncIterator[str]:
    """Serves until the `with` block ends, and yields the base URL.

    At the end, requests in flight get three seconds to finish.

    Args:
        app: the application.
        listener: a bound socket.
        trusted_proxy: the address of the proxy whose ``X-Forwarded-For`` is trusted; None trusts no proxy.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # clients could trigger any number of warnings
    server = _Server(
        uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_CONNECTIONS,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=3,
            proxy_headers=trusted_proxy is not None,
            forwarded_allow_ips=trusted_proxy or "",
        )
    )
    listener.listen(_CONNECTIONS)  # clients that connect before the server runs wait for it
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield url_of(listener)
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        listener.close()
