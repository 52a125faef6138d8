"""What users of comparable systems reported of nodes and providers, tried on the relayer's observer over a real socket.

Reports that have their test elsewhere: an endpoint of another chain at start and after a failover, and a chain without
EIP-1559 (`tests/unit/evm/test_endpoints.py`, `tests/unit/cli/test_doctor.py`); refused batches (`test_chain_batches.py`); a
lower head and hidden logs at the index (`tests/unit/indexer/test_chain.py`); times of Kafka's records
(`tests/unit/streams/test_publisher.py`).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from bridge.evm.chain import EvmChain
from bridge.evm.finality import FinalityRule
from bridge.evm.rpc_answers import range_hint
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.ports import TransientError, UnansweredError
from bridge.relayer.completeness import Completeness
from bridge.relayer.observer import Observer
from bridge.relayer.seen_capacity import SeenCapacity
from indexer.sources.position import ChainPosition
from tests.support.simulation import World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS, ROUTER_ADDRESS
from tests.support.simulation.node import SimulatedNode
from tests.support.stores import memory_store
from tests.unit.evm.conftest import Serve
from tests.unit.evm.rpc_server import Answer, error
from tests.unit.indexer.endpoint import Endpoint, chain_of, reader_of
from tests.unit.indexer.test_chain import LIMITS

ALPHA, BETA = 31337, 31338
COMPLETENESS = 60.0  # seconds between two comparisons with the router's count
Changed = Callable[[str, list[Any], Any], Answer | None]


class HandClock:
    """Time that goes on when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000.0

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Case:
    """A simulated chain behind one endpoint on a real socket, whose answers a test changes, and its observer."""

    def __init__(self, *, confirmations: int = 2, finality: FinalityTag | None = None) -> None:
        self.world = World()
        self.chain = self.world.chains[ALPHA]
        self.store = memory_store()
        self.clock = HandClock()
        self.changed: Changed = lambda _method, _params, _honest: None
        self._node = SimulatedNode(self.chain)
        self._finality = FinalityRule(confirmations, finality)
        self.observer: Observer

    async def behave(self, method: str, params: list[Any]) -> Answer:
        honest = await self._node.ask(method, params)
        return self.changed(method, params, honest) or honest

    def observe(self, chain: EvmChain) -> None:
        self.observer = Observer(
            chain,
            ROUTER_ADDRESS,
            [SimulatedAdapter(gmp, {}) for gmp in GMPS],
            self.store.observations,
            self.clock,
            start_block=0,
            finality=self._finality,
            block_range=1_000,
            asset_classes=(),
            capacity=SeenCapacity(self.store.outbox, None, self.clock),
            completeness=Completeness(
                chain, ROUTER_ADDRESS, [BETA], self.store.observations, self.clock, every=COMPLETENESS
            ),
            found=lambda _destination: None,
        )

    async def look(self, times: int = 6) -> int:
        """Looks at the chain some times; returns how many looks failed for a reason that may pass."""
        failed = 0
        for _ in range(times):
            try:
                await self.observer.step()
            except TransientError:
                failed += 1
        return failed

    @property
    def recorded(self) -> list[str]:
        """The ids of the deliveries that wait."""
        return [one.event_id for one in self.store.outbox.listed(limit=1_000) if one.orphaned_at is None]


async def observed(serve: Serve, case: Case, **policy: Any) -> EvmChain:
    server = await serve(case.behave, chain_id=ALPHA)
    chain = await EvmChain.connect(ALPHA, [server.url], try_seconds=0.01, **policy)
    case.observe(chain)
    return chain


@pytest.mark.parametrize(
    "answer",
    [{"result": None}, error(-32602, "Invalid params: unknown block tag finalized"), error(-32601, "not supported")],
)
async def test_finality_tag_that_a_chain_lacks_names_the_remedy(serve: Serve, answer: Answer) -> None:
    """A chain without `finalized` and `safe` is read by confirmations; the tag in its deployments file is an error."""
    case = Case(finality="finalized")
    case.changed = lambda _method, params, _honest: answer if params[:1] == ["finalized"] else None
    async with await observed(serve, case):
        case.world.send(ALPHA, BETA)
        case.chain.mine(20)
        with pytest.raises(UnansweredError, match="set confirmations and leave finality out"):
            await case.observer.step()
        assert case.recorded == []
        case.observer._finality = FinalityRule(2)
        await case.look()
    assert len(case.recorded) == 1


async def test_head_that_goes_back_by_two_orphans_nothing(serve: Serve) -> None:
    """Behind a load balancer, a node two blocks late answers now and then. That looked like a reorg."""
    case = Case(confirmations=0)
    behind = 0

    def late(method: str, params: list[Any], _honest: Any) -> Answer | None:
        if method != "eth_getBlockByNumber" or not behind:
            return None
        known = case.chain.height - behind
        if params[0] == "latest":
            header = case.chain.header(known)
            assert header is not None
            return {"result": case._node._block_json(header)}
        return {"result": None} if int(params[0], 16) > known else None

    case.changed = late
    async with await observed(serve, case):
        case.chain.mine(5)
        case.world.send(ALPHA, BETA)
        case.chain.mine()
        await case.look()
        (recorded,) = case.recorded
        position = case.store.observations.final_height(ALPHA)
        for _ in range(3):
            behind = 2
            await case.look()
            assert case.recorded == [recorded]
            assert case.store.observations.final_height(ALPHA) == position
            behind = 0
            await case.look()
        behind = 2
        await case.look()
        case.clock.seconds += 6  # a chain that stays shorter has been rolled back
        await case.look()
        assert case.store.observations.final_height(ALPHA) == position - 2


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("eth_getLogs range is too large, max is 10k blocks", 10_000),
        ("Query returned more than 20000 results. Try with this block range [0x1, 0x64].", 100),
        ("block range extends beyond the maximum of 500", 500),
    ],
)
@pytest.mark.parametrize("code", [-32000, -32005, -32602])
async def test_range_error_in_new_words_is_split(serve: Serve, code: int, text: str, hint: int) -> None:
    case = Case()

    def limited(method: str, params: list[Any], _honest: Any) -> Answer | None:
        if method != "eth_getLogs":
            return None
        span = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16)
        return error(code, text) if span > 4 else None

    case.changed = limited
    async with await observed(serve, case):
        case.world.send(ALPHA, BETA)
        case.chain.mine(60)
        assert await case.look() == 0
    assert len(case.recorded) == 1
    assert range_hint(text) == hint


