"""The client over Web3 objects of the user's own: provider, middleware and account do their work, and answers are web3's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from eth_account import Account
from eth_typing import ChecksumAddress
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3 import AsyncWeb3, Web3
from web3.middleware import SignAndSendRawMiddlewareBuilder
from web3.providers import AsyncHTTPProvider, BaseProvider, HTTPProvider
from web3.types import RPCEndpoint, RPCResponse

from bridge.client import BlockingClient, Client, NotIncludedError, RefusedError, transact
from bridge.client.web3_chain import Web3Chain
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.ports import Call, CallRevertedError, InsufficientFundsError, TransientError, UnansweredError
from tests.unit.web.explorer import deployment

CHAIN, *OTHERS = [chain.chain_id for chain in deployment().chains]
ACCOUNT = Account.from_key("0x" + "44" * 32)
TO = "0x" + "0A" * 20
HASH = "0x" + "11" * 32
HEAD = {
    "number": "0x10",
    "hash": HASH,
    "parentHash": "0x" + "22" * 32,
    "timestamp": "0x64",
    "baseFeePerGas": "0x7",
}
LOG = {
    "address": TO,
    "topics": [HASH],
    "data": "0xabcd",
    "blockNumber": "0x10",
    "blockHash": HASH,
    "transactionHash": HASH,
    "transactionIndex": "0x0",
    "logIndex": "0x2",
    "removed": False,
}
RECEIPT = {
    "transactionHash": HASH,
    "transactionIndex": "0x0",
    "blockHash": HASH,
    "blockNumber": "0x10",
    "from": ACCOUNT.address,
    "to": TO,
    "cumulativeGasUsed": "0x5208",
    "gasUsed": "0x5208",
    "effectiveGasPrice": "0x8",
    "contractAddress": None,
    "logs": [LOG],
    "logsBloom": "0x" + "00" * 256,
    "status": "0x1",
    "type": "0x2",
}


class Scripted(BaseProvider):
    """A provider that a dApp wrote itself: it answers from memory, and notes what it was asked."""

    def __init__(self, chain_id: int = CHAIN, **answers: Any) -> None:
        super().__init__()
        self.asked: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {
            "eth_chainId": hex(chain_id),
            "eth_getBlockByNumber": HEAD,
            "eth_getLogs": [LOG],
            "eth_call": "0x01",
            "eth_estimateGas": "0x5208",
            "eth_maxPriorityFeePerGas": "0x1",
            "eth_getTransactionCount": "0x3",
            "eth_getBalance": "0x2a",
            "eth_getTransactionReceipt": RECEIPT,
            "eth_sendRawTransaction": HASH,
            "eth_sendTransaction": HASH,
            **answers,
        }

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        self.asked.append((str(method), params))
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict) and "code" in answer:
            error: Any = answer
            return {"jsonrpc": "2.0", "id": 1, "error": error}
        return {"jsonrpc": "2.0", "id": 1, "result": answer}


@contextmanager
def node(seen: list[str]) -> Iterator[str]:
    """A node that only answers requests with the header of the test's own."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.append(request["method"])
            answers: dict[str, Any] = {"eth_chainId": hex(CHAIN), "eth_getBlockByNumber": HEAD}
            said = self.headers.get("x-key") == "secret"
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answers[request["method"]]}).encode()
            self.send_response(200 if said else 401)
            self.end_headers()
            self.wfile.write(body if said else b"no")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("kind", ["blocking", "async"])
async def test_a_providers_own_headers_are_sent(kind: str) -> None:
    seen: list[str] = []
    headers = {"headers": {"x-key": "secret", "content-type": "application/json"}}
    with node(seen) as url:
        web3: Any = (
            Web3(HTTPProvider(url, request_kwargs=headers))
            if kind == "blocking"
            else AsyncWeb3(AsyncHTTPProvider(url, request_kwargs=headers))
        )
        assert (await Web3Chain(CHAIN, web3).head()).timestamp == 100
        if kind == "async":
            await web3.provider.disconnect()
    assert set(seen) == {"eth_chainId", "eth_getBlockByNumber"}


async def test_what_a_chain_is_asked_goes_through_the_users_web3() -> None:
    chain = Web3Chain(CHAIN, Web3(Scripted()))
    head = await chain.head()
    assert (head.number, head.hash, await chain.height_of("finalized")) == (16, b"\x11" * 32, 16)
    assert await chain.block(16) == head
    (log,) = await chain.logs(1, 16, [TO], [b"\x11" * 32])
    assert (log.topics, log.data, log.log_index) == ((b"\x11" * 32,), b"\xab\xcd", 2)
    assert await chain.call(Call(to=TO, data=b"")) == b"\x01"
    fees = await chain.fees()
    assert (fees.max_fee, fees.priority_fee) == (15, 1)
    assert (await chain.transaction_count(ACCOUNT.address), await chain.pending_count(ACCOUNT.address)) == (3, 3)
    receipt = await chain.receipt(b"\x11" * 32)
    assert receipt is not None
    assert (receipt.succeeded, receipt.block_number, receipt.logs) == (True, 16, (log,))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"code": 3, "message": "execution reverted", "data": "0xdeadbeef"}, CallRevertedError),
        ({"code": -32000, "message": "insufficient funds for gas * price + value"}, InsufficientFundsError),
        ({"code": -32603, "message": "internal error"}, UnansweredError),
        (ConnectionError("nobody is there"), TransientError),
    ],
)
async def test_its_errors_are_those_that_every_chain_has(answer: Any, expected: type[Exception]) -> None:
    chain = Web3Chain(CHAIN, Web3(Scripted(eth_estimateGas=answer)))
    with pytest.raises(expected) as refused:
        await chain.estimate_gas(Call(to=TO, data=b""), ACCOUNT.address)
    if isinstance(refused.value, CallRevertedError):
        assert refused.value.data == bytes.fromhex("deadbeef")


