"""A simulated JSON-RPC endpoint over a simulated chain, which can be told to misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.transport import HttpExchange
from bridge.protocol.contracts import ROUTER
from indexer.model.settings import INDEX_POLICY, SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader
from tests.unit.indexer.logs import ALPHA, BETA, EMITTERS
from tests.unit.indexer.world import SimulatedChain, routed, sent_message

URL = "http://simulated"
Misbehaviour = Callable[[str, Any], httpx.Response | None]


async def no_wait(_seconds: float) -> None:
    """Stands in for `asyncio.sleep`, so that retries do not wait."""


class SimulatedExchange(HttpExchange):
    """Sends requests to a simulated endpoint."""

    def __init__(self, url: str, policy: EndpointPolicy, endpoint: Endpoint) -> None:
        super().__init__(url, policy)
        self.endpoint = endpoint

    async def _fetch(self, body: bytes) -> tuple[int, str | None, bytes]:
        response = self.endpoint.handle(httpx.Request("POST", URL, content=body))
        return response.status_code, response.headers.get("retry-after"), response.content


class RpcFaultError(Exception):
    """What the endpoint answers as a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Endpoint:
    """Answers for `chain`.

    Attributes:
        misbehave: is asked first, with method and parameters; an answer of its own goes out instead.
        afterwards: is called with method and parameters once the answer is made.
        max_range: blocks in one `eth_getLogs`; more is an error.
        final: the block that is final.
        timestamps: whether logs carry their block's time.
        answers_ranges: the chain of another node, which answers instead when logs of a range are asked for, and whether it
            answers the whole HTTP request then.
        batches: whether requests may travel together.
        faults: code and text of the error that a method, or a first parameter such as a block's tag, always gets.
        call_result: what `eth_call` answers.
        blooms: whether headers have the filter of their block's logs, or one that is empty, as on some chains.
        requests: HTTP requests that came.
    """

    chain: SimulatedChain
    chain_id: int | None = None
    misbehave: Misbehaviour = lambda _method, _params: None
    afterwards: Callable[[str, Any], None] = lambda _method, _params: None
    max_range: int = 1_000_000
    final: int | None = None
    timestamps: bool = True
    answers_ranges: tuple[SimulatedChain, bool] | None = None
    batches: bool = True
    faults: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    call_result: str = "0x"
    blooms: bool = True
    requests: int = 0
    calls: list[str] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        document = json.loads(request.content)
        self.requests += 1
        if isinstance(document, list):
            if not self.batches:
                return httpx.Response(400, text="one at a time")
            others = [answer for item in document if (answer := self.misbehave(item["method"], item["params"]))]
            lagging = self.answers_ranges is not None and self.answers_ranges[1] and any(map(_of_range, document))
            return (others or [httpx.Response(200, json=[self._answer(item, lagging=lagging) for item in document])])[0]
        answer = self.misbehave(document["method"], document["params"])
        response = answer or httpx.Response(200, json=self._answer(document))
        self.afterwards(document["method"], document["params"])
        return response

    def _answer(self, request: dict[str, Any], *, lagging: bool = False) -> dict[str, Any]:
        self.calls.append(request["method"])
        node = self
        if self.answers_ranges is not None and (lagging or _of_range(request)):
            node = replace(self, chain=self.answers_ranges[0], answers_ranges=None)
        try:
            result = node._result(request["method"], request["params"])
        except RpcFaultError as error:
            return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": error.code, "message": str(error)}}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    def _result(self, method: str, params: list[Any]) -> Any:
        for asked in (method, *map(str, params[:1])):
            if asked in self.faults:
                raise RpcFaultError(*self.faults[asked])
        return getattr(self, "_" + method)(*params)

    def _eth_call(self, _call: dict[str, str], _block: dict[str, Any]) -> str:
        return self.call_result

    def _eth_chainId(self) -> str:
        return hex(self.chain_id or self.chain.chain_id)

    def _eth_getBlockByNumber(self, tag: str, _full: bool) -> dict[str, Any] | None:
        if tag == "finalized":
            if self.final is None:
                return None
            number = self.final
        else:
            number = self.chain.head if tag == "latest" else int(tag, 16)
        if number > self.chain.head:
            return None
        return {
            "number": hex(number),
            "hash": "0x" + self.chain.blocks[number].hash.hex(),
            "parentHash": "0x" + (self.chain.blocks[number - 1].hash if number else bytes(32)).hex(),
            "timestamp": hex(self.chain.blocks[number].time),
            "logsBloom": "0x" + (_bloom(self.chain.logs(number, number)) if self.blooms else bytes(256)).hex(),
        }

    def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        if "blockHash" in query:
            hashes = ["0x" + block.hash.hex() for block in self.chain.blocks]
            if query["blockHash"] not in hashes:
                raise RpcFaultError(-32000, "unknown block")
            first = last = hashes.index(query["blockHash"])
        else:
            first, last = int(query["fromBlock"], 16), int(query["toBlock"], 16)
            if last - first + 1 > self.max_range:
                raise RpcFaultError(-32005, f"block range too large, max is {self.max_range}")
        logs = self.chain.logs(first, min(last, self.chain.head))
        addresses = query["address"] if isinstance(query["address"], list) else [query["address"]]
        wanted = query.get("topics", [None])[0]
        logs = [log for log in logs if log["address"] in addresses and (not wanted or log["topics"][0] in wanted)]
        if not self.timestamps:
            for log in logs:
                del log["blockTimestamp"]
        return logs


