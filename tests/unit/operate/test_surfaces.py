"""The real servers under attack: oversized, slow, half-open, parallel and malformed requests, over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from bridge.api.app import create_app as create_api
from bridge.dead_letters.review import DeadLetterReview
from bridge.http import server as http_server
from bridge.http.gate import Limits
from bridge.http.listening import listening_at
from bridge.http.server import serving
from bridge.web import create_app as create_explorer
from tests.unit.operate.test_api import ID, TOKEN, Recorder, authorized
from tests.unit.web.explorer import World, patient

HOST = "Host: surface.example\r\n"
SOON = 5.0  # seconds; an answer takes milliseconds, and this machine may be busy
MB = 1 << 20

Surface = Callable[[], AbstractAsyncContextManager[str]]


class Slow(Recorder):
    """Answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.asked = 0

    async def status(self) -> dict[str, Any]:
        self.asked += 1
        await self.may_answer.wait()
        return {"network": "devnet"}


@asynccontextmanager
async def api(backend: Recorder | None = None, limits: Limits | None = None) -> AsyncIterator[str]:
    app = create_api(
        backend or Recorder(), token=SecretStr(TOKEN), version="1", **({"limits": limits} if limits else {})
    )
    async with serving(app, listening_at("127.0.0.1:0")) as url:
        yield url


@pytest.fixture(params=["api", "explorer"])
def surface(request: pytest.FixtureRequest, tmp_path: Path) -> Surface:
    @asynccontextmanager
    async def explorer() -> AsyncIterator[str]:
        world = World(tmp_path)
        try:
            app = create_explorer(world.sources(), patient(requests_per_minute=10_000))
            async with serving(app, listening_at("127.0.0.1:0")) as url:
                yield url
        finally:
            world.relayer.close()
            world.store.close()

    return api if request.param == "api" else explorer


def review() -> AbstractAsyncContextManager[DeadLetterReview]:
    raise AssertionError("nothing is decided")


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def said(url: str, raw: bytes) -> bytes:
    """What the server says to these bytes until it closes, or has said an answer; empty if it only closes."""
    reader, writer = await connect(url)
    try:
        async with asyncio.timeout(SOON):
            writer.write(raw)
            head = await reader.readuntil(b"\r\n\r\n")
            return head + (await reader.read(10_000) if b"content-length: 0" not in head else b"")
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    finally:
        writer.close()


async def is_alive(url: str) -> bool:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=SOON) as http:
        return bool((await http.get("/healthz")).json() == {"status": "ok"})


async def test_a_body_that_nobody_may_send_is_refused_before_it_is_read(surface: Surface) -> None:
    async with surface() as url:
        path = f"/v1/lanes/alpha/beta/pause HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"
        for length in (f"Content-Length: {80 * MB}", "Transfer-Encoding: chunked"):
            started = time.monotonic()
            answer = await said(url, f"POST {path}{length}\r\n\r\n".encode())
            assert answer.split()[1:2] in ([b"401"], [b"413"], [b"405"]), answer
            assert b"connection: close" in answer.lower()
            assert time.monotonic() - started < SOON
        assert await is_alive(url)


async def test_bodies_of_80_mb_in_parallel_keep_nobody_from_an_answer(surface: Surface) -> None:
    async def flood(url: str) -> None:
        reader, writer = await connect(url)
        head = f"POST /v1/lanes/a/b/pause HTTP/1.1\r\n{HOST}Content-Length: {80 * MB}\r\n\r\n"
        try:
            writer.write(head.encode())
            for _ in range(80):
                writer.write(bytes(MB))
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()
            reader.feed_eof()

    async with surface() as url:
        floods = [asyncio.create_task(flood(url)) for _ in range(3)]
        for _ in range(5):
            assert await is_alive(url)
        async with asyncio.timeout(SOON):
            await asyncio.gather(*floods)


