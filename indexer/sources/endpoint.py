"""One JSON-RPC endpoint of a chain: its requests, its pace, and how many may be under way at once."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import orjson
import structlog

from indexer.decode.hexadecimal import HexError, quantity
from indexer.model.errors import SettingsError
from indexer.model.settings import EndpointLimits
from indexer.sources.answers import (
    NoAccessError,
    RangeTooLargeError,
    RateLimitedError,
    RefusedError,
    RpcError,
    TransientRpcError,
    WrongChainError,
    answers_of,
    answers_together,
    parsed_result,
    result_of,
)

log = structlog.get_logger(__name__)

_REST: Final = 5.0  # seconds for which an endpoint that failed is asked last

# How servers say that they take one request at a time, or not so many.
_NO_BATCHES: Final = frozenset({400, 405, 413, 415, 422, 501})
_TOO_OFTEN: Final = frozenset({429, 503})

_ids = itertools.count(1)

Result = TypeVar("Result")
Read = Callable[[bytes, int, str], Result]
"""Makes something of the body of an answer, as `answers.parsed_result` does: body, the request's id, what to call it in errors."""

Call = tuple[str, Sequence[Any]]
"""Method and parameters of a request."""

_LOOK_AGAIN: Final = 0.01  # seconds between two looks for a place that has become free


class _BatchRefusedError(Exception):
    """The server takes no batches."""


