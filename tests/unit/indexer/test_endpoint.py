"""Several endpoints of one chain: the index fails over only to one that has what was read, and asks none more than it takes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.evm.endpoint_policy import EndpointPolicy, Pace
from bridge.evm.rpc_answers import (
    TransientRpcError,
)
from indexer.jobs.backfill import TaskPlan
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainReader
from indexer.sources.position import ChainPosition
from tests.unit.indexer.endpoint import Endpoint, chain_copy, chain_of, reader_of
from tests.unit.indexer.world import SimulatedChain, retried, sent_message

FIRST, SECOND = "http://first", "http://second"
LIMITS = SourceLimits(hash_window=16, rollback_patience=5.0, failover_patience=60.0)


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Retries do not wait; how long they would have."""
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("bridge.evm.endpoints.sleep", note)
    return waited


def down(_method: str, _params: Any) -> httpx.Response:
    return httpx.Response(503)


def sound(_method: str, _params: Any) -> None:
    return None


def caught_up(reader: ChainReader) -> ChainPosition:
    position = ChainPosition.before(0)
    while (advance := reader.advance(position)) is not None:
        position = advance.position
    return position


def forked(chain: SimulatedChain, at: int, blocks: int) -> SimulatedChain:
    """The same chain up to a block, and others from there on."""
    other = chain_copy(chain, at, branch=7)
    for number in range(blocks):
        other.mine(retried(sent_message(), number + 1))
    return other


def test_backfill_does_not_fail_over_to_a_laggard() -> None:
    chain = chain_of(400)
    first, laggard = Endpoint(chain, max_range=50, final=400), Endpoint(chain_copy(chain, 150), max_range=50, final=150)
    answers = 0

    def fail_after_some_ranges(method: str, _params: Any) -> httpx.Response | None:
        nonlocal answers
        answers += method == "eth_getLogs"
        return httpx.Response(503) if answers > 6 else None

    first.misbehave = fail_after_some_ranges
    with reader_of({FIRST: first, SECOND: laggard}, LIMITS) as reader:
        assert reader.final() is not None
        with pytest.raises(TransientRpcError, match="http://second is behind: it has no block 400 yet"):
            list(reader.read_final(0, 400))
        first.misbehave = sound
        assert sum(len(table) for table in reader.read_final(0, 400)) == 400


def test_an_endpoint_of_another_fork_halts_no_chain() -> None:
    chain, clock = chain_of(30), Clock()
    first, other = Endpoint(chain, final=10), Endpoint(forked(chain, 5, 40), final=10)
    with reader_of({FIRST: first, SECOND: other}, LIMITS, clock) as reader:
        position = caught_up(reader)
        first.misbehave = down
        for _ in range(3):
            with pytest.raises(TransientRpcError, match="http://second is on another branch: its block 10"):
                reader.advance(position)
            clock.now += 1_000
        first.misbehave = sound
        assert reader.advance(position) is None


@pytest.mark.parametrize("fault", ["another fork", "a lower head", "a head below what was final"])
def test_endpoint_that_lost_blocks_is_replaced(fault: str) -> None:
    chain, clock = chain_of(30), Clock()
    first, second = Endpoint(chain, final=10), Endpoint(chain, final=10)
    with reader_of({FIRST: first, SECOND: second}, LIMITS, clock) as reader:
        position = caught_up(reader)
        first.chain = {
            "another fork": forked(chain, 5, 40),
            "a lower head": chain_copy(chain, 20),
            "a head below what was final": chain_copy(chain, 8),
        }[fault]
        chain.mine()
        for _ in range(3):  # no FinalityViolatedError, and nothing taken back
            try:
                advance = reader.advance(position)
            except TransientRpcError:
                advance = None
            if advance is not None:
                break
            clock.now += 5.0
    assert advance is not None
    assert (advance.first, advance.position.block) == (31, 31)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-32602, "invalid argument 0: hex string without 0x prefix"),
        (-32602, "Invalid params: unknown block tag finalized"),
        (-32601, "the method does not exist"),
    ],
)
def test_unknown_finalized_tag_falls_back_to_a_depth(code: int, text: str) -> None:
    chain = chain_of(100)
    endpoint = Endpoint(chain, faults={"finalized": (code, text)})
    with reader_of(endpoint, SourceLimits(finality_depth=30)) as reader:
        assert caught_up(reader).final_block == 70
        final = reader.final()
    assert final is not None
    assert (final.number, final.hash) == (70, chain.blocks[70].hash)


def test_request_pace_follows_the_endpoint() -> None:
    pace = Pace(4.0)
    assert [pace.wait_from(100.0, requests) for requests in (1, 1, 10, 1)] == [0.0, 0.25, 0.5, 3.0]


def test_a_readers_requests_to_one_url_are_paced_together(waits: list[float]) -> None:
    chain = chain_of(3)
    limits = EndpointPolicy(requests_per_second=0.001)
    for _ in range(2):  # two readers of one process
        with reader_of({"http://paced": Endpoint(chain)}, LIMITS, endpoints=limits) as reader:
            reader.head()
    # eth_chainId and the head, twice: the first does not wait, and each other comes a thousand seconds after the one before.
    assert waits == [1_000.0, 2_000.0, 3_000.0]


@given(
    blocks=st.integers(1, 3_000_000),
    cores=st.integers(1, 64),
    rate=st.none() | st.floats(0.1, 500),
)
def test_the_tasks_of_a_plan_hold_all_ranges_and_none_is_idle(blocks: int, cores: int, rate: float | None) -> None:
    plan = TaskPlan.of(blocks, cores, EndpointPolicy(requests_per_second=rate))
    ranges = -(-blocks // plan.step)
    assert plan.tasks <= ranges <= plan.tasks * plan.at_once
    assert rate is None or plan.tasks <= cores