async def test_a_token_is_looked_at_before_the_body_and_a_size_even_with_it() -> None:
    backend = Recorder()
    async with api(backend) as url, httpx.AsyncClient(base_url=url, trust_env=False) as http:
        nonsense = await http.post(f"/v1/messages/{ID}/retry", content=b"{", headers=authorized("wrong"))
        assert nonsense.status_code == 401, "422 would say that the body was parsed"
        large = await http.post(f"/v1/messages/{ID}/retry", content=b" " * 20_001, headers=authorized())
        assert (large.status_code, large.json()["error"]["message"][:7]) == (413, "say how")
    assert backend.changes == []


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async with api(limits=Limits(body_seconds=0.3)) as url:
        head = f"POST /v1/messages/{ID}/retry HTTP/1.1\r\n{HOST}Authorization: Bearer {TOKEN}\r\nContent-Length: 400\r\n\r\n"
        answer = await said(url, head.encode() + b"{")
        assert answer.split()[1] == b"408"
        assert b"not complete within 0.3 seconds" in answer


async def test_bodies_that_do_not_come_keep_nobody_from_reading(tmp_path: Path) -> None:
    world = World(tmp_path)
    listener = listening_at("127.0.0.1:0")
    head = f"POST /dead-letters/decisions HTTP/1.1\r\n{HOST}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    async with serving(create_explorer(world.sources(), patient(), review), listener) as url, AsyncExitStack() as stack:
        port = urlsplit(url).port

        async def post(source: str) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            stack.callback(writer.close)
            writer.write(head.encode())
            return reader

        of_one = [await post("127.0.0.2") for _ in range(16)]
        first = [asyncio.create_task(reader.readline()) for reader in of_one]
        async with asyncio.timeout(2 * SOON):
            while sum(task.done() for task in first) < 12:  # the others wait for their bodies
                await asyncio.sleep(0.02)
        assert {task.result().split()[1] for task in first if task.done()} == {b"429"}
        for number in range(3, 20):
            for _ in range(4):
                await post(f"127.0.0.{number}")
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=2 * SOON) as http:
            assert [(await http.get(path)).status_code for path in ("/", "/messages", "/healthz")] == [200] * 3
    await asyncio.gather(*first, return_exceptions=True)
    world.relayer.close()
    world.store.close()


async def test_bodies_that_do_not_come_are_limited_over_all_addresses_too() -> None:
    limits = Limits(bodies_at_once=1, body_seconds=60)
    path = f"/v1/messages/{ID}/retry"
    head = f"POST {path} HTTP/1.1\r\n{HOST}Authorization: Bearer {TOKEN}\r\nContent-Length: 400\r\n\r\n{{"
    async with (
        api(limits=limits) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=2 * SOON) as http,
        asyncio.timeout(4 * SOON),
    ):
        _, slow = await asyncio.open_connection("127.0.0.1", urlsplit(url).port, local_addr=("127.0.0.2", 0))
        slow.write(head.encode())
        while (answer := await http.post(path, content=b"{", headers=authorized())).status_code != 503:
            await asyncio.sleep(0.02)  # the slow one has not been seen yet
        assert answer.headers["retry-after"] == "1"
        assert (await http.get("/v1/lanes")).status_code == 200
        slow.close()
        while (await http.post(path, content=b"{", headers=authorized())).status_code == 503:
            await asyncio.sleep(0.02)


async def test_connections_that_do_not_ask_are_closed_and_keep_nobody_out(
    surface: Surface, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 1.0)
    async with surface() as url:
        opened = [await connect(url) for _ in range(100)]
        for number, (_, writer) in enumerate(opened):
            writer.write((b"", b"GET / HT", f"GET / HTTP/1.1\r\n{HOST}X: ".encode())[number % 3])
        assert await is_alive(url)
        started = time.monotonic()
        async with asyncio.timeout(2 * SOON):
            while not all(reader.at_eof() or reader.exception() for reader, _ in opened):
                for _, writer in opened[:10]:
                    writer.write(b"y")  # a head that comes letter by letter is no request either
                await asyncio.sleep(0.1)
        assert time.monotonic() - started < SOON
        for _, writer in opened:
            writer.close()
        assert await is_alive(url)