class Endpoint:
    """One URL, and what is known of the nodes behind it."""

    def __init__(self, url: str, chain_id: int, limits: EndpointLimits, http: httpx.Client) -> None:
        """Asks nothing yet.

        Args:
            url: where to.
            chain_id: that it must have.
            limits: what it may be asked.
            http: the connections.
        """
        self.name = shown(url)
        self.rests_until = 0.0  # on the monotonic clock; 0 while it answers
        self.differs_since: float | None = None  # when it was first seen to have another block in the place of our last
        self._url = url
        self._chain_id = chain_id
        self._batch = limits.batch
        self._pace = pace_of(url, limits.requests_per_second)
        self._places = ConcurrencyLimiter(url, limits.concurrency)
        self._http = http
        self._verified = False

    @property
    def rests(self) -> bool:
        """Whether it failed a moment ago, or wants to be left alone."""
        return max(self.rests_until, self._pace.closed_until) > time.monotonic()

    def put_aside(self, reason: RpcError) -> None:
        """Has it asked last for a while."""
        if not self.rests_until:
            log.warning("endpoint fails", chain=self._chain_id, endpoint=self.name, reason=str(reason))
        self.rests_until = time.monotonic() + _REST
        self._verified = False  # another node may stand behind the URL by then

    def take_back(self) -> None:
        """It answers."""
        if self.rests_until:
            log.info("endpoint answers again", chain=self._chain_id, endpoint=self.name)
        self.rests_until = 0.0
        self.differs_since = None

    def call(self, read: Read[Result], method: str, params: Sequence[Any]) -> Result:
        """What `read` makes of the answer to one request.

        Raises:
            RpcError: no answer, or none that `read` takes.
        """
        self._verify()
        return self._one(read, method, params)

    def call_many(self, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        """The results of many requests of one method, in order.

        Raises:
            RpcError: one of them has none.
        """
        self._verify()
        results: list[Any] = []
        while len(results) < len(params):
            part = params[len(results) : len(results) + self._batch]
            if len(part) == 1:
                results.append(self._one(parsed_result, method, part[0]))
                continue
            try:
                results += self._many(method, part)
            except _BatchRefusedError as error:
                self._note_no_batches(error)
        return results

    def call_together(self, read: Read[Result], requests: Sequence[Call]) -> tuple[list[Any], Result]:
        """The results of requests that travel together, so that one and the same node answers unless a balancer divides them.

        Args:
            read: makes something of the last answer alone.
            requests: the answers to all but the last are short.

        Raises:
            RpcError: one of them has none.
        """
        self._verify()
        if self._batch >= len(requests):
            try:
                return self._together(read, requests)
            except _BatchRefusedError as error:
                self._note_no_batches(error)
        results = [self._one(parsed_result, method, params) for method, params in requests[:-1]]
        return results, self._one(read, *requests[-1])

    def _verify(self) -> None:
        if self._verified:
            return
        answer = self._one(parsed_result, "eth_chainId", ())
        try:
            found = quantity(answer)
        except HexError as error:
            raise TransientRpcError(f"{self.name}: eth_chainId: {error}") from error
        if found != self._chain_id:
            raise WrongChainError(
                f"{self.name} serves chain {found}, but the deployment says chain {self._chain_id}; "
                "correct rpcUrls in the deployments file"
            )
        self._verified = True

    def _one(self, read: Read[Result], method: str, params: Sequence[Any]) -> Result:
        where = f"{self.name}: {method}"
        request = _request(method, params)
        body = self._post(request, 1, where)
        try:
            return read(body, request["id"], where)
        except RangeTooLargeError as error:
            if method == "eth_getLogs":
                raise
            raise RateLimitedError(str(error)) from error  # a limit all the same, and no range to make smaller

    def _many(self, method: str, params: Sequence[Sequence[Any]]) -> list[Any]:
        where = f"{self.name}: {method}"
        requests = [_request(method, arguments) for arguments in params]
        answers = answers_of(self._post(requests, len(requests), where), where)
        if not isinstance(answers, list):
            try:
                result_of(answers, -1, where)  # an error for the whole batch
            except RefusedError as error:
                raise _BatchRefusedError(str(error)) from error
            raise TransientRpcError(f"{where}: a batch of {len(requests)} requests got one answer")
        by_id = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
        return [result_of(by_id.get(request["id"]), request["id"], where) for request in requests]

    def _together(self, read: Read[Result], requests: Sequence[Call]) -> tuple[list[Any], Result]:
        *methods, last = [method for method, _ in requests]
        documents = [_request(method, params) for method, params in requests]
        ids = [document["id"] for document in documents]
        body = self._post(documents, len(documents), f"{self.name}: {last}")
        try:
            answers, rest = answers_together(body, ids, f"{self.name}: {last}")
        except RefusedError as error:
            raise _BatchRefusedError(str(error)) from error
        results = [
            result_of(answer, id_, f"{self.name}: {method}")
            for answer, id_, method in zip(answers, ids, methods, strict=False)
        ]
        return results, read(rest, ids[-1], f"{self.name}: {last}")

    def _note_no_batches(self, reason: _BatchRefusedError) -> None:
        self._batch = 1
        log.info("endpoint takes no batches: single requests from now on", endpoint=self.name, said=str(reason))

    def _post(self, document: Any, requests: int, where: str) -> bytes:
        if (left := self._pace.closed_until - time.monotonic()) > 0:
            raise RateLimitedError(f"{where}: not asked, it wants to be left alone for {left:.0f} s more", left)
        self._pace.wait(requests)
        try:
            with self._places.one():
                response = self._http.post(self._url, content=orjson.dumps(document))
        except httpx.HTTPError as error:
            raise TransientRpcError(f"{where}: {type(error).__name__} {error}".rstrip()) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise NoAccessError(f"{where}: {error}") from error
        if response.status_code in (401, 403):
            raise NoAccessError(f"{where}: the endpoint wants a key (HTTP {response.status_code})")
        if response.status_code in _TOO_OFTEN and (seconds := _retry_after(response.headers.get("retry-after"))):
            self._pace.close_for(seconds)
            raise RateLimitedError(
                f"{where}: HTTP {response.status_code}, to be left alone for {seconds:.0f} s", seconds
            )
        # Some providers put their JSON-RPC error into an HTTP error; a proxy's error page is no JSON.
        if response.status_code != httpx.codes.OK and not response.content.lstrip().startswith((b"{", b"[")):
            if requests > 1 and response.status_code in _NO_BATCHES:
                raise _BatchRefusedError(f"HTTP {response.status_code}")
            raise TransientRpcError(f"{where}: HTTP {response.status_code}")
        return response.content


def _request(method: str, params: Sequence[Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}


def _retry_after(text: str | None) -> float | None:
    """The seconds that a Retry-After header says (RFC 9110, section 10.2.3), or None if it says nothing that makes sense."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdigit() else _seconds_until(parsedate_to_datetime(text))
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _seconds_until(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - time.time()


def shown(url: str) -> str:
    """A URL for people: providers put keys into path, query and user."""
    return re.sub(r"(://)[^@/]*@", r"\1…@", re.sub(r"(://[^/]+/)[^/].*$", r"\1…", url))


def in_order(endpoints: Iterable[Endpoint], current: Endpoint) -> list[Endpoint]:
    """Who is asked in which order: the current one, then by preference; those that failed a moment ago last."""
    return sorted(endpoints, key=lambda endpoint: (endpoint.rests, endpoint is not current))


class Pace:
    """Spaces requests out evenly over all threads of a process, and remembers until when the endpoint must rest."""

    def __init__(self, requests_per_second: float | None) -> None:
        """Spaces nothing if the number is None."""
        self._interval = 0.0 if requests_per_second is None else 1 / requests_per_second
        self._next = 0.0
        self._lock = threading.Lock()
        self.closed_until = 0.0  # on the monotonic clock

    def wait(self, requests: int) -> None:
        """Waits for the next place in line, and takes as many places as there are requests."""
        if not self._interval:
            return
        with self._lock:
            now = time.monotonic()
            place = max(now, self._next)
            self._next = place + self._interval * requests
        time.sleep(place - now)

    def close_for(self, seconds: float) -> None:
        """The endpoint said that it wants to be left alone for so long."""
        self.closed_until = max(self.closed_until, time.monotonic() + seconds)


@cache
def pace_of(url: str, requests_per_second: float | None) -> Pace:  # noqa: ARG001  what the cache goes by
    """The one pace at which this process asks that URL, over all callers."""
    return Pace(requests_per_second)


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
            f"{folder} belongs to another user; set TMPDIR to a folder of yours, or leave concurrency out"
        )
    return folder
