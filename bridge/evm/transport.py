"""JSON-RPC over aiohttp, following `bridge.evm.endpoint_policy`. Concurrent requests are sent as one batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from bridge.evm.endpoint_policy import (
    Endpoint,
    EndpointPolicy,
    EndpointPool,
    ErrorScope,
    Read,
    require_endpoints,
    scope_of,
    votes_of,
    without_secrets,
)
from bridge.evm.rpc_answers import (
    BatchRefusedError,
    DisagreementError,
    Request,
    RpcError,
    TransientRpcError,
    check_batch,
    check_status,
    result_of,
)

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


class Endpoints:
    """Applies the policy to one chain's endpoints. Create it with `open`, inside the event loop that uses it."""

    def __init__(
        self, chain_id: int, urls: Sequence[str], policy: EndpointPolicy, connect: Connect = HttpExchange
    ) -> None:
        """Creates the endpoints without connecting. `connect` creates the transport for a URL."""
        self._pool = EndpointPool(chain_id, urls, policy, clock=lambda: asyncio.get_running_loop().time(), client=self)
        self._exchanges = {endpoint: connect(endpoint.url, policy) for endpoint in self._pool.endpoints}
        self.agreement = policy.agreement

    @classmethod
    async def open(
        cls, chain_id: int, urls: Sequence[str], policy: EndpointPolicy, *, may_be_down: bool = False
    ) -> Endpoints:
        """Connects and verifies the chain id of every URL.

        Args:
            chain_id: EIP-155 id that each endpoint must have.
            urls: Endpoints in order of preference.
            policy: Policy of the endpoints.
            may_be_down: Whether to continue if no endpoint responds. Each endpoint is then verified before its
                first use.

        Raises:
            WrongChainError: an endpoint serves a different chain.
            TransientRpcError: no endpoint responded, or there are fewer endpoints than must agree.
        """
        require_endpoints(chain_id, urls, policy)
        endpoints = cls(chain_id, urls, policy)
        try:
            await endpoints._verify_all(may_be_down=may_be_down)
        except BaseException:
            await endpoints.close()
            raise
        return endpoints

    async def close(self) -> None:
        """Closes all connections."""
        await asyncio.gather(*(exchange.close() for exchange in self._exchanges.values()))

    @property
    def pool(self) -> EndpointPool:
        """Returns the endpoints with their states."""
        return self._pool

    async def request(self, request: Request, read: Read) -> Any:
        """Returns the result of a request; see `EndpointPool.request`."""
        return await self._pool.request(request, read)

    async def agreed(self, essence: Callable[[Any], Hashable], request: Request, read: Read) -> Any:
        """Returns the result on which enough endpoints agree, so that no single endpoint can forge it.

        Args:
            essence: Extracts the part of a result that must be equal.
            request: Request to send.
            read: Decodes a result. A result that can't be decoded has no vote.

        Raises:
            RpcError: enough endpoints returned the same error, too few responded, or they disagree.
        """
        if self.agreement == 1:
            return await self.request(request, read)
        answers, failures = await self._opinions(essence, request, read)
        votes = votes_of(list(answers.values()), essence)
        majority: list[Any] = votes[0] if votes else []
        if len(majority) < self.agreement:
            raise self._too_few(request, len(majority), f"do ({len(votes)} different answers)", failures)
        if isinstance(majority[0], RpcError):
            raise majority[0]
        return read(majority[0])

    async def opinions(self, request: Request, read: Read) -> list[Any]:
        """Collects results until enough endpoints have responded, or a single result if one endpoint suffices.

        Raises:
            RpcError: too few endpoints returned a result. If one of them reported an error, that error is raised.
        """
        if self.agreement == 1:
            return [await self.request(request, read)]
        answers, failures = await self._opinions(str, request, read)
        results = [read(answer) for answer in answers.values() if not isinstance(answer, RpcError)]
        if len(results) < self.agreement:
            refusal = next((answer for answer in answers.values() if isinstance(answer, RpcError)), None)
            if refusal is None and results:
                raise self._too_few(request, len(results), "answer", failures)
            raise refusal or self._pool.nobody(failures)
        return results

    def _too_few(self, request: Request, count: int, what: str, failures: Sequence[RpcError]) -> DisagreementError:
        """Returns an error that states the chain and the endpoints that did not respond."""
        text = (
            f"{self._pool.chain}: {self.agreement} endpoints must agree on {request.method}, but {count} of"
            f" {len(self._exchanges)} {what}"
        )
        if failures:
            silent = "; ".join(dict.fromkeys(map(str, failures)))
            text += f"; no response from {silent}; see {self._pool.policy.origin}"
        return DisagreementError(text)

    async def _opinions(
        self, essence: Callable[[Any], Hashable], request: Request, read: Read
    ) -> tuple[dict[Endpoint, Any], list[RpcError]]:
        """Collects the responses of working endpoints, including errors, until enough of them agree.

        Also returns the failures of the other endpoints.
        """
        tasks = {asyncio.create_task(self._opinion(one, request, read)): one for one in self._exchanges}
        waiting = set(tasks)
        answers: dict[Endpoint, Any] = {}
        failures: list[RpcError] = []
        try:
            while waiting and all(len(votes) < self.agreement for votes in votes_of(list(answers.values()), essence)):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in (task for task in tasks if task in done):
                    answer = task.result()
                    if isinstance(answer, RpcError) and scope_of(answer, request) is ErrorScope.AT_FAULT:
                        failures.append(answer)
                    else:
                        answers[tasks[task]] = answer
        finally:
            await _cancel(list(tasks))
        return answers, failures

    async def _opinion(self, endpoint: Endpoint, request: Request, read: Read) -> Any:
        """Returns one endpoint's raw result, or its error."""

        def check(answer: Any) -> Any:
            read(answer)
            return answer

        try:
            answer = await self._pool.ask_alone(endpoint, request, check)
        except RpcError as error:
            return error
        self._pool.take_back(endpoint)
        return answer

    async def _verify_all(self, *, may_be_down: bool) -> None:
        errors = [error for error in await asyncio.gather(*map(self._verify, self._exchanges)) if error is not None]
        if len(errors) == len(self._exchanges):
            if not may_be_down:
                raise self._pool.nobody(errors)
            names = [endpoint.name for endpoint in self._exchanges]
            _log.warning("no endpoint responds, chain starts once one does", chain=self._pool.chain, endpoints=names)

    async def _verify(self, endpoint: Endpoint) -> TransientRpcError | None:
        """Verifies that an endpoint serves this chain. If the endpoint does not respond, returns the error.

        Raises:
            WrongChainError: the endpoint serves a different chain.
        """
        try:
            await self._pool.verify(endpoint)
        except TransientRpcError as error:
            self._pool.put_aside(endpoint, error)
            return error
        return None

    async def ask(self, endpoint: Endpoint, request: Request) -> Any:
        """See `bridge.evm.endpoint_policy.Client`."""
        wait = endpoint.pace.wait_from(asyncio.get_running_loop().time())
        if wait:
            await asyncio.sleep(wait)
        answer = await self._exchanges[endpoint].ask(request.method, request.params)
        return result_of(answer, request, f"{endpoint.name}: {request.method}")

    async def sleep(self, seconds: float) -> None:
        """See `bridge.evm.endpoint_policy.Client`."""
        await asyncio.sleep(seconds)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
