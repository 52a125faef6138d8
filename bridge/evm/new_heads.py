"""Subscribes to new blocks over WebSocket. A notification only wakes up polling, which reads the chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

import orjson
import structlog
from aiohttp import ClientError, ClientSession, ClientWebSocketResponse, WSMsgType

from bridge.evm.endpoint_policy import without_secrets
from bridge.protocol.backoff import backoff

_log = structlog.get_logger(__name__)

_SUBSCRIBE: Final = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
_PING: Final = 20.0  # seconds between pings; a connection that answers none is dead
_FIRST_PAUSE: Final = 1.0  # seconds until the next connection; doubles
_LONGEST_PAUSE: Final = 60.0


class _UnusableError(Exception):
    """The connection is unusable."""


class NewHeads:
    """One endpoint's subscription. Polling works without it."""

    def __init__(self, url: str, announced: Callable[[], None]) -> None:
        """Calls `announced` for each new block."""
        self._url = url
        self._name = without_secrets(url)  # for texts
        self._announced = announced

    async def run(self) -> None:
        """Listens until cancelled, reconnecting whenever the connection is lost."""
        pause, was_reported = _FIRST_PAUSE, False
        while True:
            try:
                async with (
                    ClientSession() as session,
                    session.ws_connect(self._url, heartbeat=_PING, max_msg_size=1 << 20) as connection,
                ):
                    await connection.send_json(_SUBSCRIBE)
                    async for _ in _announcements(connection):
                        if was_reported:
                            _log.info("new-block subscription restored", endpoint=self._name)
                        pause, was_reported = _FIRST_PAUSE, False
                        self._announced()
                problem = "the connection was closed"
            except (ClientError, OSError, TimeoutError, ValueError, _UnusableError) as error:
                problem = str(error) or type(error).__name__
            if not was_reported:
                _log.warning("new-block subscription lost, polling continues", endpoint=self._name, error=problem)
                was_reported = True
            await asyncio.sleep(pause)
            pause = backoff(pause, 1, cap=_LONGEST_PAUSE)


async def _announcements(connection: ClientWebSocketResponse) -> AsyncIterator[None]:
    """Yields once per new block.

    Raises:
        _UnusableError: the endpoint does not subscribe.
    """
    async for message in connection:
        if message.type is not WSMsgType.TEXT:
            continue
        answer = orjson.loads(message.data)
        if not isinstance(answer, dict) or "error" in answer:
            raise _UnusableError(f"the endpoint refused the subscription: {answer!r}"[:200])
        if answer.get("method") == "eth_subscription":
            yield
