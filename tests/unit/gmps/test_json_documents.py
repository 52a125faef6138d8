"""How public services are asked: over connections that are kept, and believed only as far as they answer themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bridge.gmps.attestation import JsonDocuments
from bridge.protocol.ports import UnansweredError
from tests.waiting import PATIENCE


class Service:
    """Answers by the path."""

    def __init__(self) -> None:
        self.connections: set[object] = set()

    async def answer(self, request: web.Request) -> web.Response:
        self.connections.add(request.transport)
        match request.path:
            case "/redirected":
                return web.Response(status=302, headers={"location": "/there"})
            case "/long":
                return web.Response(body=b'"' + b"x" * (1 << 20) + b'"')
            case "/there":
                return web.json_response({"is": "there"})
            case path:
                return web.Response(status=int(path[1:]))


@pytest.fixture
async def served() -> AsyncIterator[tuple[Service, str]]:
    service, application = Service(), web.Application()
    application.router.add_get("/{path:.*}", service.answer)
    async with TestServer(application) as server:
        yield service, str(server.make_url("")).rstrip("/")


class Counted(ThreadPoolExecutor):
    """Counts what it is asked to do."""

    asked = 0

    def submit(self, *arguments: Any, **more: Any) -> Future[Any]:
        self.asked += 1
        return super().submit(*arguments, **more)


@pytest.mark.parametrize("status", [403, 404])
async def test_what_is_not_there_is_no_document(served: tuple[Service, str], status: int) -> None:
    async with JsonDocuments(timeout=PATIENCE) as documents:
        assert await documents.json(f"{served[1]}/{status}") is None


@pytest.mark.parametrize(("path", "reason"), [("redirected", "302"), ("500", "500"), ("204", "204"), ("long", "bytes")])
async def test_an_answer_that_is_no_document_names_its_url_and_why(
    served: tuple[Service, str], path: str, reason: str
) -> None:
    async with JsonDocuments(timeout=PATIENCE) as documents:
        with pytest.raises(UnansweredError, match=f"request to {served[1]}/{path} failed: .*{reason}"):
            await documents.json(f"{served[1]}/{path}")


async def test_unreachable_service_or_bad_url_is_no_answer() -> None:
    async with JsonDocuments(timeout=PATIENCE) as documents:
        for url in ("http://127.0.0.1:1/x", "http://", "nothing"):
            with pytest.raises(UnansweredError, match=r"request to .* failed"):
                await documents.json(url)
