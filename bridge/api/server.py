"""Serves an application beside everything else in the event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import structlog
import uvicorn
from fastapi import FastAPI

_log = structlog.get_logger(__name__)


class ListeningError(ValueError):
    """An address that can't be listened at."""


class _Server(uvicorn.Server):
    """A server that leaves the process's signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening_at(address: str) -> socket.socket:
    """A socket at HOST:PORT; port 0 takes a free one.

    Raises:
        ListeningError: the address can't be meant, is not this machine's, or is taken.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ListeningError(f"{address!r} is no address to listen at: HOST:PORT is needed, such as 127.0.0.1:8080")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, int(port)))
    except OSError as error:
        opened.close()
        raise ListeningError(f"can't listen at {address}: {error.strerror or error}; name another --http") from error
    return opened


@asynccontextmanager
async def serving(app: FastAPI, listener: socket.socket) -> AsyncIterator[str]:
    """Serves until the block ends; gives the base URL. Requests under way then get a moment to finish."""
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=3)
    server = _Server(config)
    listener.listen()  # who reads the next line and connects at once waits for the server, and is not refused
    task = asyncio.create_task(server.serve(sockets=[listener]))
    _log.info("serving the HTTP API", url=url)
    try:
        yield url
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        listener.close()
