"""Reading a chain: every answer of an endpoint is understood for what it is, and what is read is of one history."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.evm.rpc_answers import RangeTooLargeError, RpcError, TransientRpcError, UnknownBlockError
from indexer.model.errors import FinalityViolatedError
from indexer.model.settings import SourceLimits
from indexer.sources.blocks import AdaptiveRanges
from indexer.sources.chain import ChainReader
from indexer.sources.position import ChainPosition
from tests.cases import for_each_case
from tests.unit.indexer.endpoint import Endpoint, RpcFaultError, chain_copy, chain_of, no_wait, reader_of, truth
from tests.unit.indexer.logs import ADAPTERS, ALPHA
from tests.unit.indexer.world import SimulatedChain, absorbed, adapter_replaced, retried, routed, sent_message

LIMITS = SourceLimits(hash_window=16, rollback_patience=5.0)


@pytest.fixture(autouse=True)
def _retries_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.evm.endpoints.sleep", no_wait)


def follow(reader: ChainReader, position: ChainPosition) -> tuple[ChainPosition, list[tuple[int, bytes]]]:
    """Everything that is new: block and block hash of each event."""
    found: list[tuple[int, bytes]] = []
    while (advance := reader.advance(position)) is not None:
        position = advance.position
        rows = advance.events.select(["block_number", "block_hash"]).to_pylist()
        found = [row for row in found if row[0] < advance.first]
        found += [(row["block_number"], row["block_hash"]) for row in rows]
    return position, found


@given(
    first=st.integers(0, 50),
    size=st.integers(1, 400),
    limit=st.integers(1, 60),
    hint=st.integers(0, 500),
    proves_less=st.integers(0, 20),
)
def test_any_ranges_leave_out_no_block(first: int, size: int, limit: int, hint: int, proves_less: int) -> None:
    last = first + size - 1
    taken: list[int] = []

    def read(start: int, end: int) -> tuple[int, list[int]]:
        if end - start + 1 > limit:
            raise RangeTooLargeError("too large", hint or None)
        read_to = max(start, end - proves_less)
        return read_to, list(range(start, read_to + 1))

    for _, blocks in AdaptiveRanges(first_step=100).read(first, last, read):
        taken += blocks
    assert taken == list(range(first, last + 1))


@pytest.mark.parametrize("max_range", [1_000_000, 3])
def test_replaced_adapter_is_followed_from_its_block(max_range: int) -> None:
    chain, second = SimulatedChain(ALPHA), b"\xa3" * 20
    of_both = [absorbed(sent_message(1), 1), absorbed(sent_message(2), 1, emitter=second)]
    chain.mine(*of_both)  # not registered yet: nothing of ours
    chain.mine(adapter_replaced(1, second, ADAPTERS[ALPHA]), *of_both)
    for _ in range(5):
        chain.mine(*of_both)
    with reader_of(Endpoint(chain, max_range=max_range), LIMITS) as reader:
        _, found = follow(reader, ChainPosition.before(0))
    assert [number for number, _ in found] == [1, 2, 2, 2, *[number for number in range(3, 8) for _ in range(2)]]


def test_batch_ends_near_its_limit_and_continues() -> None:
    chain = chain_of(300)
    limits = SourceLimits(hash_window=16, max_logs_per_batch=50, max_blocks_per_batch=100)
    with reader_of(Endpoint(chain, max_range=20), limits) as reader:
        first = reader.advance(ChainPosition.before(0))
        assert first is not None
        assert 50 <= len(first.events) <= 100
        assert len(first.events) == first.position.block
        _, found = follow(reader, ChainPosition.before(0))
    assert found == truth(chain)


@settings(max_examples=12, deadline=None)
@given(depths=st.lists(st.tuples(st.integers(1, 14), st.integers(1, 6)), min_size=1, max_size=5))
def test_reader_equals_the_chain_after_any_reorg(depths: list[tuple[int, int]]) -> None:
    chain = chain_of(20)
    now = 0.0
    with reader_of(Endpoint(chain), LIMITS, clock=lambda: now) as reader:
        position, known = follow(reader, ChainPosition.before(0))
        for depth, mined in depths:
            chain.reorganise(depth, *[[retried(sent_message(), depth)] for _ in range(mined)])
            for _ in range(2):  # a head below ours must last before it is believed
                while (advance := reader.advance(position)) is not None:
                    position = advance.position
                    known = [row for row in known if row[0] < advance.first]
                    known += [(row["block_number"], row["block_hash"]) for row in advance.events.to_pylist()]
                now += 10
            assert known == truth(chain)


def test_a_reorg_that_happens_during_a_restart_is_noticed() -> None:
    chain = chain_of(20)
    with reader_of(Endpoint(chain), LIMITS) as reader:
        position, _ = follow(reader, ChainPosition.before(0))
    chain.reorganise(5, *[[routed(sent_message(100 + number))] for number in range(9)])
    restored = ChainPosition.from_json(position.to_json())
    with reader_of(Endpoint(chain), LIMITS) as reader:
        advance = reader.advance(restored)
    assert advance is not None
    assert advance.first == 16
    assert advance.position.block == chain.head


def test_deep_reorg_is_read_again_from_the_final_block() -> None:
    chain = chain_of(60)
    endpoint = Endpoint(chain, final=10)
    with reader_of(endpoint, LIMITS) as reader:
        position, _ = follow(reader, ChainPosition.before(0))
        chain.reorganise(30, *[[] for _ in range(31)])
        advance = reader.advance(position)
    assert advance is not None
    assert advance.first == 11


def test_a_reorg_beyond_finality_is_refused() -> None:
    chain = chain_of(30)
    with reader_of(Endpoint(chain, final=20), LIMITS) as reader:
        position, _ = follow(reader, ChainPosition.before(0))
        chain.reorganise(15, *[[] for _ in range(20)])
        with pytest.raises(FinalityViolatedError, match="no longer has block 20"):
            reader.advance(position)


def test_chain_changing_during_a_read_yields_nothing() -> None:
    chain = chain_of(20)
    endpoint = Endpoint(chain)
    with reader_of(endpoint, LIMITS) as reader:
        position, _ = follow(reader, ChainPosition.before(0))
        for number in range(3):
            chain.mine(routed(sent_message(50 + number)))

        def reorganise_before_logs(method: str, _params: Any) -> None:
            if method == "eth_getLogs":
                endpoint.misbehave = lambda _method, _params: None
                chain.reorganise(2, [retried(sent_message(), 9)], [], [])

        endpoint.misbehave = reorganise_before_logs
        with pytest.raises(UnknownBlockError):
            reader.advance(position)
        advance = reader.advance(position)
    assert advance is not None
    assert [(row["block_number"], row["block_hash"]) for row in advance.events.to_pylist()] == [
        place for place in truth(chain) if place[0] > 20
    ]


@pytest.mark.parametrize("mined", [3, 40])
def test_blocks_that_do_not_follow_are_refused(mined: int) -> None:
    chain = chain_of(20)
    endpoint = Endpoint(chain)
    with reader_of(endpoint, LIMITS) as reader:
        position, known = follow(reader, ChainPosition.before(0))
        for _ in range(mined):
            chain.mine()

        def reorganise_after_the_last_known_block_was_seen(_method: str, params: Any) -> None:
            if params[0] == hex(20):
                endpoint.afterwards = lambda _method, _params: None
                chain.reorganise(mined + 5, *[[retried(sent_message(), 9)] for _ in range(mined + 5)])

        endpoint.afterwards = reorganise_after_the_last_known_block_was_seen
        with pytest.raises(UnknownBlockError):
            reader.advance(position)
        while (advance := reader.advance(position)) is not None:
            position = advance.position
            known = [row for row in known if row[0] < advance.first]
            known += [(row["block_number"], row["block_hash"]) for row in advance.events.to_pylist()]
    assert known == truth(chain)


def test_a_lower_head_is_a_laggard_until_it_has_lasted() -> None:
    chain = chain_of(10)
    now = 0.0
    with reader_of(Endpoint(chain), LIMITS, clock=lambda: now) as reader:
        position, _ = follow(reader, ChainPosition.before(0))
        blocks = chain.blocks[:]
        del chain.blocks[8:]
        assert reader.advance(position) is None
        assert reader.waits
        now = 4.9
        assert reader.advance(position) is None
        chain.blocks[:] = blocks
        assert reader.advance(position) is None  # the head is where it was, and the wait is over
        del chain.blocks[8:]
        assert reader.advance(position) is None
        now = 9.9
        advance = reader.advance(position)
    assert advance is not None
    assert (advance.first, advance.position.block, len(advance.events)) == (8, 7, 0)


FAULTS: dict[str, Any] = {
    "HTTP 500": httpx.Response(500, text="<html>bad gateway</html>"),
    "HTTP 429": httpx.Response(429, text="slow down"),
    "empty body": httpx.Response(200, content=b""),
    "truncated": httpx.Response(200, content=b'{"jsonrpc":"2.0","id":1,"result":[{"address":"0x'),
    "error in HTTP 200": httpx.Response(200, json={"id": 1, "error": {"code": -32603, "message": "internal"}}),
    "null result": httpx.Response(200, json={"id": 1, "result": None}),
    "another's answer": httpx.Response(200, json={"id": 999_999, "result": []}),
    "no logs": httpx.Response(200, json={"id": 1, "result": ["0x00"]}),
}


@pytest.mark.parametrize("most", [None, 45], ids=["whole", "cut off within a block"])
def test_dense_logs_need_one_request_per_range(most: int | None) -> None:
    chain = SimulatedChain(ALPHA)
    for number in range(200):
        chain.mine(*(absorbed(sent_message(2 * number + twice), 1) for twice in range(2)))
    endpoint = CutOff(chain, max_range=25)
    endpoint.most = most
    with reader_of(endpoint, LIMITS) as reader:
        found = [row["block_number"] for table in reader.read_final(1, 200) for row in table.to_pylist()]
    assert found == [number for number in range(1, 201) for _ in range(2)], "nothing twice, and nothing left out"
    refused_and_last = 7  # requests: each size that is too large, the last range's, and the chain's id
    assert len(endpoint.calls) <= 200 / 22 + 1 + refused_and_last, f"one a range: {endpoint.calls}"


class CutOff(Endpoint):
    """Cuts long answers off without a word."""

    most: int | None

    def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        return Endpoint._eth_getLogs(self, query)[: None if "blockHash" in query else self.most]


class Balanced(Endpoint):
    """A balancer that hands the requests of a batch to its nodes by turns; those that lag know of no block hash that they lack."""

    nodes: list[Endpoint]
    turn: Iterator[int]

    def handle(self, request: httpx.Request) -> httpx.Response:
        document = json.loads(request.content)
        requests = document if isinstance(document, list) else [document]
        answers = [self.nodes[next(self.turn)]._answer(item) for item in requests]
        return httpx.Response(200, json=answers if isinstance(document, list) else answers[0])


class Forgetful(Endpoint):
    """Has no logs of a block that it does not know, instead of an error."""

    def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            return Endpoint._eth_getLogs(self, query)
        except RpcFaultError:
            return []


@for_each_case("behind", [1, 20, 250])
@for_each_case("first", [0, 1])
@for_each_case("every", [1, 37])
def test_batch_split_between_nodes_hides_no_logs(behind: int, first: int, every: int) -> None:
    chain = chain_of(400, every=every)  # with and without a log in the last block of a range
    balancer = Balanced(chain)
    lagging = Forgetful(chain_copy(chain, 400 - behind), max_range=50)
    balancer.nodes = [Endpoint(chain, max_range=50), lagging]
    for offset in range(2):
        balancer.turn = itertools.cycle([first, 1 - first] if offset else [1 - first, first])
        with reader_of(balancer, LIMITS) as reader:
            with suppress(RpcError):
                found = [row for table in reader.read_final(0, 400) for row in table["block_number"].to_pylist()]
                assert found == [number for number, _ in truth(chain)]
            balancer.nodes = [balancer.nodes[0], Endpoint(chain, max_range=50)]  # it has caught up
            found = [row for table in reader.read_final(0, 400) for row in table["block_number"].to_pylist()]
            assert found == [number for number, _ in truth(chain)]
            balancer.nodes[1] = lagging


@for_each_case("fault", FAULTS)
def test_no_bad_answer_is_taken_for_no_logs(fault: str) -> None:
    chain = chain_of(30)
    endpoint = Endpoint(chain)
    endpoint.misbehave = lambda method, _params: FAULTS[fault] if method == "eth_getLogs" else None
    with reader_of(endpoint, LIMITS) as reader:
        with pytest.raises(RpcError):
            reader.advance(ChainPosition.before(0))
        endpoint.misbehave = lambda _method, _params: None
        _, found = follow(reader, ChainPosition.before(0))
    assert found == truth(chain)


@settings(max_examples=12, deadline=None)
@given(faults=st.lists(st.sampled_from([None, *FAULTS]), max_size=60))
def test_faults_at_any_request_delay_but_lose_and_double_nothing(faults: list[str | None]) -> None:
    chain = chain_of(40)
    endpoint = Endpoint(chain, max_range=6)
    rest: Iterator[str | None] = iter(faults)
    endpoint.misbehave = lambda _method, _params: FAULTS.get(next(rest, None) or "")
    position = ChainPosition.before(0)
    known: list[tuple[int, bytes]] = []
    with reader_of(endpoint, LIMITS) as reader:
        for _ in range(100):
            try:
                position, found = follow(reader, position)
            except RpcError:
                continue
            known += found
            if position.block == chain.head:
                break
    assert known == truth(chain)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda log: log | {"blockNumber": "0x3e7"}, "logs of other blocks"),
        (lambda log: log | {"address": "0x" + "ee" * 20}, "logs of other contracts"),
    ],
)
def test_logs_that_were_not_asked_for_condemn_the_answer(change: Any, wrong: str) -> None:
    chain = chain_of(4)

    class Lying(Endpoint):
        def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
            return [change(log) for log in Endpoint._eth_getLogs(self, query)]

    endpoint = Lying(chain)
    with reader_of(endpoint, LIMITS) as reader, pytest.raises(TransientRpcError, match=wrong):
        reader.advance(ChainPosition.before(0))
