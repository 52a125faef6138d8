"""Live updates: rendered once for all, paced, capped, and dated as every page is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from threading import Event

import httpx
import pytest

from bridge.protocol.indexed import ChainRecord, DivergenceRecord, Index
from bridge.service.listening import listening_at
from bridge.service.serving import serving
from bridge.web import Sources, create_app
from bridge.web.live import Live, TooManyStreamsError
from indexer.store.browser import IndexBrowser
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import routed, sent_message
from tests.unit.web.explorer import Client, World, page, patient, text_of
from tests.waiting import PATIENCE, eventually, eventually_true


async def _first(stream: AsyncIterator[bytes], wanted: bytes) -> bytes:
    async for event in stream:
        if wanted in event:
            return event
    raise AssertionError("the stream ended")


async def test_what_many_look_at_is_rendered_once_for_all_of_them() -> None:
    rendered = 0

    def render() -> dict[str, str]:
        nonlocal rendered
        rendered += 1
        return {"rows": "new" if rendered > 3 else "old"}

    live = Live(poll_interval=0.05, most=100, most_of_one=100)
    streams = [live.stream(f"client {number}", "list", render, {}) for number in range(50)]
    events = await asyncio.gather(*(_first(stream, b"new") for stream in streams))
    assert len(events) == 50
    assert rendered < 50, f"{rendered} renderings for 50 viewers, of which each needs four"
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    await eventually_true(lambda: len(asyncio.all_tasks()) == 1, "nothing is rendered while nobody looks")


async def test_streams_are_capped_for_one_and_for_all() -> None:
    live = Live(poll_interval=1, most=5, most_of_one=3)
    async with AsyncExitStack() as stack:
        for client, status in (("a", None), ("a", None), ("a", None), ("a", 429), ("b", None), ("b", None), ("c", 503)):
            if status is None:
                stream = live.stream(client, "list", dict, {})
                stack.push_async_callback(stream.aclose)  # type: ignore[attr-defined]  # as above
                await anext(stream)
            else:
                with pytest.raises(TooManyStreamsError) as refused:
                    live.check(client)
                assert refused.value.status == status
    live.check("a")


async def test_a_stream_too_many_is_a_clear_answer_of_the_real_server(world: World) -> None:
    settings = patient(streams_per_client=2, streams=3, poll_interval=0.05)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(
            serving(create_app(world.sources(), settings), listening_at("127.0.0.1:0"), trusted_proxy="127.0.0.1")
        )
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE))
        codes, read = [], []
        for visitor in ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"):
            asked = http.stream("GET", "/live/messages", headers={"x-forwarded-for": visitor})
            answer = await stack.enter_async_context(asked)
            if answer.status_code == 200:
                read.append(answer.aiter_raw())  # kept: the stream is closed with it
                await anext(read[-1])
            else:
                assert answer.headers["retry-after"] == "10"
            codes.append(answer.status_code)
        assert codes == [200, 200, 429, 200, 503]


class Compared(IndexBrowser):
    """An index whose comparison takes until it may."""

    may_end = Event()
    found: list[DivergenceRecord]

    def divergences(self) -> list[DivergenceRecord]:
        self.may_end.wait()
        return self.found


def test_faults_that_were_compared_long_ago_are_not_called_none(world: World) -> None:
    world.index()
    index = Compared(world.url)
    index.found = []
    index.may_end.set()
    client = Client(create_app(replace(world.sources(), index=lambda: index), patient(patience=0.01)))
    shown = _computed(client)
    assert "the chains and the index agree" in shown

    forged = DivergenceRecord(
        kind="EXECUTED_NOT_SENT",
        message_id=bytes(32),
        source_chain=ALPHA,
        destination_chain=BETA,
        evidence="a forged execution",
        severity="critical",
        next_action="look",
    )
    index.may_end.clear()
    index.found = [forged]
    world.now += 3_600
    shown = text_of(client.get("/faults").text)
    assert "the chains and the index agree" not in shown
    assert "Being computed" in shown
    index.may_end.set()
    assert "a forged execution" in _computed(client)


def _computed(client: Client) -> str:
    """The page of faults once it has compared, however long that takes."""
    eventually(lambda: "Being computed" not in text_of(client.get("/faults").text), "faults are computed")
    return text_of(client.get("/faults").text)


async def test_faults_are_live(world: World) -> None:
    world.index()
    index = Compared(world.url)
    index.may_end.set()
    index.found = []
    sources = replace(world.sources(), index=lambda: index)
    async with (
        serving(create_app(sources, patient(poll_interval=0.05)), listening_at("127.0.0.1:0")) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http,
        http.stream("GET", "/live/faults") as answer,
    ):
        lines = answer.aiter_lines()
        async with asyncio.timeout(PATIENCE):
            assert any(["index agree" in line async for line in _until(lines, "index agree")])
            world.now += 10  # seconds, after which chains and index are compared again
            index.found = [
                DivergenceRecord(
                    kind="EXECUTED_NOT_SENT",
                    message_id=None,
                    source_chain=ALPHA,
                    destination_chain=BETA,
                    evidence="a forged execution",
                    severity="critical",
                    next_action="look",
                )
            ]
            assert any(["forged" in line async for line in _until(lines, "forged")])


async def _until(lines: AsyncIterator[str], text: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if text in line:
            return


def test_every_page_says_as_of_when_and_that_the_index_is_behind(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.index()
    explorer = world.explorer()
    paths = ("/", "/messages", "/messages?status=stalled", "/lanes", "/gmps", "/faults", "/dead-letters", page(sent))
    for path in (*paths, "/message/0x" + "00" * 32):
        body = explorer.get(path).text
        assert "As of alpha block" in text_of(body), path
        assert "The index is behind" not in body
    world.now += 3_600
    for path in paths:
        shown = text_of(world.explorer().get(path).text)
        assert "The index is behind on alpha: it has read nothing after" in shown, path


def test_a_page_whose_heights_are_not_read_yet_says_so(world: World) -> None:
    may_end = Event()

    class Slow(IndexBrowser):
        def chains(self) -> list[ChainRecord]:
            may_end.wait()
            return super().chains()

    world.alpha.mine(routed(sent_message()))
    world.index()
    index = Slow(world.url, clock=lambda: world.now)
    client = Client(create_app(replace(world.sources(), index=lambda: index), patient(patience=0.01)))
    shown = text_of(client.get("/faults").text)
    assert "As of: being read" in shown
    assert "As of alpha" not in shown
    assert "As of" not in text_of(world.explorer(has_stores=False).get("/faults").text), "nothing was or is being read"
    may_end.set()
    eventually(lambda: "As of: being read" not in text_of(client.get("/faults").text), "the heights are read")
    assert "As of alpha block" in text_of(client.get("/faults").text)


def _index_of(sources: Sources) -> Index:
    index = sources.index()
    assert index is not None
    return index


def test_tiles_are_there_on_first_look(world: World) -> None:
    world.alpha.mine(routed(sent_message()))
    world.index()
    assert _index_of(world.sources()).by_status()
    assert 'class="tile"' in world.explorer().get("/").text
