"""JSON-RPC over aiohttp. Concurrent requests to one endpoint are sent as one batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from bridge.evm.endpoint_policy import EndpointPolicy, without_secrets
from bridge.evm.rpc_answers import BatchRefusedError, RpcError, TransientRpcError, check_batch, check_status

_log = structlog.get_logger(__name__)

_HEADERS: Final = {"Content-Type": "application/json"}

_READ_BUFFER: Final = 1 << 22
"""Bytes of a response that are read ahead. aiohttp's default of 64 KiB takes twice as long for the logs of a long range."""

_TURNS: Final = 5  # of the event loop, to collect a batch


class Exchange(Protocol):
    """The transport for requests to one endpoint."""

    async def ask(self, method: str, params: Sequence[Any]) -> Any:
        """Returns the JSON-RPC response to a request, with its result or error.

        Raises:
            RpcError: the endpoint did not respond.
        """

    async def close(self) -> None:
        """Closes the connections. Pending requests fail."""


Connect = Callable[[str, EndpointPolicy], Exchange]
"""Creates the transport for a URL."""


@dataclass(frozen=True, slots=True)
class _Pending:
    method: str
    params: Sequence[Any]
    answer: asyncio.Future[Any] = field(repr=False)

    def as_json(self, number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": self.method, "params": self.params}


class HttpExchange:
    """Sends requests to one URL over persistent connections.

    Falls back to single requests if the server rejects batches.
    """

    def __init__(self, url: str, policy: EndpointPolicy) -> None:
        """Creates a transport, which connects with the first request."""
        self._url = url
        self._name = without_secrets(url)
        self._batch = policy.batch
        self._timeout = ClientTimeout(total=policy.request_seconds)
        self._session: ClientSession | None = None
        self._is_closed = False
        self._waiting: list[_Pending] = []
        self._exchanges: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """See `Exchange.close`."""
        for exchange in self._exchanges:
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def ask(self, method: str, params: Sequence[Any]) -> Any:
        """See `Exchange.ask`."""
        if self._is_closed:
            raise RuntimeError(f"{method} was requested from {self._name} after its connection was closed")
        loop = asyncio.get_running_loop()
        request = _Pending(method, params, loop.create_future())
        self._waiting.append(request)
        if len(self._waiting) == 1:
            loop.call_soon(self._send, _TURNS)
        return await request.answer

    def _send(self, turns: int) -> None:
        """Sends the waiting requests after `turns` turns of the event loop, so that nested tasks can join."""
        if turns:
            asyncio.get_running_loop().call_soon(self._send, turns - 1)
            return
        waiting = [request for request in self._waiting if not request.answer.done()]
        self._waiting.clear()
        for first in range(0, len(waiting), self._batch):
            exchange = asyncio.get_running_loop().create_task(self._exchange(waiting[first : first + self._batch]))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, requests: Sequence[_Pending]) -> None:
        try:
            answers = await self._post(requests)
        except BatchRefusedError as error:
            if self._batch > 1:
                self._batch = 1
                _log.info("endpoint rejects batches, using single requests", endpoint=self._name, error=str(error))
            await asyncio.gather(*(self._exchange([request]) for request in requests))
        except RpcError as error:
            _refuse(requests, error)
        except TimeoutError:
            _refuse(requests, TransientRpcError(f"{self._name}: request timed out after {self._timeout.total:g} s"))
        except (ClientError, OSError, ValueError) as error:
            _refuse(requests, TransientRpcError(f"{self._name}: {str(error) or type(error).__name__}"))
        except BaseException:
            _refuse(requests, TransientRpcError(f"{self._name}: the connection was closed"))
            raise
        else:
            for request, answer in zip(requests, answers, strict=True):
                if not request.answer.done():
                    request.answer.set_result(answer)

    async def _post(self, requests: Sequence[_Pending]) -> list[Any]:
        documents = [request.as_json(number) for number, request in enumerate(requests)]
        body = orjson.dumps(documents if len(documents) > 1 else documents[0])
        status, retry_after, content = await self._fetch(body)
        check_status(status, retry_after, content, self._name, requests=len(requests), now=time.time())
        answers = orjson.loads(content)
        if len(requests) == 1:
            _check_id(answers, self._name)
            return [answers]
        if isinstance(answers, list):
            by_number = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
            return [by_number.get(number) for number in range(len(requests))]
        check_batch(answers, self._name)
        return [answers] * len(requests)

    async def _fetch(self, body: bytes) -> tuple[int, str | None, bytes]:
        """Sends a POST request, and returns the status, Retry-After header and body of its response."""
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=64, keepalive_timeout=60), timeout=self._timeout, read_bufsize=_READ_BUFFER
            )
        async with self._session.post(self._url, data=body, headers=_HEADERS) as response:
            return response.status, response.headers.get("retry-after"), await response.read()


def _check_id(answer: Any, name: str) -> None:
    """Rejects the result of a different request. Errors may lack an id."""
    if isinstance(answer, dict) and "result" in answer and answer.get("id") != 0:
        raise TransientRpcError(f"{name}: the response belongs to request {answer.get('id')!r}, not 0")


def _refuse(requests: Sequence[_Pending], reason: RpcError) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(copy(reason))
