"""Protects the web application and its visitors.

It applies rate limits, origin checks, security headers, and the operators' token.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from pydantic import SecretStr
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES: Final = 20_000
"""The largest request body that is accepted."""

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_FOR_EVER: Final = "public, max-age=31536000, immutable"
"""For files whose address changes with their content."""

Refuse = Callable[[Request, int, str], Response]
"""Returns the response to a rejected request, given status and text."""


class Guard:
    """ASGI middleware that rejects requests by their headers, and adds headers to every response."""

    def __init__(self, app: ASGIApp, *, requests_per_minute: int, rpc_urls: Iterable[str], refuse: Refuse) -> None:
        """Wraps an application.

        Args:
            app: the application.
            requests_per_minute: the rate limit per client.
            rpc_urls: URLs that visitors' browsers may connect to.
            refuse: builds the response to a rejected request; see `Refuse`.
        """
        self._app = app
        self._refuse = refuse
        self._headers = security_headers(rpc_urls)
        self._rate = RateLimitItemPerMinute(requests_per_minute)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                for name, value in self._headers_of(request, message["status"]).items():
                    found.setdefault(name, value)
            await send(message)

        refusal = self._refusal(request)
        app = self._app if refusal is None else self._refuse(request, *refusal)
        await app(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> tuple[int, str] | None:
        """Returns the HTTP status and the reason if the request must be rejected, otherwise None."""
        path = request.scope["path"]
        if path == "/healthz":
            return None
        if "\0" in path or b"%00" in request.scope["query_string"]:
            return 400, "an address can't contain zero bytes"
        if request.method not in _SAFE_METHODS:
            if not is_same_origin(request):
                return 403, "requests that change something must come from this site's own pages"
            length = request.headers.get("content-length", "")
            if not (length.isascii() and length.isdigit()) or len(length) > 9 or int(length) > BODY_BYTES:
                return 413, f"a body needs a Content-Length of at most {BODY_BYTES} bytes"
        if not self._limiter.hit(self._rate, client_of(request)):
            return 429, f"more than {self._rate.amount} requests in a minute; try again in 10 seconds"
        return None

    def _headers_of(self, request: Request, status: int) -> Mapping[str, str]:
        path = request.scope["path"]
        is_fixed = path.startswith("/static/explorer-") or (path.startswith("/static/") and "v" in request.query_params)
        found = self._headers | {"cache-control": _FOR_EVER} if is_fixed and status == 200 else self._headers
        return found | {"retry-after": "10"} if status == 429 else found


def client_of(request: Request) -> str:
    """Returns the client to which a rate limit applies.

    This is an IPv4 address or an IPv6 /64 network, since one client may own all of it.
    """
    host = request.client.host if request.client else "unknown"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ip_network((address, 64), strict=False))


def is_operator(request: Request, token: SecretStr | None) -> bool:
    """Whether a request carries the token, as a bearer token or as the password of basic authentication."""
    if token is None:
        return False
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    presented = given.strip().encode()
    if scheme.lower() == "basic":
        try:
            _, _, presented = b64decode(given, validate=True).partition(b":")
        except ValueError:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(presented, token.get_secret_value().encode())


def is_same_origin(request: Request) -> bool:
    """Whether a request comes from a page of this site.

    Programs other than browsers send no origin, and are accepted.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def security_headers(rpc_urls: Iterable[str]) -> dict[str, str]:
    """Returns headers that restrict scripts to this site, and connections to this site and the RPC URLs."""
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
