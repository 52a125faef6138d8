"""What users of comparable systems reported of nodes and providers, tried on the relayer's observer over a real socket.

Reports that have their test elsewhere: an endpoint of another chain at start and after a failover, and a chain without
EIP-1559 (`tests/unit/evm/test_endpoints.py`, `tests/unit/cli/test_doctor.py`); refused batches (`test_chain_batches.py`); a
lower head and hidden logs at the index (`tests/unit/indexer/test_chain.py`); times of Kafka's records
(`tests/unit/streams/test_publisher.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.evm.chain import EvmChain
from bridge.evm.finality import FinalityRule
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.ports import TransientError, UnansweredError
from bridge.relayer.completeness import Completeness
from bridge.relayer.observer import Observer
from bridge.relayer.seen_capacity import SeenCapacity
from tests.support.simulation import World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS, ROUTER_ADDRESS
from tests.support.simulation.node import SimulatedNode
from tests.support.stores import memory_store
from tests.unit.evm.conftest import Serve
from tests.unit.evm.rpc_server import Answer, error

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
        with pytest.raises(UnansweredError, match="can't be decoded"):
            await chain.receipt(sent.transaction_hash)
        assert await case.look() > 0
        assert case.recorded == []
        lacking = ""
        await case.look()
    assert len(case.recorded) == 1