async def test_resting_head_is_asked_for_no_range_backwards(serve: Serve) -> None:
    """A node refuses `fromBlock` above `toBlock`; at a resting head an indexer asked for just that, for ever."""
    case = Case()

    def strict(method: str, params: list[Any], _honest: Any = None) -> Answer | None:
        if method != "eth_getLogs" or "fromBlock" not in params[0]:
            return None
        first, last = (int(params[0][name], 16) for name in ("fromBlock", "toBlock"))
        return error(-32602, "fromBlock is after toBlock, or above the head") if first > last else None

    case.changed = strict
    async with await observed(serve, case):
        case.chain.mine(9)
        assert await case.look(12) == 0
        assert await case.look(12) == 0

    def refuse(method: str, params: Any) -> None:
        assert strict(method, params) is None

    with reader_of(Endpoint(chain_of(9), misbehave=refuse), LIMITS) as reader:
        position = ChainPosition.before(0)
        for _ in range(12):
            advance = reader.advance(position)
            position = advance.position if advance is not None else position
    assert position.block == 9


async def test_receipt_that_comes_late_delays_its_message(serve: Serve) -> None:
    case = Case()
    withheld = 8

    def late(method: str, _params: list[Any], _honest: Any) -> Answer | None:
        nonlocal withheld
        if method != "eth_getTransactionReceipt" or withheld == 0:
            return None
        withheld -= 1
        return {"result": None}

    case.changed = late
    async with await observed(serve, case):
        case.world.send(ALPHA, BETA)
        case.chain.mine(9)
        await case.look(3)
        assert case.recorded == []
        await case.look(30)
    assert (len(case.recorded), withheld) == (1, 0)


async def test_receipt_needs_no_fields_that_are_not_read(serve: Serve) -> None:
    """Without `effectiveGasPrice` and with a rollup's own fields it is one; without `status` it says nothing of success."""
    case = Case()
    more: dict[str, Any] = {"l1Fee": "0x1", "l1BatchNumber": None, "root": "0x", "type": "0x7e", "gasUsedForL1": []}
    lacking = ""

    def other(method: str, _params: list[Any], honest: Any) -> Answer | None:
        if method != "eth_getTransactionReceipt":
            return None
        return {"result": {name: value for name, value in {**honest["result"], **more}.items() if name != lacking}}

    case.changed = other
    async with await observed(serve, case) as chain:
        sent = case.world.send(ALPHA, BETA)
        case.chain.mine(9)
        receipt = await chain.receipt(sent.transaction_hash)
        assert receipt is not None
        assert receipt.succeeded
        lacking = "status"
        with pytest.raises(UnansweredError, match="unusable form"):
            await chain.receipt(sent.transaction_hash)
        assert await case.look() > 0
        assert case.recorded == []
        lacking = ""
        await case.look()
    assert len(case.recorded) == 1


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


_GZIP = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
_ANSWER = b'{"jsonrpc": "2.0", "id": 0, "result": []}'

NO_ANSWERS: dict[str, Callable[[], Answer]] = {
    "-32005 with HTTP 200": lambda: error(-32005, "daily request count exceeded, request rate limited"),
    "429 without Retry-After": lambda: web.Response(status=429, text="slow down"),
    "HTML with HTTP 200": lambda: web.Response(text="<html>Just a moment...</html>", content_type="text/html"),
    "HTML with HTTP 502": lambda: web.Response(status=502, text="<html>bad gateway</html>", content_type="text/html"),
    "cut in the middle": lambda: web.Response(body=_cut(_ANSWER), content_type="application/json"),
    "cut gzip": lambda: web.Response(body=_cut(gzip.compress(_ANSWER)), headers=_GZIP),
    "plain text called gzip": lambda: web.Response(body=_ANSWER, headers=_GZIP),
    "empty": lambda: web.Response(body=b"", content_type="application/json"),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_answer_that_is_none_delays_and_loses_nothing(serve: Serve, name: str) -> None:
    case = Case()
    spoilt = True
    case.changed = lambda _method, _params, _honest: NO_ANSWERS[name]() if spoilt else None
    async with await observed(serve, case):
        case.world.send(ALPHA, BETA)
        case.chain.mine(9)
        assert await case.look(3) == 3
        spoilt = False
        await case.look()
    assert len(case.recorded) == 1


async def test_answer_in_gzip_is_read(serve: Serve) -> None:
    case = Case()

    def compressed(_method: str, _params: list[Any], honest: Any) -> Answer:
        response = web.json_response({"jsonrpc": "2.0", "id": 0, **honest})
        response.enable_compression(web.ContentCoding.gzip)
        return response

    case.changed = compressed
    async with await observed(serve, case, batch=1):
        case.world.send(ALPHA, BETA)
        case.chain.mine(9)
        assert await case.look() == 0
    assert len(case.recorded) == 1
