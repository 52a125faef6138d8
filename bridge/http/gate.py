"""Stands before an application: what is too much, too slow or not allowed is refused before anything of it is parsed."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.status import HTTP_408_REQUEST_TIMEOUT
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})

_NETWORK: Final = (1 << 64) - 1
"""The part of an IPv6 address that its owner chooses freely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a surface takes."""

    body_bytes: int = 20_000
    body_seconds: float = 10.0  # until all of a body has come
    answer_seconds: float = 30.0  # until an answer is complete, but for streams
    change_seconds: float = 30.0  # the same of a request that changes something
    requests_per_minute: int = 600  # of one address
    at_once: int = 64  # requests under way, of everybody
    at_once_per_address: int = 16
    bodies_at_once: int = 32  # requests that wait for their body, of everybody: not under way yet
    bodies_at_once_per_address: int = 4
    unlimited: frozenset[str] = frozenset({"/healthz"})  # paths that cost nothing, and say whether the process lives
    streams: str = ""  # prefix of the paths whose answers do not end; empty if there is none


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered, for people and programs."""

    status: int
    text: str
    retry_after: int | None = None  # seconds


class _RefusedError(Exception):
    """A body is too large, or comes too slowly, or too much is under way."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


Admit = Callable[[Request], Refusal | None]
Refuse = Callable[[Request, Refusal], Response]
Headers = Callable[[Request, int], Mapping[str, str]]


class Gate:
    """ASGI middleware; see the module."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        refuse: Refuse,
        admit: Admit = lambda _request: None,
        headers: Headers = lambda _request, _status: {},
    ) -> None:
        """Counts from zero.

        Args:
            app: what stands behind it.
            limits: see there.
            refuse: makes the answer to what may not pass.
            admit: whether this caller may ask that; decides by head alone.
            headers: what each answer of a status carries unless it says otherwise.
        """
        self._app = app
        self._limits = limits
        self._refuse = refuse
        self._admit = admit
        self._headers = headers
        self._rate = RateLimitItemPerMinute(limits.requests_per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._under_way = Counter[str]()
        self._bodies = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the module."""
        if scope["type"] != "http":
            return
        request = Request(scope)

        def answer() -> _Answer:
            return _Answer(send, lambda status: self._headers(request, status))

        refusal = self._refusal(request) or await self._passed(request, receive, answer())
        if refusal is not None:
            await self._refused(request, refusal)(scope, receive, answer())

    def _refused(self, request: Request, refusal: Refusal) -> Response:
        response = self._refuse(request, refusal)
        if refusal.retry_after is not None:
            response.headers["retry-after"] = str(refusal.retry_after)
        if not _is_within(request.headers.get("content-length", "0"), self._limits.body_bytes) or (
            refusal.status == HTTP_408_REQUEST_TIMEOUT or "transfer-encoding" in request.headers
        ):
            response.headers["connection"] = "close"  # the rest of its body is not read
        return response

    def _refusal(self, request: Request) -> Refusal | None:
        """Why it may not pass, by its head."""
        if request.scope["path"] in self._limits.unlimited:  # `request.url` is made of the Host header too
            return None
        most, changes = self._limits.body_bytes, request.method not in SAFE_METHODS
        if refusal := self._admit(request):
            return refusal
        if "\0" in request.scope["path"] or b"%00" in request.scope["query_string"]:
            return Refusal(400, "an address has no zero bytes")  # databases refuse them, each in its way
        length = request.headers.get("content-length", "" if changes else "0")
        if not _is_within(length, most):
            return Refusal(413, f"say how long the request is; more than {most} bytes are refused")
        if not self._limiter.hit(self._rate, client_of(request)):
            return Refusal(429, f"more than {self._rate.amount} requests in a minute: wait 10 seconds", 10)
        return None

    async def _passed(self, request: Request, receive: Receive, answer: _Answer) -> Refusal | None:
        """Has the application answer, within the limits; gives a refusal if it could not begin to."""
        scope, path = request.scope, request.scope["path"]
        if self._limits.streams and path.startswith(self._limits.streams):
            await self._app(scope, receive, answer)
            return None
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        client = "" if path in self._limits.unlimited else client_of(request)
        limits = self._limits
        changes = scope["method"] not in SAFE_METHODS
        seconds = limits.change_seconds if changes else limits.answer_seconds
        body = answer.body = _Body(receive, limits)
        try:
            if changes and client:
                with _counted(self._bodies, client, limits.bodies_at_once, limits.bodies_at_once_per_address):
                    await body.read()
            with _counted(self._under_way, client, limits.at_once, limits.at_once_per_address):
                async with asyncio.timeout(seconds):
                    await self._app(scope, body, answer)
        except _RefusedError as error:
            return _unless_begun(answer, error.refusal, error)
        except TimeoutError as error:
            return _unless_begun(answer, Refusal(503, "that took too long: try again in a moment", 10), error)
        return None if answer.has_begun else body.refusal


@contextmanager
def _counted(requests: Counter[str], client: str, most: int, most_of_one: int) -> Iterator[None]:
    if not client:
        yield
        return
    if requests.total() >= most:
        raise _RefusedError(Refusal(503, "too many requests are under way: try again in a moment", 1))
    if requests[client] >= most_of_one:
        raise _RefusedError(Refusal(429, "too many requests of yours are under way: wait for their answers", 1))
    requests[client] += 1
    try:
        yield
    finally:
        requests[client] -= 1
        if not requests[client]:
            del requests[client]


def _is_within(length: str, most: int) -> bool:
    """Whether a content-length is one, and not more than that."""
    return length.isascii() and length.isdigit() and len(length) <= 20 and int(length) <= most


def _unless_begun(answer: _Answer, refusal: Refusal, error: Exception) -> Refusal:
    if answer.has_begun:
        raise error  # the server closes the connection: half an answer must not look like one
    return refusal


class _Answer:
    """Sends an answer with the headers that every answer has."""

    def __init__(self, send: Send, headers: Callable[[int], Mapping[str, str]]) -> None:
        self._send = send
        self._headers = headers
        self.has_begun = False
        self.body: _Body | None = None

    async def __call__(self, message: Message) -> None:
        if not self.has_begun and self.body is not None and self.body.refusal is not None:
            return  # the application says only that it could not read the body; the refusal says why
        if message["type"] == "http.response.start":
            self.has_begun = True
            found = MutableHeaders(scope=message)
            for name, value in self._headers(message["status"]).items():
                found.setdefault(name, value)
        await self._send(message)


class _Body:
    """Receives a body, as much and as slowly as the limits allow."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive = receive
        self._limits = limits
        self._ends = asyncio.get_running_loop().time() + limits.body_seconds
        self._bytes = 0
        self._complete = False
        self._read = deque[Message]()
        self.refusal: Refusal | None = None

    async def read(self) -> None:
        """Waits until it has come, before anything else is done for the request."""
        gone = False
        while not (self._complete or gone):
            message = await self._next()
            self._read.append(message)
            gone = message["type"] == "http.disconnect"

    async def __call__(self) -> Message:
        return self._read.popleft() if self._read else await self._next()

    async def _next(self) -> Message:
        if self._complete:
            return await self._receive()  # waits for the client to go
        try:
            async with asyncio.timeout_at(self._ends):
                message = await self._receive()
        except TimeoutError:
            seconds = self._limits.body_seconds
            self._fail(Refusal(408, f"the request was not complete within {seconds:g} seconds"))
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._bytes > self._limits.body_bytes:
                self._fail(Refusal(413, f"more than {self._limits.body_bytes} bytes are refused"))
        return message

    def _fail(self, refusal: Refusal) -> None:
        self.refusal = refusal
        raise _RefusedError(refusal)


def client_of(request: Request) -> str:
    """Whose requests are counted together: an address, or an IPv6 network, whose owner has all of its addresses.

    Behind a trusted proxy the server puts the visitor's address there.
    """
    host = request.client.host if request.client else "unknown"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return str(IPv6Address(int(address) & ~_NETWORK)) if isinstance(address, IPv6Address) else host
