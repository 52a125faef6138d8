"""The HTTP server: it closes connections that do not ask, do not read, or are too many."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from bridge.http.listening import CONNECTIONS, url_of

HEAD_SECONDS: Final = 10.0
"""That a client may take until it has sent the head of its request."""

STALLED_SECONDS: Final = 20.0
"""For which a client may read nothing of an answer."""

CONNECTIONS_OF_ONE: Final = 128
"""Open at once from one address, but for a trusted proxy's."""

_HEAD_BYTES: Final = 16_384
_ANY_ADDRESS: Final = "*"


class _Server(uvicorn.Server):
    """A server that leaves the process's signals to the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """uvicorn's, which waits for ever for a head that does not come, and for a client that does not read."""

    _head: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS or self._of_this_address() > CONNECTIONS_OF_ONE:
            transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self._forget_stalled()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._forget_head()  # there is a request; reading its body has a limit in `Gate`
        elif self._head is None and not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_stalled()
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._forget_head()
        super().on_response_complete()

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _forget_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _await_head(self) -> None:
        self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _of_this_address(self) -> int:
        """How many connections its address has open; 0 for an address that many clients share."""
        host = self.client[0] if self.client else ""
        trusted = self.config.forwarded_allow_ips if self.config.proxy_headers else None
        if not host or trusted in (host, _ANY_ADDRESS):
            return 0
        return sum(isinstance(one, _Connection) and (one.client or [""])[0] == host for one in self.connections)


def server_of(app: FastAPI, *, trusted_proxy: str | None = None) -> uvicorn.Server:
    """A server that leaves signals alone.

    Args:
        app: what it serves.
        trusted_proxy: the address whose ``X-Forwarded-For`` says who asks; None believes nobody's.
    """
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # strangers choose how often it would warn
    settings: dict[str, Any] = {"proxy_headers": trusted_proxy is not None, "forwarded_allow_ips": trusted_proxy or ""}
    return _Server(
        uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_graceful_shutdown=3,
            **settings,
        )
    )


@asynccontextmanager
async def serving(app: FastAPI, listener: socket.socket, *, trusted_proxy: str | None = None) -> AsyncIterator[str]:
    """Serves until the block ends; gives the base URL. Requests under way then get a moment to finish."""
    server = server_of(app, trusted_proxy=trusted_proxy)
    listener.listen(CONNECTIONS)  # a client that connects before the server runs waits for it
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield url_of(listener)
    finally:
        server.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        listener.close()
