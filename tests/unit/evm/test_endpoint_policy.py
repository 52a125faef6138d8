"""Several endpoints of one chain: a liar is outvoted, a slow one is overtaken, the relayer does not fail over to one that is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from bridge.evm.chain import EvmChain
from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.endpoints import Endpoints
from bridge.protocol.contracts import ROUTER
from bridge.protocol.ports import Call, TerminalError, TransientError, UnansweredError, read_view
from tests.unit.evm.conftest import Serve
from tests.unit.evm.rpc_server import Answer, Behaviour, error

ALPHA = 31337
ADDRESS = "0x" + "ab" * 20
TOPIC = b"\x01" * 32
LONG = 3_600.0
"""Seconds that no test takes: whoever waits that long is never done."""


def chain_up_to(head: int, branch: int = 1, logs: list[dict[str, Any]] | None = None) -> Behaviour:
    """A node whose newest block is `head`."""

    def answer(method: str, params: list[Any]) -> Answer:
        if method == "eth_getLogs":
            return {"result": logs or []}
        if method != "eth_getBlockByNumber":
            return {"result": f"0x{branch:02x}"}
        number = head if params[0] == "latest" else int(params[0], 16)
        block = {"number": hex(number), "hash": f"0x{branch:064x}", "parentHash": "0x" + "00" * 32, "timestamp": "0x1"}
        return {"result": block if number <= head else None}

    return answer


def slow(behaviour: Behaviour, seconds: float) -> Behaviour:
    async def answer(method: str, params: list[Any]) -> Answer:
        await asyncio.sleep(seconds)
        found = behaviour(method, params)
        assert isinstance(found, dict)
        return found

    return answer


LOG = {
    "address": ADDRESS,
    "topics": ["0x" + TOPIC.hex()],
    "data": "0x",
    "blockNumber": "0x5",
    "blockHash": f"0x{1:064x}",
    "transactionHash": "0x" + "09" * 32,
    "logIndex": "0x0",
    "removed": False,
}


async def test_lying_endpoint_is_outvoted_on_blocks_and_logs(serve: Serve) -> None:
    forged = {**LOG, "data": "0x66"}
    liar, *honest = [
        await serve(chain_up_to(9, 2, [LOG, forged])),
        await serve(chain_up_to(9, 1, [LOG])),
        await serve(chain_up_to(9, 1, [{**LOG, "removed": None}])),  # clients differ in what else they write
    ]
    async with await EvmChain.connect(ALPHA, [liar.url, *(one.url for one in honest)], agreement=2) as chain:
        block = await chain.block(5)
        assert block is not None
        assert block.hash == (1).to_bytes(32)
        assert [log.data for log in await chain.logs(5, 5, [ADDRESS], [TOPIC])] == [b""]


def answering(results: dict[str, Any]) -> Behaviour:
    """A node that gives these answers; an answer with an error refuses."""

    def answer(method: str, _params: list[Any]) -> Answer:
        result = results[method]
        return result if isinstance(result, dict) and "error" in result else {"result": result}

    return answer


RECEIPT = {
    "transactionHash": "0x" + "09" * 32,
    "blockNumber": "0x5",
    "blockHash": f"0x{1:064x}",
    "status": "0x1",
    "gasUsed": "0x5",
    "logs": [LOG],
}


@pytest.mark.parametrize(
    "lie",
    [None, {**RECEIPT, "status": "0x0", "logs": []}, {**RECEIPT, "blockNumber": "0x6"}, {**RECEIPT, "logs": []}],
    ids=["none", "failed", "elsewhere", "without logs"],
)
async def test_one_lying_endpoint_of_three_makes_up_no_receipt(serve: Serve, lie: Any) -> None:
    urls = [(await serve(answering({"eth_getTransactionReceipt": one}))).url for one in (lie, RECEIPT, RECEIPT)]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        receipt = await chain.receipt(b"\x09" * 32)
    assert receipt is not None
    assert (receipt.succeeded, receipt.block_number, len(receipt.logs)) == (True, 5, 1)


@pytest.mark.parametrize("lie", [3, 50])
async def test_one_lying_endpoint_of_three_moves_the_head_nowhere(serve: Serve, lie: int) -> None:
    urls = [(await serve(one)).url for one in (chain_up_to(lie, 2), chain_up_to(9), chain_up_to(9))]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        head = await chain.head()
    assert (head.number, head.hash) == (9, (1).to_bytes(32))


async def test_a_liar_that_agrees_but_for_a_detail_does_not_get_it_in(serve: Serve) -> None:
    removed = {**LOG, "removed": True}
    elsewhere = {**LOG, "transactionHash": "0x" + "66" * 32}
    for lie in (removed, elsewhere):
        urls = [(await serve(chain_up_to(9, 1, [one]))).url for one in (lie, LOG, LOG)]
        async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
            (found,) = await chain.logs(5, 5, [ADDRESS], [TOPIC])
            assert found.transaction_hash == b"\x09" * 32


TAKEN = "0x" + "01" * 32


@pytest.mark.parametrize("text", ["invalid sender", "insufficient funds", "nonce too low"])
async def test_transaction_refused_by_one_of_three_is_accepted(serve: Serve, text: str) -> None:
    refusal = error(-32000, text)
    servers = [await serve(answering({"eth_sendRawTransaction": one})) for one in (refusal, TAKEN, TAKEN)]
    async with await EvmChain.connect(ALPHA, [one.url for one in servers], agreement=2) as chain:
        await chain.broadcast(b"\x02raw")
    assert [one.asked("eth_sendRawTransaction") for one in servers] == [1, 1, 1]


@pytest.mark.parametrize("is_known", [True, False])
async def test_transaction_known_to_one_node_counts_for_its_endpoints(serve: Serve, *, is_known: bool) -> None:
    known = {"eth_getTransactionByHash": {"hash": TAKEN} if is_known else None}
    first = await serve(answering({"eth_sendRawTransaction": TAKEN} | known))
    second = await serve(answering({"eth_sendRawTransaction": error(-32000, "already known")} | known))
    async with await EvmChain.connect(ALPHA, [first.url, second.url], agreement=2) as chain:
        if is_known:
            await chain.broadcast(b"\x02raw")
        else:
            with pytest.raises(TransientError, match="2 endpoints must agree on eth_sendRawTransaction"):
                await chain.broadcast(b"\x02raw")


async def test_transaction_is_refused_by_enough_equal_refusals(serve: Serve) -> None:
    refusals = [error(-32000, "invalid sender"), TAKEN, error(-32000, "invalid sender: of another chain")]
    urls = [(await serve(answering({"eth_sendRawTransaction": one}))).url for one in refusals]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        with pytest.raises(TerminalError, match="invalid sender"):
            await chain.broadcast(b"\x02raw")


async def test_single_error_is_no_answer_without_agreement(serve: Serve) -> None:
    answers = [error(3, "execution reverted", "0xdead"), "0x01", "0x02"]
    urls = [(await serve(answering({"eth_call": one}))).url for one in answers]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        with pytest.raises(TransientError, match="must agree on eth_call"):
            await chain.call(Call(to=ADDRESS, data=b""))


async def test_too_few_answers_name_the_silent_endpoints(serve: Serve) -> None:
    sound, down, gone = await serve(chain_up_to(9)), await serve(chain_up_to(9)), await serve(chain_up_to(9))
    urls, origin = [one.url for one in (sound, down, gone)], "rpcUrls of chain 'alpha'"
    async with await EvmChain.connect(ALPHA, urls, agreement=2, origin=origin) as chain:
        await down.stop()
        await gone.stop()
        for ask, method in ((chain.head, "eth_getBlockByNumber"), (partial(chain.block, 5), "eth_getBlockByNumber")):
            with pytest.raises(TransientError, match=f"chain {ALPHA}: 2 endpoints must agree on {method}") as failed:
                await ask()
            assert all(f"{one.url}: " in str(failed.value) for one in (down, gone)), failed.value
            assert str(failed.value).endswith(f"see {origin}")


async def test_endpoints_agree_on_calls_at_different_heads(serve: Serve) -> None:
    def simulating(number: int) -> Behaviour:
        calls = [{"gasUsed": "0x5208", "status": "0x1", "returnData": "0x"}]
        return answering({"eth_simulateV1": [{"number": hex(number), "calls": calls}]})

    urls = [(await serve(simulating(number))).url for number in (8, 9)]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        (found,) = await chain.simulate([Call(to=ADDRESS, data=b"")], ADDRESS)
    assert (found.gas, found.succeeded) == (21_000, True)


async def test_slow_endpoint_is_not_awaited_after_agreement(serve: Serve) -> None:
    tardy = await serve(slow(chain_up_to(9), LONG))
    urls = [tardy.url, *[(await serve(chain_up_to(9))).url for _ in range(2)]]
    endpoints = Endpoints(ALPHA, urls, EndpointPolicy(agreement=2, request_seconds=LONG))
    async with EvmChain(ALPHA, endpoints) as chain:
        block = await chain.block(5)
    assert block is not None


def finalized_at(height: int) -> Behaviour:
    return lambda _method, params: {
        "result": {
            "number": hex(height if params == ["finalized", False] else 99),
            "hash": "0x" + "01" * 32,
            "parentHash": "0x" + "00" * 32,
            "timestamp": "0x1",
        }
    }


@pytest.mark.parametrize(("agreement", "height"), [(1, 90), (2, 64), (3, 32)])
async def test_finality_requires_agreement(serve: Serve, agreement: int, height: int) -> None:
    urls = [(await serve(finalized_at(number))).url for number in (90, 32, 64)]
    async with await EvmChain.connect(ALPHA, urls, agreement=agreement) as chain:
        assert await chain.height_of("finalized") == height


async def test_block_is_not_missing_without_a_majority(serve: Serve) -> None:
    urls = [(await serve(chain_up_to(9))).url, (await serve(chain_up_to(3))).url]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        with pytest.raises(TransientError, match="must agree"):
            await chain.block(5)


BLOCK_5 = {"number": "0x5", "hash": f"0x{1:064x}", "parentHash": "0x" + "00" * 32, "timestamp": "0x1"}
HALF_ANSWERS: dict[str, tuple[Callable[[EvmChain], Awaitable[Any]], Any, list[Answer]]] = {
    "view": (
        lambda chain: read_view(chain, ROUTER, ADDRESS, "hasReceived", bytes(32), 1),
        {"result": f"0x{1:064x}"},
        [
            {"result": "0x"},
            {"result": "0x" + "00" * 31},
            {"result": None},
            {"result": 7},
            error(-32601, "no such method"),
        ],
    ),
    "block": (
        lambda chain: chain.block(5),
        {"result": BLOCK_5},
        [{"result": {}}, {"result": {**BLOCK_5, "number": "0x6"}}, {"result": {**BLOCK_5, "hash": "zz"}}],
    ),
    "receipt": (
        lambda chain: chain.receipt(b"\x09" * 32),
        {"result": RECEIPT},
        [{"result": {**RECEIPT, "transactionHash": "0x" + "08" * 32}}, {"result": {"status": "0x1"}}, {"result": "0x"}],
    ),
    "logs": (
        lambda chain: chain.logs(1, 9, [ADDRESS], [TOPIC]),
        {"result": [LOG]},
        [{"result": None}, {"result": [{**LOG, "blockNumber": "0xff"}]}, {"result": [{"address": ADDRESS}]}],
    ),
    "nonce": (lambda chain: chain.transaction_count(ADDRESS), {"result": "0x2"}, [{"result": None}, {"result": "2"}]),
    "code": (lambda chain: chain.code(ADDRESS), {"result": "0x01"}, [{"result": None}, {"result": "01"}]),
}


@pytest.mark.parametrize("asked", HALF_ANSWERS)
async def test_undecodable_answer_rests_its_endpoint(serve: Serve, asked: str) -> None:
    ask, truth, half_answers = HALF_ANSWERS[asked]
    for half in half_answers:
        liar, honest = await serve(lambda *_, half=half: half), await serve(lambda *_: truth)
        async with await EvmChain.connect(ALPHA, [liar.url, honest.url], try_seconds=0.1) as chain:
            assert await ask(chain) is not None
            assert [state.is_up for state in chain.endpoint_states] == [False, True]
        async with await EvmChain.connect(ALPHA, [liar.url], try_seconds=0.1) as chain:
            with pytest.raises(UnansweredError):
                await ask(chain)


async def test_undecodable_answer_has_no_vote(serve: Serve) -> None:
    blank, truth = (lambda *_: {"result": "0x"}), (lambda *_: {"result": f"0x{1:064x}"})
    urls = [(await serve(behaviour)).url for behaviour in (blank, truth, blank, truth)]
    async with await EvmChain.connect(ALPHA, urls, agreement=2) as chain:
        assert await read_view(chain, ROUTER, ADDRESS, "hasReceived", bytes(32), 1) is True
    async with await EvmChain.connect(ALPHA, urls[:3], agreement=2) as chain:
        with pytest.raises(UnansweredError):
            await read_view(chain, ROUTER, ADDRESS, "hasReceived", bytes(32), 1)
