"""JSON-RPC over httpx for code that blocks, as `bridge.evm.endpoint_policy` says. Answers are read as bytes, since logs can be many."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.request import getproxies

import httpx
import orjson
import structlog
import urllib3

from bridge.evm.endpoint_policy import Endpoint, EndpointPolicy, EndpointPool, KnownBlock, Pace, finished
from bridge.evm.rpc_answers import (
    BatchRefusedError,
    NoAccessError,
    Request,
    RpcError,
    TransientRpcError,
    check_batch,
    check_status,
    result_of,
)
from indexer.model.errors import SettingsError

log = structlog.get_logger(__name__)

_CONNECTIONS: Final = 4  # to one endpoint, kept open
_LOOK_AGAIN: Final = 0.01  # seconds between two looks for a place that has become free
_FIRST: Final = 1 << 18  # characters in which the short answers before a long one mostly end
_NO_BLANK: Final = re.compile(r"[^ \t\n\r]")

_ids = itertools.count(1)


class Sent(NamedTuple):
    """A request that was sent."""

    request: Request
    id: int
    endpoint: str  # its name

    @property
    def where(self) -> str:
        """What to call it in errors."""
        return f"{self.endpoint}: {self.request.method}"

    def to_json(self) -> dict[str, Any]:
        """As it travels."""
        return {"jsonrpc": "2.0", "id": self.id, "method": self.request.method, "params": self.request.params}


Result = TypeVar("Result")
Read = Callable[[bytes, Sent], Result]
"""Makes something of the body of an answer, as `parsed_result` does where that does not take too long."""


def parsed_result(body: bytes, sent: Sent) -> Any:
    """The result in the body of a response to a single request.

    Raises:
        RpcError: it is an error, or no answer to that request.
    """
    return result_of(_parsed(body, sent.where), sent.request, sent.where, sent.id)


def _parsed(body: bytes, where: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:  # cut off, or a proxy's error page
        raise TransientRpcError(
            f"{where}: the answer is not JSON ({error}); its first bytes are {body[:80]!r}"
        ) from error


def answers_together(body: bytes, sent: Sequence[Sent]) -> tuple[list[Any], bytes]:
    """The answers in the body of a response to a batch.

    Args:
        body: of which the last answer may be long, and is left as it is.
        sent: the requests.

    Returns:
        All answers but the last, as JSON, and the bytes of the last.

    Raises:
        RpcError: there are not as many answers.
        BatchRefusedError: the server takes no batches.
    """
    ids = [one.id for one in sent]
    text = body.strip()
    if text.startswith(b"[") and text.endswith(b"]"):
        for length in (_FIRST, len(text)):
            with suppress(JSONDecodeError):
                found, end = _leading(text[:length].decode("latin-1"), ids[:-1])  # which leaves every byte in its place
                return found, text[end:-1]
    answers = _answers(body, sent)
    return answers[:-1], orjson.dumps(answers[-1])


def _answers(body: bytes, sent: Sequence[Sent]) -> list[Any]:
    where = sent[-1].where
    answers = _parsed(body, where)
    if not isinstance(answers, list):
        check_batch(answers, where)
        result_of(answers, sent[-1].request, where)  # an error for the whole batch
        raise TransientRpcError(f"{where}: a batch of {len(sent)} requests got one answer")
    by_id = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
    return [by_id.get(one.id) for one in sent]


def _leading(text: str, ids: Sequence[int]) -> tuple[list[Any], int]:
    """The first answers of an array, and where the next begins.

    Raises:
        JSONDecodeError: they are not those of these requests, in this order.
    """
    found: list[Any] = []
    at = _past_blanks(text, 1)
    for id_ in ids:
        answer, at = JSONDecoder().raw_decode(text, at)
        at = _past_blanks(text, at)
        if not isinstance(answer, dict) or answer.get("id") != id_ or text[at : at + 1] != ",":
            raise JSONDecodeError("another answer than the next", text, at)
        found.append(answer)
        at = _past_blanks(text, at + 1)
    return found, at


def _past_blanks(text: str, at: int) -> int:
    found = _NO_BLANK.search(text, at)
    return found.start() if found else len(text)


class Connection:
    """One URL: what it is asked waits for its turn."""

    def __init__(
        self, endpoint: Endpoint, policy: EndpointPolicy, http: httpx.Client, clock: Callable[[], float]
    ) -> None:
        """Connects lazily."""
        self._endpoint = endpoint
        self._batch = policy.batch
        self._limiter = ConcurrencyLimiter(endpoint.url, policy.concurrency)
        self._http = http
        self._clock = clock

    def call(self, read: Read[Result], request: Request) -> Result:
        """What `read` makes of the answer to one request.

        Raises:
            RpcError: no answer, or none that `read` takes.
        """
        sent = self._sent(request)
        return read(self._post([sent]), sent)

    def call_many(self, requests: Sequence[Request]) -> list[Any]:
        """The results of many requests, in order.

        Raises:
            RpcError: one of them has none.
        """
        results: list[Any] = []
        while len(results) < len(requests):
            part = requests[len(results) : len(results) + self._batch]
            if len(part) == 1:
                results.append(self.call(parsed_result, part[0]))
                continue
            sent = [self._sent(request) for request in part]
            try:
                answers = _answers(self._post(sent), sent)
            except BatchRefusedError as error:
                self._note_no_batches(error)
                continue
            results += [
                result_of(answer, one.request, one.where, one.id) for answer, one in zip(answers, sent, strict=True)
            ]
        return results

    def call_together(self, read: Read[Result], requests: Sequence[Request]) -> tuple[list[Any], Result]:
        """The results of requests that travel together, so that one and the same node answers unless a balancer divides them.

        Args:
            read: makes something of the last answer alone.
            requests: the answers to all but the last are short.

        Raises:
            RpcError: one of them has none.
        """
        if self._batch >= len(requests):
            sent = [self._sent(request) for request in requests]
            try:
                answers, rest = answers_together(self._post(sent), sent)
            except BatchRefusedError as error:
                self._note_no_batches(error)
            else:
                results = [
                    result_of(answer, one.request, one.where, one.id)
                    for answer, one in zip(answers, sent, strict=False)
                ]
                return results, read(rest, sent[-1])
        return [self.call(parsed_result, request) for request in requests[:-1]], self.call(read, requests[-1])

    def _sent(self, request: Request) -> Sent:
        return Sent(request, next(_ids), self._endpoint.name)

    def _note_no_batches(self, reason: BatchRefusedError) -> None:
        self._batch = 1
        log.info(
            "endpoint takes no batches: single requests from now on", endpoint=self._endpoint.name, said=str(reason)
        )

    def _post(self, sent: Sequence[Sent]) -> bytes:
        where, documents = sent[-1].where, [one.to_json() for one in sent]
        if wait := self._endpoint.pace.wait_from(self._clock(), len(sent)):
            time.sleep(wait)
        try:
            with self._limiter.one():
                content = orjson.dumps(documents if len(sent) > 1 else documents[0])
                response = self._http.post(self._endpoint.url, content=content)
        except httpx.HTTPError as error:
            raise TransientRpcError(f"{where}: {type(error).__name__} {error}".rstrip()) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise NoAccessError(f"{where}: {error}") from error
        retry_after = response.headers.get("retry-after")
        check_status(response.status_code, retry_after, response.content, where, requests=len(sent), now=time.time())
        return response.content


@cache
def _pace_of(url: str, requests_per_second: float | None) -> Pace:  # noqa: ARG001  what the cache goes by
    """The one pace at which this process asks that URL: Spark's tasks, one after another, have readers of their own."""
    return Pace(requests_per_second)


