"""What protects the explorer's visitors: headers, and where requests may come from. `bridge.http` has the limits."""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request
from pydantic import SecretStr

from bridge.http.gate import SAFE_METHODS, Refusal

_FOR_EVER: Final = "public, max-age=31536000, immutable"
"""For files whose address names their content."""


def admit(request: Request) -> Refusal | None:
    """Refuses what would change something and comes from another site's page."""
    if request.method in SAFE_METHODS or is_same_origin(request):
        return None
    return Refusal(403, "requests that change something must come from this site's own pages")


def is_operator(request: Request, token: SecretStr) -> bool:
    """Whether a browser has signed in: HTTP's own dialogue, with the API's token as the password."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    try:
        _, _, password = b64decode(given, validate=True).partition(b":")
    except ValueError:
        return False
    return scheme.lower() == "basic" and hmac.compare_digest(password, token.get_secret_value().encode())


def headers(rpc_urls: Iterable[str]) -> Callable[[Request, int], Mapping[str, str]]:
    """What each answer carries.

    Args:
        rpc_urls: that visitors' browsers may use.
    """
    common = security_headers(rpc_urls)

    def of(request: Request, status: int) -> Mapping[str, str]:
        # The name of a chunk of the script changes with its content, as `v` does for the other files.
        path = request.scope["path"]
        is_fixed = path.startswith("/static/explorer-") or (path.startswith("/static/") and "v" in request.query_params)
        return common | {"cache-control": _FOR_EVER} if is_fixed and status == 200 else common

    return of


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