async def test_what_is_not_there_yet_is_none_and_a_block_of_a_tag_is_waited_for() -> None:
    chain = Web3Chain(CHAIN, Web3(Scripted(eth_getBlockByNumber=None, eth_getTransactionReceipt=None)))
    assert await chain.block(99) is None
    assert await chain.receipt(b"\x11" * 32) is None
    with pytest.raises(UnansweredError, match=f"chain {CHAIN} reports no safe block yet"):
        await chain.height_of("safe")


async def test_a_call_that_brings_nothing_says_that_the_deployment_may_be_of_another_network() -> None:
    chain = Web3Chain(CHAIN, Web3(Scripted(eth_call="0x")))
    with pytest.raises(UnansweredError, match=f"{TO} to a call is empty.* is the deployments file of this network"):
        await chain.call(Call(to=TO, data=b"", returns=("uint256",)))


async def test_a_web3_of_another_chain_is_refused_before_anything_else_is_asked() -> None:
    provider = Scripted(999)
    with pytest.raises(DeploymentError, match=f"the Web3 for chain {CHAIN} is connected to chain 999"):
        await Web3Chain(CHAIN, Web3(provider)).balance(ACCOUNT.address)
    assert provider.methods == ["eth_chainId"]


async def test_a_transaction_is_signed_by_the_account_given_and_its_receipt_is_web3s() -> None:
    provider = Scripted()
    receipt = await transact(Web3Chain(CHAIN, Web3(provider)), ACCOUNT, Call(to=TO, data=b"\x01"))
    assert isinstance(receipt["transactionHash"], HexBytes)
    assert (receipt["effectiveGasPrice"], receipt["logs"][0]["data"]) == (8, HexBytes("0xabcd"))
    (raw,) = [params[0] for method, params in provider.asked if method == "eth_sendRawTransaction"]
    assert Account.recover_transaction(raw) == ACCOUNT.address


@pytest.mark.parametrize("signs", ["middleware", "node"])
async def test_without_an_account_the_users_web3_signs_for_its_own(signs: str) -> None:
    provider = Scripted()
    web3 = Web3(provider)
    web3.eth.default_account = ChecksumAddress(ACCOUNT.address)
    if signs == "middleware":
        web3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(ACCOUNT), layer=0)
    receipt = await transact(Web3Chain(CHAIN, web3), None, Call(to=TO, data=b"\x01", value=5))
    assert receipt["status"] == 1
    sent = "eth_sendRawTransaction" if signs == "middleware" else "eth_sendTransaction"
    (params,) = [params for method, params in provider.asked if method == sent]
    if signs == "middleware":
        assert Account.recover_transaction(params[0]) == ACCOUNT.address
    else:
        assert (params[0]["from"], params[0]["value"]) == (ACCOUNT.address, "0x5")


async def test_without_any_account_nothing_is_sent() -> None:
    provider = Scripted()
    with pytest.raises(RefusedError, match="signing requires a key"):
        await transact(Web3Chain(CHAIN, Web3(provider)), None, Call(to=TO, data=b""))
    assert provider.asked == []


async def test_a_transaction_that_no_block_includes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.client.client._INCLUSION_SECONDS", 0.01)
    provider = Scripted(eth_getTransactionReceipt=None)
    with pytest.raises(NotIncludedError, match="was broadcast but not included"):
        await transact(Web3Chain(CHAIN, Web3(provider)), ACCOUNT, Call(to=TO, data=b""))
    (raw,) = [params[0] for method, params in provider.asked if method == "eth_sendRawTransaction"]
    assert HexBytes(keccak(HexBytes(raw)))


def test_both_clients_take_web3s_by_chain_and_name_a_chain_that_was_left_out() -> None:
    quiet = {chain_id: Web3(Scripted(chain_id, eth_getLogs=[])) for chain_id in (CHAIN, *OTHERS)}
    with BlockingClient(deployment(), quiet) as client, pytest.raises(LookupError, match="has created message 0x00"):
        client.find(bytes(32))
    with (
        BlockingClient(deployment(), {CHAIN: quiet[CHAIN]}) as client,
        pytest.raises(LookupError, match=r"has created message 0x00.*, and .* did not answer"),
    ):
        client.find(bytes(32))
    assert isinstance(Client(deployment(), quiet), Client)
