from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bridge.evm.chain import EvmChain
from bridge.evm.rpc_answers import WrongChainError
from bridge.protocol.classification import Disposition, classify
from bridge.protocol.failures import FailureKind
from bridge.protocol.ports import (
    Call,
    CallRevertedError,
    FeesTooHighError,
    InsufficientFundsError,
    TerminalError,
    TransientError,
    UnansweredError,
)
from tests.unit.evm.conftest import Serve
from tests.unit.evm.rpc_server import Answer, Behaviour, RpcServer, error

ALPHA = 31337
ADDRESS = "0x" + "ab" * 20
TOPIC = b"\x01" * 32


def balance(_method: str, _params: list[Any]) -> Answer:
    return {"result": "0x2a"}


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def test_wrong_chain_error_names_url_and_both_ids(serve: Serve) -> None:
    right, wrong = await serve(balance), await serve(balance, chain_id=1)
    with pytest.raises(WrongChainError) as refused:
        await EvmChain.connect(ALPHA, [right.url, wrong.url])
    assert all(part in str(refused.value) for part in (wrong.url, "chain 31337", "serves chain 1,"))


async def test_what_is_no_url_is_refused_without_what_may_be_a_key() -> None:
    with pytest.raises(
        WrongChainError, match="is not a JSON-RPC URL: it must start with http:// or https://; correct"
    ) as refused:
        await EvmChain.connect(ALPHA, ["https://sound.example", "127.0.0.1:8545/secret"])
    assert '"127.0.0.1:8545"' in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_an_unreachable_chain_is_named_with_its_urls() -> None:
    urls = [closed_port(), closed_port()]
    with pytest.raises(TransientError, match=r"no RPC endpoint of chain 31337 answers") as refused:
        await EvmChain.connect(ALPHA, urls)
    assert all(url in str(refused.value) for url in urls)


async def test_chain_down_at_start_must_report_its_id_first(serve: Serve) -> None:
    down = await serve(balance)
    await down.stop()
    async with await EvmChain.connect(ALPHA, [down.url], may_be_down=True, try_seconds=0.1) as chain:
        with pytest.raises(UnansweredError, match="no RPC endpoint of chain 31337 answers"):
            await chain.balance(ADDRESS)
        wrong = await RpcServer(balance, chain_id=1).start(down.port)
        try:
            with pytest.raises(UnansweredError, match="serves chain 1, but"):
                await chain.broadcast(b"a transaction")
            assert {method for method, _ in wrong.requests} == {"eth_chainId"}
        finally:
            await wrong.stop()
        right = await RpcServer(balance).start(down.port)
        try:
            assert await chain.balance(ADDRESS) == 42
        finally:
            await right.stop()


async def test_outage_is_reported_once_per_process(serve: Serve) -> None:
    down, sound = await serve(balance), await serve(balance)
    await down.stop()

    async def ask() -> None:
        async with await EvmChain.connect(ALPHA, [down.url, sound.url]) as chain:
            assert await chain.balance(ADDRESS) == 42

    with capture_logs() as logs:
        await ask()
        await ask()
        server = await RpcServer(balance).start(down.port)
        try:
            await ask()
        finally:
            await server.stop()
        await ask()
    events = [one["event"] for one in logs if one.get("endpoint") == down.url]
    assert events == ["endpoint failed", "endpoint recovered", "endpoint failed"]


