"""What protects the explorer and its visitors: headers, limits, and where requests may come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request, Response
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from bridge.web.settings import ExplorerSettings

_MOST_BYTES: Final = 20_000
"""Of what a request may bring along; a decision is far less."""

_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})

_OK: Final = 200
_WAIT: Final = "10"
_FOR_EVER: Final = "public, max-age=31536000, immutable"
"""For files whose address names their content."""

Next = Callable[[Request], Awaitable[Response]]
Refuse = Callable[[Request, int, str], Response]


class TooManyStreamsError(Exception):
    """A client has as many live updates open as it may."""


class Guard:
    """Stands before every request."""

    def __init__(self, settings: ExplorerSettings, refuse: Refuse) -> None:
        """Counts from zero.

        Args:
            settings: the limits.
            refuse: makes the answer to what may not pass, of a status code and what is wrong.
        """
        self._refuse = refuse
        self._headers = security_headers(settings.public_rpc.values())
        self._limit = RateLimitItemPerMinute(settings.requests_per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._streams = Counter[str]()
        self._most_streams = settings.streams_per_client

    async def __call__(self, request: Request, call_next: Next) -> Response:
        """Answers what may not pass, and sets the headers on everything."""
        return self.protected(request, self._refusal(request) or await call_next(request))

    def protected(self, request: Request, response: Response) -> Response:
        """The response with the headers that everything has."""
        path = request.url.path
        # The name of a chunk of the script changes with its content, as `v` does for the other files.
        is_fixed = path.startswith("/static/explorer-") or (path.startswith("/static/") and "v" in request.query_params)
        if is_fixed and response.status_code == _OK:
            response.headers["cache-control"] = _FOR_EVER
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)
        return response

    def _refusal(self, request: Request) -> Response | None:
        if request.method not in _SAFE_METHODS and not is_same_origin(request):
            return self._refuse(request, 403, "requests that change something must come from this site's own pages")
        length = request.headers.get("content-length", "0" if request.method in _SAFE_METHODS else "")
        if not length.isdigit() or int(length) > _MOST_BYTES:
            return self._refuse(request, 413, f"say how long the request is; more than {_MOST_BYTES} bytes are refused")
        if not self._limiter.hit(self._limit, client_of(request)):
            text = (
                f"more than {self._limit.amount} requests in a minute: wait {_WAIT} seconds, then load the page again"
            )
            answer = self._refuse(request, 429, text)
            answer.headers["retry-after"] = _WAIT
            return answer
        return None

    def check_streams(self, client: str) -> None:
        """Does nothing while that client may open another live update.

        Raises:
            TooManyStreamsError: it has too many.
        """
        if self._streams[client] >= self._most_streams:
            raise TooManyStreamsError

    @contextmanager
    def stream(self, client: str) -> Iterator[None]:
        """Counts a live update while it is open."""
        self._streams[client] += 1
        try:
            yield
        finally:
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]


def client_of(request: Request) -> str:
    """Whose requests are counted together; behind a proxy, uvicorn puts the visitor's address there."""
    return request.client.host if request.client else "unknown"


def is_same_origin(request: Request) -> bool:
    """Whether a browser says that the request comes from a page of ours; other programs say nothing and may pass."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def security_headers(rpc_urls: Iterable[str]) -> dict[str, str]:
    """Only this site's own files run and style a page, and it talks to itself and to the chains that it may act on."""
    origins = sorted({f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in rpc_urls})
    policy = [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        " ".join(["connect-src 'self'", *origins]),
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
    return {
        "content-security-policy": "; ".join(policy),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "cache-control": "no-store",
    }
