"""One chain behind its JSON-RPC endpoints, with retries of single requests and failover in order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.request import getproxies

import httpx
import orjson
import stamina

from indexer.decode.hexadecimal import HexError, quantity
from indexer.sources.answers import (
    RefusedError,
    TransientRpcError,
    WrongChainError,
    answers_of,
    parsed_result,
    result_of,
)
from indexer.sources.connections import PooledTransport

_ATTEMPTS: Final = 4
_LONGEST_WAIT: Final = 2.0  # seconds between two attempts
_MAX_BATCH: Final = 50  # requests in one HTTP request

Result = TypeVar("Result")


class ChainRpc:
    """JSON-RPC to one chain. Use it as a context manager, from one thread at a time."""

    def __init__(
        self, chain_id: int, urls: Sequence[str], timeout: float, transport: httpx.BaseTransport | None = None
    ) -> None:
        """Connects lazily.

        Args:
            chain_id: EIP-155 id that every endpoint must have.
            urls: endpoints in order of preference.
            timeout: seconds for one request.
            transport: what stands in for the network.
        """
        self._chain_id = chain_id
        self._urls = tuple(urls)
        self._current = 0
        self._verified: set[str] = set()
        self._ids = itertools.count(1)
        if transport is None and not getproxies():  # through a proxy, httpx's own connections know the way
            transport = PooledTransport()
        self._http = httpx.Client(timeout=timeout, headers={"content-type": "application/json"}, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def call(self, method: str, *params: Any) -> Any:
        """The result of one request.

        Raises:
            RpcError: no endpoint gave one; see `indexer.sources.answers`.
        """
        return self.call_and_read(parsed_result, method, *params)

    def call_and_read(self, read: Callable[[bytes, int, str], Result], method: str, *params: Any) -> Result:
        """What `read` makes of the answer to one request.

        Args:
            read: as `answers.parsed_result`, which it stands for where parsing would take too long.
            method: of the request.
            params: the same.

        Raises:
            RpcError: no endpoint gave an answer that `read` takes.
        """
        return self._with_failover(partial(self._one, method=method, params=params, read=read))

    def batch(self, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of many requests of one method, in order.

        Raises:
            RpcError: one of them has none.
        """
        results: list[Any] = []
        for start in range(0, len(params), _MAX_BATCH):
            part = params[start : start + _MAX_BATCH]
            results += self._with_failover(partial(self._many, method=method, params=part))
        return results

    def _with_failover(self, request: Callable[[str], Result]) -> Result:
        for attempt in stamina.retry_context(
            on=TransientRpcError, attempts=_ATTEMPTS, wait_initial=0.1, wait_max=_LONGEST_WAIT, timeout=None
        ):
            with attempt:
                url = self._urls[self._current]
                try:
                    self._verify(url)
                    return request(url)
                except TransientRpcError:
                    self._current = (self._current + 1) % len(self._urls)
                    raise
        raise AssertionError("the retries end with a result or an error")

    def _verify(self, url: str) -> None:
        if url in self._verified:
            return
        answer = self._one(url, "eth_chainId", (), parsed_result)
        try:
            found = quantity(answer)
        except HexError as error:
            raise TransientRpcError(f"{shown(url)}: eth_chainId: {error}") from error
        if found != self._chain_id:
            raise WrongChainError(
                f"{shown(url)} serves chain {found}, but the deployment says chain {self._chain_id}; "
                "correct rpcUrls in the deployments file"
            )
        self._verified.add(url)

    def _one(self, url: str, method: str, params: Sequence[Any], read: Callable[[bytes, int, str], Result]) -> Result:
        request_id = next(self._ids)
        where = f"{shown(url)}: {method}"
        body = self._post(url, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}, where)
        return read(body, request_id, where)

    def _many(self, url: str, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        if len(params) == 1:
            return [self._one(url, method, params[0], parsed_result)]
        where = f"{shown(url)}: {method}"
        requests = [
            {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": arguments} for arguments in params
        ]
        answers = answers_of(self._post(url, requests, where), where)
        if not isinstance(answers, list):
            result_of(answers, -1, where)  # an error for the whole batch
            raise TransientRpcError(f"{where}: a batch of {len(requests)} requests got one answer")
        by_id = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
        return [result_of(by_id.get(request["id"]), int(str(request["id"])), where) for request in requests]

    def _post(self, url: str, document: Any, where: str) -> bytes:
        try:
            response = self._http.post(url, content=orjson.dumps(document))
        except httpx.HTTPError as error:
            raise TransientRpcError(f"{where}: {type(error).__name__} {error}".rstrip()) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise RefusedError(f"{where}: {error}") from error
        if response.status_code in (401, 403):
            raise RefusedError(f"{where}: the endpoint wants a key (HTTP {response.status_code})")
        # Some providers put their JSON-RPC error into an HTTP error; a proxy's error page is no JSON.
        if response.status_code != httpx.codes.OK and not response.content.lstrip().startswith((b"{", b"[")):
            raise TransientRpcError(f"{where}: HTTP {response.status_code}")
        return response.content


def shown(url: str) -> str:
    """A URL for people: providers put keys into path, query and user."""
    return re.sub(r"(://)[^@/]*@", r"\1…@", re.sub(r"(://[^/]+/)[^/].*$", r"\1…", url))