FAILURES: dict[str, Behaviour] = {
    "500": lambda *_: web.Response(status=500),
    "429": lambda *_: web.Response(status=429),
    "not JSON": lambda *_: web.Response(text="<html>", content_type="text/html"),
    "cut JSON": lambda *_: web.Response(text='{"jsonrpc":"2.0","id":1,"resu', content_type="application/json"),
    "no result": lambda *_: {"nothing": 1},
    "a list": lambda *_: web.json_response([1]),
    "rate limit": lambda *_: error(-32005, "limit exceeded"),
    "internal error": lambda *_: error(-32603, "Internal error"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_next_endpoint_is_asked_after_a_useless_answer(serve: Serve, failure: str) -> None:
    broken, sound = await serve(FAILURES[failure]), await serve(balance)
    async with await EvmChain.connect(ALPHA, [broken.url, sound.url]) as chain:
        assert await chain.balance(ADDRESS) == 42
    assert broken.asked("eth_getBalance") == 1


@pytest.mark.parametrize("failure", [*FAILURES, "down"])
async def test_error_of_the_only_endpoint_is_transient_and_names_it(serve: Serve, failure: str) -> None:
    broken = await serve(FAILURES.get(failure, balance))
    async with await EvmChain.connect(ALPHA, [broken.url], try_seconds=0.3) as chain:
        if failure == "down":
            await broken.stop()
        with pytest.raises(UnansweredError, match=broken.url) as silent:
            await chain.balance(ADDRESS)
    found = classify(silent.value)
    assert (found.kind, found.disposition) == (FailureKind.UNANSWERED, Disposition.RETRY)


async def test_hanging_endpoint_is_given_up_and_asked_last(serve: Serve) -> None:
    async def hang(*_: object) -> Answer:
        await asyncio.sleep(3_600)
        return {"result": "0x0"}

    hanging, sound = await serve(hang), await serve(balance)
    async with await EvmChain.connect(ALPHA, [hanging.url, sound.url], request_seconds=3) as chain:
        chain._endpoints._clock = lambda: 1_000.0  # it rests for ever
        for _ in range(10):
            assert await chain.balance(ADDRESS) == 42
    assert hanging.asked("eth_getBalance") == 1


def log(block: int, index: int, **changes: Any) -> dict[str, Any]:
    return {
        "address": ADDRESS,
        "topics": ["0x" + TOPIC.hex()],
        "data": "0x",
        "blockNumber": hex(block),
        "blockHash": "0x" + block.to_bytes(32, "big").hex(),
        "transactionHash": "0x" + bytes(32).hex(),
        "logIndex": hex(index),
        **changes,
    }


async def test_one_block_that_is_still_too_large_is_an_error(serve: Serve) -> None:
    server = await serve(lambda *_: error(-32005, "query returned more than 10000 results"))
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        with pytest.raises(TransientError, match="more than 10000"):
            await chain.logs(5, 6, [ADDRESS], [TOPIC])


async def test_logs_come_in_order_each_once_and_without_removed_ones(serve: Serve) -> None:
    answer = [log(3, 1), log(2, 5), log(3, 0), log(2, 5), log(4, 0, removed=True)]
    server = await serve(lambda *_: {"result": answer})
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        found = await chain.logs(0, 9, [ADDRESS], [TOPIC])
    assert [(one.block_number, one.log_index) for one in found] == [(2, 5), (3, 0), (3, 1)]


@pytest.mark.parametrize(
    "changes",
    [
        {"blockNumber": "0x64"},
        {"address": "0x" + "cd" * 20},
        {"topics": ["0x" + "02" * 32]},
        {"topics": []},
        {"blockHash": None},
        {"data": "zz"},
        {"logIndex": "two"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_unrequested_or_unreadable_log_voids_the_answer(serve: Serve, changes: dict[str, Any]) -> None:
    server = await serve(lambda *_: {"result": [log(3, 0), log(4, 0, **changes)]})
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        with pytest.raises(TransientError):
            await chain.logs(0, 9, [ADDRESS], [TOPIC])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error(-32000, "nonce too low"), TransientError),
        (error(-32000, "insufficient funds for gas * price + value"), InsufficientFundsError),
        (error(-32000, "intrinsic gas too low"), TerminalError),
        (error(-32000, "replacement transaction underpriced"), TransientError),
        (error(-31999, "the moon is full"), TransientError),
    ],
)
async def test_refused_transaction_is_terminal_only_if_never_valid(
    serve: Serve, answer: Answer, expected: type[Exception]
) -> None:
    server = await serve(lambda method, _: answer if method == "eth_sendRawTransaction" else {"result": None})
    async with await EvmChain.connect(ALPHA, [server.url], try_seconds=0.2) as chain:
        with pytest.raises(expected):
            await chain.broadcast(b"\x02raw")


async def test_a_transaction_that_the_chain_has_is_no_error(serve: Serve) -> None:
    refusals = iter(["already known", "nonce too low"])
    server = await serve(
        lambda method, _: (
            error(-32000, next(refusals)) if method == "eth_sendRawTransaction" else {"result": {"hash": "0xab"}}
        )
    )
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        await chain.broadcast(b"\x02raw")
        await chain.broadcast(b"\x02raw")
    assert server.asked("eth_getTransactionByHash") == 1, "only a used nonce is looked into"


async def test_a_lost_answer_to_a_broadcast_is_sent_again_and_no_error(serve: Serve) -> None:
    answers = iter([web.Response(status=502), error(-32000, "already known")])
    server = await serve(lambda *_: next(answers))
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        await chain.broadcast(b"\x02raw")
    assert server.asked("eth_sendRawTransaction") == 2


async def test_revert_keeps_its_data_and_is_not_repeated(serve: Serve) -> None:
    server = await serve(lambda *_: error(3, "execution reverted", "0xdeadbeef"))
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        with pytest.raises(CallRevertedError) as refused:
            await chain.call(Call(to=ADDRESS, data=b""))
    assert refused.value.data == bytes.fromhex("deadbeef")
    assert server.asked("eth_call") == 1


async def test_a_chain_without_a_base_fee_is_refused(serve: Serve) -> None:
    server = await serve(lambda *_: {"result": {"number": "0x1"}})
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        with pytest.raises(UnansweredError, match="EIP-1559"):
            await chain.fees()


async def test_fees_outlast_a_rising_base_fee_and_always_offer_a_tip(serve: Serve) -> None:
    server = await serve(
        lambda method, _: {"result": "0x0" if method == "eth_maxPriorityFeePerGas" else {"baseFeePerGas": hex(100)}}
    )
    async with await EvmChain.connect(ALPHA, [server.url]) as chain:
        fees = await chain.fees()
        limited = await chain.fees(150)
        with pytest.raises(FeesTooHighError, match="requires 101 wei per gas, above the limit of 100"):
            await chain.fees(100)
    assert (fees.max_fee, fees.priority_fee) == (201, 1)
    assert (limited.max_fee, limited.priority_fee) == (150, 1)