class ChainRpc:
    """JSON-RPC to one chain. Use it as a context manager, from one thread at a time."""

    def __init__(
        self,
        chain_id: int,
        urls: Sequence[str],
        policy: EndpointPolicy,
        transport: httpx.BaseTransport | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connects lazily.

        Args:
            chain_id: EIP-155 id that every endpoint must have.
            urls: endpoints in order of preference.
            policy: how they are asked.
            transport: what stands in for the network.
            clock: seconds from any moment on.
        """
        if transport is None and not getproxies():  # through a proxy, httpx's own connections know the way
            transport = PooledTransport()
        headers = {"content-type": "application/json"}
        self._http = httpx.Client(timeout=policy.request_seconds, headers=headers, transport=transport)
        self._pool = EndpointPool(chain_id, urls, policy, clock=clock, client=self, pace_of=_pace_of)
        self._connections = {one: Connection(one, policy, self._http, clock) for one in self._pool.endpoints}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def must_have(self, last: KnownBlock | None, final: KnownBlock | None) -> None:
        """See `EndpointPool.must_have`."""
        self._pool.must_have(last, final)

    def call(self, method: str, *params: Any) -> Any:
        """The result of one request.

        Raises:
            RpcError: no endpoint gave one; see `bridge.evm.rpc_answers`.
        """
        return self.call_and_read(parsed_result, method, *params)

    def call_and_read(self, read: Read[Result], method: str, *params: Any, final: bool = False) -> Result:
        """What `read` makes of the answer to one request.

        Args:
            read: as `parsed_result`, which it stands for where parsing would take too long.
            method: of the request.
            params: the same.
            final: whether it is about final blocks, which only a node that lags behind does not have.

        Raises:
            RpcError: no endpoint gave an answer that `read` takes.
        """
        request = Request(method, params)
        return self._request(request, lambda endpoint: endpoint.call(read, request), final=final)

    def call_together(
        self, read: Read[Result], requests: Sequence[Request], *, final: bool
    ) -> tuple[list[Any], Result]:
        """The results of requests that travel together; see `Connection.call_together` and `call_and_read`.

        Raises:
            RpcError: no endpoint gave them.
        """
        return self._request(requests[-1], lambda endpoint: endpoint.call_together(read, requests), final=final)

    def batch(self, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of many requests of one method, in order, from one endpoint.

        Raises:
            RpcError: one of them has none.
        """
        requests = [Request(method, one) for one in params]
        return self._request(requests[-1], lambda endpoint: endpoint.call_many(requests)) if requests else []

    def gives_way(self, block: KnownBlock, reason: RpcError) -> bool:
        """See `EndpointPool.gives_way`."""
        return finished(self._pool.gives_way(block, reason))

    def anyone_has(self, block: KnownBlock) -> bool:
        """See `EndpointPool.anyone_has`."""
        return bool(finished(self._pool.repeated(lambda: self._pool.anyone_has(block))))

    async def ask(self, endpoint: Endpoint, request: Request) -> Any:
        """See `bridge.evm.endpoint_policy.Client`."""
        return self._connections[endpoint].call(parsed_result, request)

    async def sleep(self, seconds: float) -> None:
        """See `bridge.evm.endpoint_policy.Client`."""
        time.sleep(seconds)  # noqa: ASYNC251  the index blocks

    def _request(self, request: Request, ask: Callable[[Connection], Result], *, final: bool = False) -> Result:
        async def perform(endpoint: Endpoint) -> Result:
            return ask(self._connections[endpoint])

        found: Result = finished(self._pool.request(request, perform=perform, catches_up=final))
        return found


class ConcurrencyLimiter:
    """Limits requests under way at one endpoint, over all processes of one user on one machine.

    Spark reads the chains in processes of its own, and commands ask beside the running index. A place is a lock on a file,
    which the system takes back from a process that ends, however it does.
    """

    def __init__(self, url: str, number: int | None) -> None:
        """Makes nothing yet; without a number, there is always room."""
        self._url = url
        self._number = number

    @contextmanager
    def one(self) -> Iterator[None]:
        """Holds a place, once there is one.

        Raises:
            SettingsError: somebody else owns the folder of the places.
        """
        if self._number is None:
            yield
            return
        files = [
            os.open(_folder() / f"{self._name()}-{place}", os.O_RDWR | os.O_CREAT, 0o600)
            for place in range(self._number)
        ]
        try:
            while not any(map(_locked, files)):
                time.sleep(_LOOK_AGAIN)
            yield
        finally:
            for file in files:
                os.close(file)

    def _name(self) -> str:
        return hashlib.sha256(self._url.encode()).hexdigest()[:32]  # URLs hold keys


def _locked(file: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"waybill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise SettingsError(
            f"{folder} belongs to somebody else; set TMPDIR to a folder of yours, or leave concurrency out"
        )
    return folder


class PooledTransport(httpx.BaseTransport):
    """httpx's requests over urllib3's connections.

    Those of httpx give an answer in pieces of 64 KB, each of which it parses and copies more than once: for the logs of a
    long range of blocks that takes longer than to decode them takes.
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
