"""The endpoints of a chain without a network: which one is asked next, and what answers mean. Time is moved by hand."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.evm.endpoints import REST_SECONDS, Endpoints, KnownBlock, votes_of
from bridge.evm.rpc_answers import (
    NoAccessError,
    RateLimitedError,
    RefusedError,
    Request,
    RpcError,
    StateUnavailableError,
    TransientRpcError,
    UndecodableError,
    UnknownBlockError,
    error_of,
)
from tests.cases import for_each_case

CHAIN = 5
FIRST, SECOND = "http://first", "http://second"
BALANCE = Request("eth_getBalance", ["0xab", "latest"])
FINALIZED = Request("eth_getBlockByNumber", ["finalized", False])
OURS, OTHERS = b"\x01" * 32, b"\x02" * 32

Behaviour = Callable[[Request], Any]


def sound(request: Request, *, block: bytes | None = OURS, chain: int = CHAIN) -> Any:
    """A node that has one block at every height."""
    if request.method == "eth_chainId":
        return hex(chain)
    if request.method == "eth_getBlockByNumber":
        return block and {"number": request.params[0], "hash": "0x" + block.hex()}
    return "0x2a"


def failing(error: RpcError) -> Behaviour:
    def answer(request: Request) -> Any:
        if request.method == "eth_chainId":
            return hex(CHAIN)
        raise error

    return answer


class Node:
    """A world to a node that answers from memory."""

    def __init__(self, world: World, url: str) -> None:
        self._world = world
        self._url = url

    async def ask(self, method: str, params: Sequence[Any]) -> Any:
        self._world.asked[self._url].append(method)
        return {"result": self._world.nodes[self._url](Request(method, params))}

    async def close(self) -> None:
        pass


class World:
    """Nodes by URL, and a clock that waiting moves."""

    def __init__(self, policy: EndpointPolicy | None = None, **nodes: Behaviour) -> None:
        self.now = 100.0
        self.nodes = {f"http://{name}": node for name, node in nodes.items()}
        self.asked: defaultdict[str, list[str]] = defaultdict(list)
        self.waits: list[float] = []
        self.endpoints = Endpoints(
            CHAIN,
            list(self.nodes),
            policy or EndpointPolicy(),
            lambda url, _policy: Node(self, url),
            clock=lambda: self.now,
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def result(self, request: Request = BALANCE, **options: Any) -> Any:
        with patch("bridge.evm.endpoints.sleep", self.sleep):
            return asyncio.run(self.endpoints.request(request, **options))


def test_first_endpoint_is_preferred_after_its_rest() -> None:
    world = World(first=failing(TransientRpcError("down")), second=sound)
    assert world.result() == "0x2a"
    world.nodes[FIRST] = sound
    world.asked.clear()
    world.result()
    assert list(world.asked) == [SECOND], "it rests"
    world.now += REST_SECONDS
    world.asked.clear()
    world.result()
    assert world.asked == {FIRST: ["eth_chainId", "eth_getBalance"]}, "another node may stand behind the URL by then"


@for_each_case(
    "error, rests, asks_second",
    [
        (TransientRpcError("down"), True, True),
        (UndecodableError("half"), True, True),
        (RateLimitedError("slowly"), True, True),
        (NoAccessError("a key"), True, True),
        (error_of({"code": -32601, "message": "no such method"}, BALANCE, "here"), True, True),
        (error_of({"code": -31999, "message": "the moon is full"}, BALANCE, "here"), True, True),
        (UnknownBlockError("not yet"), False, True),
        (StateUnavailableError("pruned"), False, True),
        (error_of({"code": 3, "message": "execution reverted"}, BALANCE, "here"), False, False),
        (error_of({"code": -32000, "message": "nonce too low"}, BALANCE, "here"), False, False),
    ],
)
def test_what_an_error_means_for_the_endpoint_that_gave_it(error: RpcError, rests: bool, asks_second: bool) -> None:
    world = World(first=failing(error), second=sound)
    if asks_second:
        assert world.result() == "0x2a"
    else:
        with pytest.raises(type(error)):
            world.result()
    assert [state.is_up for state in world.endpoints.states] == [not rests, True]
    assert bool(world.asked[SECOND]) is asks_second


def test_unknown_tag_is_no_fault_of_the_node() -> None:
    unknown = failing(error_of({"code": -32602, "message": "invalid argument 0"}, FINALIZED, "here"))
    world = World(first=unknown, second=sound)
    assert world.result(FINALIZED)["hash"] == "0x" + OURS.hex()
    world.nodes[SECOND] = unknown
    with pytest.raises(RefusedError):
        world.result(FINALIZED)
    assert all(state.is_up for state in world.endpoints.states)


def test_retry_after_is_respected() -> None:
    world = World(first=failing(RateLimitedError("slowly", 12.0)), second=sound)
    for _ in range(3):
        assert world.result() == "0x2a"
        world.now += 3.0
    assert world.asked[FIRST] == ["eth_chainId", "eth_getBalance"]
    world.now += 3.0
    world.nodes[FIRST] = sound
    world.result()
    assert len(world.asked[FIRST]) == 4


@pytest.mark.parametrize(("rest_seconds", "waits"), [(20.0, [12.0]), (5.0, [])])
def test_request_waits_as_long_as_the_policy_allows(rest_seconds: float, waits: list[float]) -> None:
    world = World(EndpointPolicy(rest_seconds=rest_seconds), first=failing(RateLimitedError("slowly", 12.0)))
    with pytest.raises(RateLimitedError, match="no RPC endpoint of chain 5 answers"):
        world.result()
    assert world.waits == waits


def test_request_is_repeated_with_growing_pauses() -> None:
    world = World(EndpointPolicy(try_seconds=3.0), first=failing(TransientRpcError("down")))
    with pytest.raises(TransientRpcError):
        world.result()
    assert world.waits == [0.1, 0.2, 0.4, 0.8]


@for_each_case(
    "error, catches_up, tries",
    [
        (UndecodableError("half"), True, 2),
        (UnknownBlockError("not yet"), False, 1),
        (StateUnavailableError("pruned"), True, 1),
        (NoAccessError("a key"), True, 1),
    ],
)
def test_what_will_not_change_is_not_asked_again(error: RpcError, catches_up: bool, tries: int) -> None:
    world = World(first=failing(error))
    with pytest.raises(type(error)):
        world.result(catches_up=catches_up)
    assert world.asked[FIRST].count("eth_getBalance") == tries


@pytest.mark.parametrize(
    ("theirs", "why"),
    [(None, "is behind: it has no block 9 yet"), (OTHERS, "is on another branch: its block 9 has hash 0x0202")],
)
def test_another_endpoint_must_have_the_block_that_we_have(theirs: bytes | None, why: str) -> None:
    world = World(EndpointPolicy(try_seconds=0.0), first=sound, second=lambda one: sound(one, block=theirs))
    world.result()
    world.endpoints.remember(KnownBlock(9, OURS))
    world.nodes[FIRST] = failing(TransientRpcError("down"))
    with pytest.raises(TransientRpcError, match=f"http://second {why}"):
        world.result()
    world.nodes[SECOND] = sound
    world.now += REST_SECONDS
    assert world.result() == "0x2a"


@pytest.mark.parametrize("final", [None, KnownBlock(9, OURS), KnownBlock(7, OURS)])
def test_other_branch_is_followed_unless_finality_differs(final: KnownBlock | None) -> None:
    policy = EndpointPolicy(try_seconds=0.0, branch_seconds=30.0)
    world = World(policy, first=sound, second=lambda one: sound(one, block=OTHERS))
    world.result()
    world.endpoints.must_have(KnownBlock(9, OURS[:16]), final)
    world.nodes[FIRST] = failing(TransientRpcError("down"))
    for _ in range(2):
        with pytest.raises(TransientRpcError, match="on another branch"):
            world.result()
        world.now += 20.0
    if final is None:
        assert world.result() == "0x2a"
    else:
        with pytest.raises(TransientRpcError, match=f"on another branch: its block {final.number} "):
            world.result()


def test_answering_own_branch_resets_the_failover_clock() -> None:
    policy = EndpointPolicy(try_seconds=0.0, branch_seconds=30.0)
    world = World(policy, first=sound, second=lambda one: sound(one, block=OTHERS))
    world.endpoints.remember(KnownBlock(9, OURS))
    for _ in range(3):
        world.nodes[FIRST] = failing(TransientRpcError("down"))
        with pytest.raises(TransientRpcError, match="on another branch"):
            world.result()
        world.now += 20.0
        world.nodes[FIRST] = sound
        world.result()


def test_a_block_is_gone_only_if_each_endpoint_has_another_one() -> None:
    world = World(first=lambda one: sound(one, block=OTHERS), second=lambda one: sound(one, block=OTHERS))
    block = KnownBlock(9, OURS)
    assert asyncio.run(world.endpoints.anyone_has(block)) is False
    world.nodes[SECOND] = failing(TransientRpcError("down"))
    with pytest.raises(TransientRpcError, match="not all endpoints report a different block at that height: down"):
        asyncio.run(world.endpoints.anyone_has(block))
    world.nodes[SECOND] = sound
    assert asyncio.run(world.endpoints.anyone_has(block)) is True
    world.asked.clear()
    world.now += REST_SECONDS
    world.result()
    assert world.asked[SECOND][-1] == "eth_getBalance", "and only who has it counts from then on"
    assert "eth_getBalance" not in world.asked[FIRST]


def test_a_liar_with_another_chains_id_is_asked_for_nothing_else() -> None:
    world = World(first=lambda one: sound(one, chain=1), second=sound)
    assert world.result() == "0x2a"
    assert world.asked[FIRST] == ["eth_chainId"]


def test_equal_answers_are_counted_and_refusals_by_meaning() -> None:
    refusals = [error_of({"code": 3, "message": text, "data": "0xab"}, BALANCE, "here") for text in ("one", "another")]
    votes = votes_of(["0x1", *refusals, "0x1", "0x1", "0x2"])
    assert votes == [["0x1"] * 3, refusals, ["0x2"]]


@for_each_case("name", ["requests_per_second", "batch", "agreement"])
def test_a_policy_of_nothing_is_refused(name: str) -> None:
    nothing: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"{name} is 0; it must be greater than 0"):
        EndpointPolicy(**nothing)