async def test_one_address_can_not_hold_all_connections(surface: Surface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CONNECTIONS_OF_ONE", 20)
    async with surface() as url:
        opened = [await connect(url) for _ in range(30)]
        async with asyncio.timeout(SOON):
            while sum(reader.at_eof() or reader.exception() is not None for reader, _ in opened) < 10:
                await asyncio.sleep(0.05)
        for _, writer in opened:
            writer.close()
        await asyncio.sleep(0.1)
        assert await is_alive(url)


async def test_requests_under_way_are_limited_and_health_is_told_all_the_same() -> None:
    backend = Slow()
    async with (
        api(backend, Limits(at_once=8, at_once_per_address=5)) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=2 * SOON) as http,
    ):
        asked = [asyncio.create_task(http.get("/v1/status")) for _ in range(40)]
        async with asyncio.timeout(SOON):
            while sum(task.done() for task in asked) < 35:
                await asyncio.sleep(0.02)
        assert await is_alive(url)
        assert backend.asked == 5
        backend.may_answer.set()
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [429] * 35
        assert {answer.headers.get("retry-after") for answer in answers} == {None, "1"}
        assert (await http.get("/v1/status")).status_code == 200


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    backend = Slow()
    async with (
        api(backend, Limits(answer_seconds=0.2)) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as http,
    ):
        answer = await http.get("/v1/status")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "UNAVAILABLE")


async def test_an_address_that_asks_too_often_waits_and_can_not_pretend_to_be_another() -> None:
    async with (
        api(limits=Limits(requests_per_minute=20)) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as http,
    ):
        codes = [
            (await http.get("/v1/lanes", headers={"x-forwarded-for": f"198.51.100.{number}"})).status_code
            for number in range(25)
        ]
        assert codes == [200] * 20 + [429] * 5
        assert (await http.get("/healthz")).status_code == 200


MALFORMED = [
    b"\x00\x01\x02\x03\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\nHost: [::1\r\n\r\n",
    b"GET /%00%ff%c0%80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /search?q=%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /?" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"b" * 200_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/messages?limit=" + b"9" * 5_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /messages?after=" + b"9" * 5_000 + b"-00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /messages?status=%E2%80%AE HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /v1/messages/" + ID.encode() + b"/retry HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + TOKEN.encode()
    + b"\r\nContent-Length: 9000\r\n\r\n" + b"[" * 9_000,
]  # fmt: skip


async def test_what_is_malformed_is_refused_and_breaks_nothing(surface: Surface) -> None:
    async with surface() as url:
        for raw in MALFORMED:
            answer = await said(url, raw)
            assert not answer or answer.split()[1][:1] in (b"2", b"4"), (raw[:60], answer[:200])
            assert "\u202e".encode() not in answer
        assert await is_alive(url)


async def test_a_host_header_decides_nothing(surface: Surface) -> None:
    async with surface() as url:
        for path in ("/messages/", "//evil.example", "/static", "/v1/status/", "/dead-letters/"):
            answer = (await said(url, f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())).lower()
            assert b"location: http" not in answer, answer
        bare = "Content-Length: 0\r\n\r\n"
        disguised = f"POST /v1/lanes/a/b/pause HTTP/1.1\r\nHost: x/healthz?\r\n{bare}"
        assert (await said(url, disguised.encode())).split()[1] in (b"401", b"404", b"405")


async def test_head_is_answered_like_get_without_a_body_and_other_methods_name_those_there_are(
    surface: Surface,
) -> None:
    async with surface() as url, httpx.AsyncClient(base_url=url, trust_env=False) as http:
        path = "/" if (await http.get("/v1/lanes")).status_code == 404 else "/v1/lanes"
        head, get = await http.head(path), await http.get(path)
        assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", get.headers["content-type"])
        assert (await http.head("/healthz")).status_code == 200
        other = await http.put(path, headers=authorized())
        assert (other.status_code, "GET" in other.headers["allow"]) == (405, True)


async def test_a_client_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "STALLED_SECONDS", 0.5)

    class Large(Recorder):
        async def metrics(self) -> bytes:
            return b"#" * (30 * MB)

    async with api(Large()) as url:
        reader, writer = await connect(url)
        reader._limit = 1_000  # type: ignore[attr-defined]  # pauses reading at once
        writer.write(f"GET /metrics HTTP/1.1\r\n{HOST}\r\n".encode())
        await asyncio.sleep(2)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(30 * MB)
        writer.close()
        assert await is_alive(url)
