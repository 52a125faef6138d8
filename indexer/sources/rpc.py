"""One chain behind its JSON-RPC endpoints: retries of single requests, and failover to who has the blocks that we have."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.request import getproxies

import httpx
import stamina
import urllib3

from indexer.decode.hexadecimal import HexError, quantity
from indexer.model.settings import EndpointLimits
from indexer.sources.answers import (
    RangeTooLargeError,
    RateLimitedError,
    RpcError,
    TransientRpcError,
    UnknownBlockError,
    parsed_result,
)
from indexer.sources.endpoint import Call, Endpoint, Read, in_order

_CONNECTIONS: Final = 4  # to one endpoint, kept open

# stamina would log every repetition of every request. That an endpoint fails, and that it is back, is logged once.
stamina.instrumentation.set_on_retry_hooks([])

_ATTEMPTS: Final = 4
_LONGEST_WAIT: Final = 2.0  # seconds between two attempts
_LONGEST_REST: Final = 30.0  # seconds that one attempt waits for an endpoint that wants to be left alone

_UNLIMITED: Final = EndpointLimits()

Result = TypeVar("Result")
Block = tuple[int, bytes]
"""A block that we have: its number, and its hash or the beginning of it."""


class ChainRpc:
    """JSON-RPC to one chain. Use it as a context manager, from one thread at a time."""

    def __init__(
        self,
        chain_id: int,
        urls: Sequence[str],
        timeout: float,
        transport: httpx.BaseTransport | None = None,
        *,
        limits: EndpointLimits = _UNLIMITED,
        patience: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connects lazily.

        Args:
            chain_id: EIP-155 id that every endpoint must have.
            urls: endpoints in order of preference.
            timeout: seconds for one request.
            transport: what stands in for the network.
            limits: what each endpoint may be asked.
            patience: seconds for which no endpoint may know our last block before we fail over to one that has another in its place.
            clock: measures that, in seconds.
        """
        if transport is None and not getproxies():  # through a proxy, httpx's own connections know the way
            transport = PooledTransport()
        self._http = httpx.Client(timeout=timeout, headers={"content-type": "application/json"}, transport=transport)
        self._endpoints = [Endpoint(url, chain_id, limits, self._http) for url in urls]
        self._current = self._endpoints[0]
        self._last: Block | None = None
        self._final: Block | None = None
        self._patience = patience
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def must_have(self, last: Block | None, final: Block | None) -> None:
        """From now on another endpoint than the current one counts only if it has these blocks too.

        Args:
            last: the last one read.
            final: the last one read that the chain calls final.
        """
        self._last, self._final = last, final

    def call(self, method: str, *params: Any) -> Any:
        """The result of one request.

        Raises:
            RpcError: no endpoint gave one; see `indexer.sources.answers`.
        """
        return self._with_failover(lambda endpoint: endpoint.call(parsed_result, method, params))

    def call_together(self, read: Read[Result], requests: Sequence[Call], *, final: bool) -> tuple[list[Any], Result]:
        """The results of requests that travel together; see `Endpoint.call_together`.

        Args:
            read: makes something of the last answer alone.
            requests: the answers to all but the last are short.
            final: whether they are about final blocks, which only a node that lags behind does not have.

        Raises:
            RpcError: no endpoint gave them.
        """
        return self._with_failover(lambda endpoint: endpoint.call_together(read, requests), final=final)

    def call_and_read(self, read: Read[Result], method: str, *params: Any, final: bool = False) -> Result:
        """What `read` makes of the answer to one request.

        Args:
            read: as `answers.parsed_result`, which it stands for where parsing would take too long.
            method: of the request.
            params: the same.
            final: whether it is about final blocks, which only a node that lags behind does not have.

        Raises:
            RpcError: no endpoint gave an answer that `read` takes.
        """
        return self._with_failover(lambda endpoint: endpoint.call(read, method, params), final=final)

    def batch(self, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of many requests of one method, in order, from one endpoint.

        Raises:
            RpcError: one of them has none.
        """
        return self._with_failover(lambda endpoint: endpoint.call_many(method, params))

    def gives_way(self, block: Block, reason: RpcError) -> bool:
        """Leaves the current endpoint for one that has a block of ours, and returns whether there is one.

        Args:
            block: which the current one does not have.
            reason: what is wrong with the current one, then.
        """
        for endpoint in self._endpoints:
            if endpoint is self._current:
                continue
            try:
                if not _has(endpoint, block):
                    continue
            except RpcError as error:
                endpoint.put_aside(error)
                continue
            self._current.put_aside(reason)
            self._current = endpoint
            return True
        return False

    def anyone_has(self, block: Block) -> bool:
        """Whether some endpoint has a block of ours; if so, that one is asked from now on.

        That it is gone is believed only if every endpoint has another in its place: one that lags, lies or is on a fork of
        its own would have the index forget what happened.

        Raises:
            TransientRpcError: none has it, and not all of them say what they have there.
        """
        return self._repeated(lambda: self._look_for(block))

    def _look_for(self, block: Block) -> bool:
        silent: list[RpcError] = []
        for endpoint in in_order(self._endpoints, self._current):
            try:
                if _has(endpoint, block):
                    self._current = endpoint
                    return True
            except RpcError as error:
                silent.append(error)
        if silent:
            raise TransientRpcError(
                f"no endpoint has block {block[0]} with hash 0x{block[1].hex()}, but not each says that it has another in its "
                f"place: {'; '.join(map(str, silent))}. Try again when they do; one that never will is to be taken out of "
                "the chain's URLs"
            )
        return False

    def _with_failover(self, request: Callable[[Endpoint], Result], *, final: bool = False) -> Result:
        return self._repeated(lambda: self._ask_each(request), final=final)

    def _repeated(self, ask: Callable[[], Result], *, final: bool = False) -> Result:
        def pause_after(error: Exception) -> bool | float:
            if isinstance(error, RateLimitedError) and error.retry_after is not None:
                return min(error.retry_after, _LONGEST_REST)
            return isinstance(error, (TransientRpcError, UnknownBlockError) if final else TransientRpcError)

        for attempt in stamina.retry_context(
            on=pause_after, attempts=_ATTEMPTS, wait_initial=0.1, wait_max=_LONGEST_WAIT, timeout=None
        ):
            with attempt:
                return ask()
        raise AssertionError("the retries end with a result or an error")

    def _ask_each(self, request: Callable[[Endpoint], Result]) -> Result:
        errors: list[RpcError] = []
        for endpoint in in_order(self._endpoints, self._current):
            if endpoint.rests and not all(error.blames_endpoint for error in errors):
                break  # one that answers has said that it does not have what we ask for
            try:
                if endpoint is not self._current:
                    self._must_have_ours(endpoint)
                result = request(endpoint)
            except RangeTooLargeError:
                raise
            except RpcError as error:
                errors.append(error)
                if error.blames_endpoint:
                    endpoint.put_aside(error)
            else:
                if self._current.rests:
                    self._current = endpoint
                endpoint.take_back()
                return result
        raise _nobody(errors)

    def _must_have_ours(self, endpoint: Endpoint) -> None:
        """One that lags behind would look like a reorg, one of another fork like worse.

        Raises:
            TransientRpcError: it lacks a block that we have.
        """
        if self._last is None or _has(endpoint, self._last):
            return
        number = self._last[0]
        if self._final is not None and (self._final[0] == number or not _has(endpoint, self._final)):
            number = self._final[0]
        else:
            # A reorg, or a fork that will not last: while somebody may come back who knows better, that is waited for.
            if endpoint.differs_since is None:
                endpoint.differs_since = self._clock()
            if self._clock() - endpoint.differs_since >= self._patience:
                return
        raise TransientRpcError(
            f"not failing over to {endpoint.name}: it has another block {number} than the one that was read"
        )


def _has(endpoint: Endpoint, block: Block) -> bool:
    """Whether an endpoint has that block.

    Raises:
        RpcError: it does not say, or has no block of that height yet.
    """
    number, prefix = block
    found = endpoint.call(parsed_result, "eth_getBlockByNumber", (hex(number), False))
    if found is None:
        raise TransientRpcError(f"{endpoint.name} is behind, and has no block {number} yet")
    try:
        there, hash_ = quantity(found["number"]), bytes.fromhex(found["hash"].removeprefix("0x"))
    except (AttributeError, HexError, KeyError, TypeError, ValueError) as error:
        raise TransientRpcError(f"{endpoint.name}: block {number} has no number or hash: {error!r}") from error
    if there != number:
        raise TransientRpcError(f"{endpoint.name} was asked for block {number} and gave block {there}")
    return hash_.startswith(prefix)


def _nobody(errors: Sequence[RpcError]) -> RpcError:
    """What is wrong, if nobody has an answer: what an endpoint that answers said goes before what others failed with."""
    if len(errors) == 1:
        return errors[0]
    told = [error for error in errors if not error.blames_endpoint]
    passing = [error for error in errors if isinstance(error, TransientRpcError)]
    text = "; ".join(str(error) for error in errors)
    if told or not passing:
        return type((told or errors)[0])(text)
    waits = [error.retry_after for error in passing if isinstance(error, RateLimitedError)]
    if len(waits) == len(passing) and None not in waits:
        return RateLimitedError(text, min(wait for wait in waits if wait is not None))
    return TransientRpcError(text)


class PooledTransport(httpx.BaseTransport):
    """httpx's requests over urllib3's connections.

    Those of httpx give an answer in pieces of 64 KB, each of which it parses and copies more than once: for the logs of a
    long range of blocks that takes longer than to decode them takes (docs/decisions/0023).
    """

    def __init__(self) -> None:
        """Connects lazily."""
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS, ssl_context=_whom_httpx_trusts())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends one request, and reads its answer whole.

        Raises:
            httpx.TransportError: no answer, or half of one.
        """
        timeout = request.extensions["timeout"]
        try:
            response = self._pool.request(
                request.method,
                str(request.url),
                headers=dict(request.headers),
                body=request.read(),
                timeout=urllib3.Timeout(connect=timeout["connect"], read=timeout["read"]),
                retries=False,
                redirect=False,
                decode_content=False,
            )
        except urllib3.exceptions.NewConnectionError as error:  # to urllib3 a kind of timeout
            raise httpx.ConnectError(str(error)) from error
        except urllib3.exceptions.TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise httpx.NetworkError(str(error)) from error
        return httpx.Response(response.status, headers=list(response.headers.items()), content=response.data)

    def close(self) -> None:
        """Closes the connections."""
        self._pool.clear()


@cache
def _whom_httpx_trusts() -> ssl.SSLContext:
    """Reading all certificates takes 30 ms of each task of a backfill, in processes that are used again."""
    return httpx.create_ssl_context()
