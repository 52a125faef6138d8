"""A JSON-RPC endpoint that behaves as a test wants it to, on a real socket."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

Answer = web.Response | dict[str, Any]
Behaviour = Callable[[str, list[Any]], Awaitable[Answer] | Answer]


class RpcServer:
    """Answers requests on a free port of the loopback address, and counts them."""

    def __init__(self, behaviour: Behaviour, chain_id: int = 31337) -> None:
        self.behaviour = behaviour
        self.chain_id = chain_id
        self.requests: list[tuple[str, list[Any]]] = []
        self.exchanges = 0  # HTTP requests: a batch is one
        self.connections: set[object] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.scheme = "http"
        self.headers: Mapping[str, str] = {}  # of the newest request

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def asked(self, method: str) -> int:
        """How often a method was asked for."""
        return sum(name == method for name, _ in self.requests)

    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> RpcServer:
        app = web.Application()
        app.router.add_post("/", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.scheme = "https" if tls else "http"
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        self.connections.add(request.transport)
        self.exchanges += 1
        self.headers = request.headers
        body = await request.json()
        if not isinstance(body, list):
            answer = await self._answer(body)
            return answer if isinstance(answer, web.Response) else web.json_response(answer)
        answers = [await self._answer(one) for one in body]
        whole = next((answer for answer in answers if isinstance(answer, web.Response)), None)
        return whole or web.json_response(list(reversed(answers)))  # the standard allows any order

    async def _answer(self, body: dict[str, Any]) -> Answer:
        method, params = body["method"], body["params"]
        self.requests.append((method, params))
        if method == "eth_chainId":
            answer: Answer = {"result": hex(self.chain_id)}
        else:
            found = self.behaviour(method, params)
            answer = found if isinstance(found, web.Response | dict) else await found
        return answer if isinstance(answer, web.Response) else {"jsonrpc": "2.0", "id": body["id"], **answer}


def error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    """An answer that refuses."""
    return {"error": {"code": code, "message": message, **({} if data is None else {"data": data})}}
