"""Live updates: a part of a page, sent again whenever it would look different."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from hashlib import sha256

from fastapi import Request
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

_SILENCE = 15.0
"""Seconds after which an open stream says something, so that proxies keep it open."""


async def changes(
    request: Request, parts: Callable[[], dict[str, str]], *, known: dict[str, str], poll: float
) -> AsyncIterator[bytes]:
    """Server-sent events, one for each part that has changed, named as the part.

    Args:
        request: ends the stream when its client goes.
        parts: makes the parts, as HTML; runs in a thread.
        known: by part, the fingerprint of what the page has already.
        poll: seconds between two looks.
    """
    silent = 0.0
    yield format_sse_event(comment="open")
    while not await request.is_disconnected():
        for name, html in (await run_in_threadpool(parts)).items():
            if fingerprint(html) != known.get(name):
                known[name] = fingerprint(html)
                silent = 0.0
                yield format_sse_event(data_str=html, event=name)
        if silent >= _SILENCE:
            silent = 0.0
            yield format_sse_event(comment="still here")
        await asyncio.sleep(poll)
        silent += poll


def fingerprint(html: str) -> str:
    """A short stand-in for a part."""
    return sha256(html.encode()).hexdigest()[:16]
