"""Live updates: a part of a page, sent again whenever it would look different. Rendered once for all who look at the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import structlog
from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

_log = structlog.get_logger(__name__)

_SILENCE: Final = 15.0
"""Seconds after which an open stream says something, so that proxies keep it open."""

_LONGEST: Final = 600.0
"""Seconds after which a stream ends; a page that still looks opens another one."""

_REST: Final = 3
"""Rendering rests for so many times as long as it took: at most a quarter of a core goes into all live updates."""

Parts = dict[str, str]
"""HTML by the part's name, in the order in which changes are sent."""


class TooManyStreamsError(Exception):
    """No further live update can be opened."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True, eq=False)
class _Topic:
    """What several viewers look at."""

    render: Callable[[], Parts]
    viewers: int = 0
    parts: Parts = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    failed: bool = False


class Live:
    """All streams of an explorer."""

    def __init__(self, *, poll_interval: float, most: int, most_of_one: int) -> None:
        """Nothing is rendered while nobody looks.

        Args:
            poll_interval: seconds between two looks, at least.
            most: streams open at once.
            most_of_one: the same of one client.
        """
        self._poll = poll_interval
        self._most = most
        self._most_of_one = most_of_one
        self._topics: dict[Hashable, _Topic] = {}
        self._streams = Counter[str]()
        self._rendering: asyncio.Task[None] | None = None

    def check(self, client: str) -> None:
        """Does nothing while that client may open another stream.

        Raises:
            TooManyStreamsError: it, or all together, have as many as they may.
        """
        if self._streams[client] >= self._most_of_one:
            raise TooManyStreamsError(429, "too many live updates are open; close some pages")
        if self._streams.total() >= self._most:
            raise TooManyStreamsError(503, "too many people follow live updates now; load the page again to see news")

    async def stream(
        self, client: str, topic: Hashable, render: Callable[[], Parts], known: dict[str, str]
    ) -> AsyncIterator[bytes]:
        """Server-sent events, one for each part that has changed, named as the part.

        Args:
            client: who looks.
            topic: what at; the same for all who are to see the same.
            render: makes its parts; runs in a thread.
            known: by part, the fingerprint of what the page has already.
        """
        self.check(client)
        looked_at = self._topics.setdefault(topic, _Topic(render))
        looked_at.viewers += 1
        self._streams[client] += 1
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._render())
        try:
            async for event in _events(looked_at, known):
                yield event
        finally:
            looked_at.viewers -= 1
            if not looked_at.viewers:
                del self._topics[topic]
            self._streams[client] -= 1
            if not self._streams[client]:
                del self._streams[client]

    async def _render(self) -> None:
        """Renders what is looked at, one topic after the other, until nobody looks any more."""
        clock = asyncio.get_running_loop().time
        while self._topics:
            began = clock()
            for topic in list(self._topics.values()):
                started = clock()
                await _render(topic)
                await asyncio.sleep(_REST * (clock() - started))
            await asyncio.sleep(max(0.0, began + self._poll - clock()))


async def _render(topic: _Topic) -> None:
    try:
        parts = await run_in_threadpool(topic.render)
    except Exception as error:  # noqa: BLE001  # one page that fails must not stop the others
        if not topic.failed:
            _log.warning("a live update failed", error=str(error) or type(error).__name__)
        topic.failed = True
        return
    topic.failed = False
    if parts != topic.parts:
        topic.parts = parts
        topic.changed.set()
        topic.changed = asyncio.Event()


async def _events(topic: _Topic, known: dict[str, str]) -> AsyncIterator[bytes]:
    clock = asyncio.get_running_loop().time
    ends = clock() + _LONGEST
    yield format_sse_event(comment="open")
    while clock() < ends:
        changed = topic.changed  # taken before looking, so that no change falls in between
        for name, html in topic.parts.items():
            if fingerprint(html) != known.get(name):
                known[name] = fingerprint(html)
                yield format_sse_event(data_str=html, event=name)
        try:
            async with asyncio.timeout(_SILENCE):
                await changed.wait()
        except TimeoutError:
            yield format_sse_event(comment="still here")


def fingerprint(html: str) -> str:
    """A short stand-in for a part."""
    return sha256(html.encode()).hexdigest()[:16]
