"""JSON-RPC over HTTP. Requests that are made at the same moment travel together, as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import orjson
import structlog
from aiohttp import ClientError, ClientResponseError, ClientSession, ClientTimeout, TCPConnector

from bridge.evm.answers import RpcError
from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.protocol.node_errors import ANOTHER_NODE

_log = structlog.get_logger(__name__)

_HEADERS: Final = {"Content-Type": "application/json"}

_TURNS: Final = 5

# How servers say that they take one request at a time, or not so many.
_NO_BATCHES: Final = frozenset({400, 405, 413, 415, 422, 501})


class NoAnswerError(Exception):
    """A request got no answer, or none that is JSON-RPC."""


class Exchange(Protocol):
    """How requests travel to one endpoint, and answers back."""

    async def ask(self, method: str, params: Sequence[Any]) -> dict[str, Any]:
        """The JSON object that answers a request, with its result or error.

        Raises:
            NoAnswerError: there is none.
        """

    async def close(self) -> None:
        """Closes the connections; who still waits for an answer gets none."""


Connect = Callable[[str, EndpointPolicy], Exchange]
"""How a URL is reached."""


class _BatchRefusedError(Exception):
    """The server does not take requests together."""


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    params: Sequence[Any]
    answer: asyncio.Future[Any] = field(repr=False)

    def as_json(self, number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": self.method, "params": self.params}


class Transport:
    """See `Exchange`: one URL, over connections that are kept open. A server that refuses batches gets single requests from then on."""

    def __init__(self, url: str, name: str, *, seconds: float, batch: int) -> None:
        """Nothing is asked before the first request.

        Args:
            url: where to.
            name: what it is called in texts.
            seconds: that an answer may take.
            batch: requests that travel together at most.
        """
        self._url = url
        self._name = name
        self._batch = batch
        self._session = ClientSession(
            connector=TCPConnector(limit=64, keepalive_timeout=60),
            timeout=ClientTimeout(total=seconds),
            raise_for_status=True,
        )
        self._waiting: list[_Request] = []
        self._exchanges: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """See `Exchange.close`."""
        for exchange in self._exchanges:
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)
        await self._session.close()

    async def ask(self, method: str, params: Sequence[Any]) -> dict[str, Any]:
        """See `Exchange.ask`."""
        if self._session.closed:
            raise RuntimeError(f"{method} was asked of {self._name} after its connection was closed")
        loop = asyncio.get_running_loop()
        request = _Request(method, params, loop.create_future())
        self._waiting.append(request)
        if len(self._waiting) == 1:
            loop.call_soon(self._send, _TURNS)
        answer = await request.answer
        if not isinstance(answer, dict):
            raise NoAnswerError(f"{method} answered neither a result nor an error")
        return answer

    def _send(self, turns: int) -> None:
        """Sends what waits, a few turns of the loop after the first request: tasks of tasks ask at the same moment too."""
        if turns:
            asyncio.get_running_loop().call_soon(self._send, turns - 1)
            return
        waiting = [request for request in self._waiting if not request.answer.done()]
        self._waiting.clear()
        for first in range(0, len(waiting), self._batch):
            exchange = asyncio.get_running_loop().create_task(self._exchange(waiting[first : first + self._batch]))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, requests: Sequence[_Request]) -> None:
        try:
            if len(requests) == 1:
                answers = [await self._post(requests[0].as_json(1))]
            else:
                answers = await self._post_all(requests)
        except _BatchRefusedError as error:
            if self._batch > 1:
                self._batch = 1
                _log.info(
                    "endpoint takes no batches: single requests from now on", endpoint=self._name, said=str(error)
                )
            await asyncio.gather(*(self._exchange([request]) for request in requests))
        except TimeoutError:
            _refuse(requests, "no answer in time")
        except (ClientError, OSError, ValueError) as error:
            _refuse(requests, str(error) or type(error).__name__)
        except BaseException:
            _refuse(requests, "the connection was closed")
            raise
        else:
            for request, answer in zip(requests, answers, strict=True):
                if not request.answer.done():
                    request.answer.set_result(answer)

    async def _post_all(self, requests: Sequence[_Request]) -> list[Any]:
        try:
            answers = await self._post([request.as_json(number) for number, request in enumerate(requests)])
        except ClientResponseError as error:
            if error.status in _NO_BATCHES:
                raise _BatchRefusedError(f"{error.status} {error.message}") from error
            raise
        if isinstance(answers, list):
            by_number = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
            return [by_number.get(number) for number in range(len(requests))]
        if isinstance(answers, dict) and answers.get("error") is not None:
            refusal = RpcError.from_json("a batch", answers["error"])
            if refusal.meaning not in ANOTHER_NODE:
                raise _BatchRefusedError(str(refusal))
        return [answers] * len(requests)

    async def _post(self, body: Any) -> Any:
        async with self._session.post(self._url, data=orjson.dumps(body), headers=_HEADERS) as response:
            return orjson.loads(await response.read())


def _refuse(requests: Sequence[_Request], reason: str) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(NoAnswerError(reason))


def over_http(url: str, policy: EndpointPolicy) -> Transport:
    """See `Connect`."""
    return Transport(url, without_secrets(url), seconds=policy.request_seconds, batch=policy.batch)


def without_secrets(url: str) -> str:
    """The URL as far as it may be shown: providers put keys into the path, the query, or before the host."""
    parts = urlsplit(url)
    host = f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    return f"{parts.scheme}://{host}{'/…' if parts.path.strip('/') or parts.query else ''}"
