from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from bridge.evm.chain import EvmChain
from bridge.protocol.ports import Call, CallRevertedError
from tests.unit.evm.rpc_server import Answer, Behaviour, RpcServer, error

CHAIN = 31337


def account(number: int) -> str:
    return f"0x{number:040x}"


def balance(_method: str, params: list[Any]) -> Answer:
    return {"result": hex(int(params[0], 16))}


async def balances(server: RpcServer, count: int, **policy: Any) -> tuple[list[int], int]:
    """The balances of `count` accounts, read at once, and the number of HTTP requests for them."""
    async with await EvmChain.connect(CHAIN, [server.url], **policy) as chain:
        before = server.exchanges
        found = await asyncio.gather(*(chain.balance(account(number)) for number in range(count)))
        return found, server.exchanges - before


@pytest.mark.parametrize(("count", "batch", "exchanges"), [(1, 50, 1), (40, 50, 1), (40, 15, 3), (5, 1, 5)])
async def test_concurrent_requests_share_a_batch(count: int, batch: int, exchanges: int) -> None:
    server = await RpcServer(balance).start()
    try:
        assert await balances(server, count, batch=batch) == (list(range(count)), exchanges)
    finally:
        await server.stop()


async def test_an_error_in_a_batch_concerns_one_request_only() -> None:
    def behave(method: str, params: list[Any]) -> Answer:
        return error(3, "execution reverted", "0xdead") if method == "eth_call" else balance(method, params)

    server = await RpcServer(behave).start()
    try:
        async with await EvmChain.connect(CHAIN, [server.url]) as chain:
            first, refused, last = await asyncio.gather(
                chain.balance(account(1)),
                chain.call(Call(to=account(9), data=b"")),
                chain.balance(account(2)),
                return_exceptions=True,
            )
    finally:
        await server.stop()
    assert (first, last) == (1, 2)
    assert isinstance(refused, CallRevertedError)
    assert refused.data == b"\xde\xad"


class _Picky(RpcServer):
    """Answers single requests, and a batch in its own way."""

    def __init__(self, behaviour: Behaviour, refusal: Any, times: int = 1_000) -> None:
        super().__init__(behaviour)
        self.refusal = refusal
        self.times = times

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        if not isinstance(body, list) or self.times == 0:
            return await super()._handle(request)
        self.exchanges += 1
        self.times -= 1
        if isinstance(self.refusal, int):
            return web.Response(status=self.refusal)
        answers = [await self._answer(one) for one in body]
        return web.json_response(self.refusal(answers))


@pytest.mark.parametrize(
    "refusal",
    [400, 413, lambda _: {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batches not supported"}}],
    ids=["400", "413", "an error for all"],
)
async def test_server_that_refuses_batches_gets_single_requests(refusal: Any) -> None:
    server = await _Picky(balance, refusal).start()
    try:
        async with await EvmChain.connect(CHAIN, [server.url]) as chain:
            for expected in (5 + 1, 5):  # the refused batch is the only one
                before = server.exchanges
                found = await asyncio.gather(*(chain.balance(account(number)) for number in range(5)))
                assert found == list(range(5))
                assert server.exchanges - before == expected
    finally:
        await server.stop()


@pytest.mark.parametrize(
    "refusal",
    [
        503,
        lambda answers: answers[:-2],
        lambda _: {"jsonrpc": "2.0", "id": None, "error": {"code": -32005, "message": "rate limit"}},
        lambda _: [1, None, "two"],
        lambda _: "nothing",
    ],
    ids=["503", "answers missing", "rate limit", "no objects", "text"],
)
async def test_unanswered_part_of_a_batch_is_asked_again(refusal: Any) -> None:
    server = await _Picky(balance, refusal, times=1).start()
    try:
        found, exchanges = await balances(server, 6)
    finally:
        await server.stop()
    assert found == list(range(6))
    assert exchanges <= 4, "the broken one, the chain's id looked at again, and what was left"