@dataclass(slots=True)
class WithRouter(Endpoint):
    """Answers `eth_call` as the router would: from what really happened on the chain.

    Attributes:
        pruned_below: blocks whose state is gone.
        asked: blocks at which it was asked.
    """

    pruned_below: int = 0
    asked: list[int] = field(default_factory=list)

    def _result(self, method: str, params: list[Any]) -> Any:
        for asked in (method, *map(str, params[:1])):
            if asked in self.faults:
                raise RpcFaultError(*self.faults[asked])
        return getattr(self, "_" + method)(*params)

    def _eth_call(self, call: dict[str, str], block: dict[str, Any]) -> str:
        hashes = ["0x" + known.hash.hex() for known in self.chain.blocks]
        if block["blockHash"] not in hashes or not block["requireCanonical"]:
            raise RpcFaultError(-32000, "header for hash not found")
        number = hashes.index(block["blockHash"])
        self.asked.append(number)
        if number < self.pruned_below:
            raise RpcFaultError(-32000, "missing trie node 0xabc (path ) state 0xdef is not available")
        data = bytes.fromhex(call["data"][2:])
        (other,) = decode(["uint64"], data[4:])
        sent = data[:4] == ROUTER.selector("sentTo")
        ids = [
            values["message_id"]
            for known in self.chain.blocks[: number + 1]
            for name, values in known.events
            if name == ("MessageIdCreated" if sent else "MessageExecuted")
        ]
        at_this_lane = other == (BETA if sent else ALPHA)
        bits = 32 if sent else 192
        total = sum(int.from_bytes(one, "big") for one in ids) % 2**bits if at_this_lane else 0
        return "0x" + encode(["uint64", f"uint{bits}"], [len(ids) * at_this_lane, total]).hex()


def _bloom(logs: list[dict[str, Any]]) -> bytes:
    """The filter as nodes make it (Ethereum yellow paper, 4.4.1)."""
    bits = 0
    for text in (text for log in logs for text in (log["address"], *log["topics"])):
        digest = keccak(hexstr=text)
        for start in (0, 2, 4):
            bits |= 1 << (int.from_bytes(digest[start : start + 2], "big") & 2047)
    return bits.to_bytes(256, "big")


def _of_range(request: dict[str, Any]) -> bool:
    return request["method"] == "eth_getLogs" and "fromBlock" in request["params"][0]


def chain_of(blocks: int, *, every: int = 1) -> SimulatedChain:
    """A chain with a routed message in every so many blocks."""
    chain = SimulatedChain(ALPHA)
    for number in range(1, blocks + 1):
        chain.mine(*([routed(sent_message(number))] if number % every == 0 else []))
    return chain


def chain_copy(chain: SimulatedChain, last: int, *, branch: int = 0) -> SimulatedChain:
    """The chain up to a block, as a node sees it that goes its own way from there."""
    copy = SimulatedChain(ALPHA, branch=branch)
    copy.blocks = chain.blocks[: last + 1]
    return copy


def truth(chain: SimulatedChain) -> list[tuple[int, bytes]]:
    """Block and block hash of each event of a chain."""
    return [(number, block.hash) for number, block in enumerate(chain.blocks) for _ in block.events]


def reader_of(
    endpoint: Endpoint | dict[str, Endpoint],
    limits: SourceLimits,
    clock: Callable[[], float] = lambda: 0.0,
    endpoints: EndpointPolicy = INDEX_POLICY,
) -> ChainReader:
    """A reader that talks to one endpoint, or to several by URL."""
    by_url = endpoint if isinstance(endpoint, dict) else {URL: endpoint}
    chain = next(iter(by_url.values())).chain
    config = ChainConfig(
        chain_id=chain.chain_id,
        urls=tuple(by_url),
        start_block=0,
        emitters=EMITTERS[chain.chain_id],
        endpoints=endpoints,
    )

    def connect(url: str, policy: EndpointPolicy) -> SimulatedExchange:
        return SimulatedExchange(url, policy, by_url[url])

    return ChainReader(config, limits, clock=clock, connect=connect)
