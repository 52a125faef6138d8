"""A node that answers badly: a seeded proxy between the bridge and an anvil chain."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web

Answer = dict[str, Any]


class FaultProxy:
    """Passes JSON-RPC requests on, and spoils a share of the answers. The same seed spoils the same requests in a row."""

    def __init__(self, upstream: str, seed: int, share: float) -> None:
        """Stands before one endpoint.

        Args:
            upstream: the endpoint's URL.
            seed: of the dice.
            share: of the requests that something happens to.
        """
        self.share = share
        self.is_down = False  # every connection breaks, and nothing is carried out
        self.faults: Counter[str] = Counter()
        self.requests = 0  # HTTP requests: a batch is one
        self.rpc_calls = 0  # what they ask for
        self._upstream = upstream
        self._dice = random.Random(seed)
        self._session: ClientSession | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one HTTP request."""
        self.requests += 1
        body = await request.read()
        self.rpc_calls += body.count(b'"method"')
        if self.is_down:
            return _broken(request)
        fault = self._dice.choice(FAULTS) if self._dice.random() < self.share else None
        if fault is None:
            return web.json_response(await self._forward(body))
        self.faults[fault.__name__] += 1
        answer = await fault(self, body)
        return _broken(request) if answer is None else answer

    async def _forward(self, body: bytes) -> Any:
        assert self._session is not None
        async with self._session.post(
            self._upstream, data=body, headers={"content-type": "application/json"}
        ) as answer:
            return await answer.json()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serves on a free port; gives the URL."""
        application = web.Application(client_max_size=2**26)
        application.router.add_post("/", self.handle)
        runner = web.AppRunner(application, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert runner.addresses
        async with ClientSession(timeout=ClientTimeout(total=30)) as self._session:
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    # --- what may happen; None is a connection that breaks

    async def unavailable(self, _body: bytes) -> web.Response:
        return web.Response(status=503, text="<html>no healthy upstream</html>")

    async def too_many_requests(self, _body: bytes) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "1"}, text="slow down")

    async def reset(self, _body: bytes) -> None:
        return None

    async def answer_lost(self, body: bytes) -> None:
        """The request is carried out, and nobody hears of it."""
        await self._forward(body)

    async def limit_exceeded(self, body: bytes) -> web.Response:
        """An error inside an answer that HTTP calls good."""
        error = {"code": -32005, "message": "limit exceeded"}
        return self._mapped(json.loads(body), lambda one: {"jsonrpc": "2.0", "id": one["id"], "error": error})

    async def truncated(self, body: bytes) -> web.Response:
        text = json.dumps(await self._forward(body))
        return web.Response(text=text[: len(text) // 2], content_type="application/json")

    async def slow(self, body: bytes) -> web.Response:
        await asyncio.sleep(2)
        return web.json_response(await self._forward(body))

    async def stale_head(self, body: bytes) -> web.Response:
        """A node behind a load balancer that is some blocks late."""
        number = await self._forward(b'{"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}')
        late = hex(max(int(number["result"], 16) - 3, 0))
        return web.json_response(await self._forward(body.replace(b'"latest"', f'"{late}"'.encode())))

    async def logs_left_out(self, body: bytes) -> web.Response:
        """The logs of one transaction are missing."""

        def without_one(logs: list[Answer]) -> list[Answer]:
            hidden = self._dice.choice(logs)["transactionHash"] if logs else None
            return [log for log in logs if log["transactionHash"] != hidden]

        return await self._changed(body, "eth_getLogs", without_one)

    async def logs_doubled_and_shuffled(self, body: bytes) -> web.Response:
        return await self._changed(body, "eth_getLogs", lambda logs: self._dice.sample([*logs, *logs], 2 * len(logs)))

    async def calls_blank(self, body: bytes) -> web.Response:
        """A node that has no contracts: a load balancer's empty one, or one that lags."""
        return await self._changed(body, "eth_call", lambda _: "0x")

    async def calls_cut(self, body: bytes) -> web.Response:
        return await self._changed(body, "eth_call", lambda data: data[: 2 + (len(data) - 2) // 128 * 64 + 62])

    async def nothing(self, body: bytes) -> web.Response:
        """Every result is null."""
        return self._mapped(json.loads(body), lambda one: {"jsonrpc": "2.0", "id": one["id"], "result": None})

    async def not_understood(self, body: bytes) -> web.Response:
        error = {"code": -32601, "message": "the method is not available"}
        return self._mapped(json.loads(body), lambda one: {"jsonrpc": "2.0", "id": one["id"], "error": error})

    async def wrong_types(self, body: bytes) -> web.Response:
        return self._mapped(json.loads(body), lambda one: {"jsonrpc": "2.0", "id": one["id"], "result": [17, {}]})

    async def receipts_of_others(self, body: bytes) -> web.Response:
        return await self._changed(
            body, "eth_getTransactionReceipt", lambda receipt: {**receipt, "transactionHash": "0x" + "cd" * 32}
        )

    async def _changed(self, body: bytes, method: str, change: Callable[[Any], Any]) -> web.Response:
        answers = await self._forward(body)
        requests = json.loads(body)
        pairs = zip(requests, answers, strict=True) if isinstance(requests, list) else [(requests, answers)]
        for request, answer in pairs:
            if request["method"] == method and answer.get("result") is not None:
                answer["result"] = change(answer["result"])
        return web.json_response(answers)

    def _mapped(self, requests: Any, answer: Callable[[Answer], Answer]) -> web.Response:
        return web.json_response([answer(one) for one in requests] if isinstance(requests, list) else answer(requests))


def _broken(request: web.Request) -> web.Response:
    """Breaks the connection; nobody sees the response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


Fault = Callable[[FaultProxy, bytes], Awaitable[web.StreamResponse | None]]

# Without altered logs: the devnet's oracles read through the same node, and what they sign of those stays signed.
FAULTS: tuple[Fault, ...] = (
    FaultProxy.unavailable,
    FaultProxy.too_many_requests,
    FaultProxy.reset,
    FaultProxy.answer_lost,
    FaultProxy.limit_exceeded,
    FaultProxy.truncated,
    FaultProxy.slow,
    FaultProxy.stale_head,
    FaultProxy.logs_left_out,
    FaultProxy.logs_doubled_and_shuffled,
    FaultProxy.calls_blank,
    FaultProxy.calls_cut,
    FaultProxy.nothing,
    FaultProxy.not_understood,
    FaultProxy.wrong_types,
    FaultProxy.receipts_of_others,
)
