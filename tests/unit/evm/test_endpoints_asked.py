"""The one endpoint policy, without any transport: what it asks next of whom, and what answers mean. Time is moved by hand."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from bridge.evm.endpoint_policy import (
    REST_SECONDS,
    Endpoint,
    EndpointPolicy,
    EndpointPool,
    KnownBlock,
    votes_of,
)
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


class Transport:
    """A client that blocks: nodes answer from memory, and waiting moves the clock."""

    def __init__(self, policy: EndpointPolicy | None = None, **nodes: Behaviour) -> None:
        self.now = 100.0
        self.nodes = {f"http://{name}": node for name, node in nodes.items()}
        self.asked: defaultdict[str, list[str]] = defaultdict(list)
        self.waits: list[float] = []
        self.pool = EndpointPool(
            CHAIN, list(self.nodes), policy or EndpointPolicy(), clock=lambda: self.now, client=self
        )

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    async def ask(self, endpoint: Endpoint, request: Request) -> Any:
        self.asked[endpoint.url].append(request.method)
        return self.nodes[endpoint.url](request)

    def result(self, request: Request = BALANCE, **options: Any) -> Any:
        return asyncio.run(self.pool.request(request, **options))


def test_first_endpoint_is_preferred_after_its_rest() -> None:
    transport = Transport(first=failing(TransientRpcError("down")), second=sound)
    assert transport.result() == "0x2a"
    transport.nodes[FIRST] = sound
    transport.asked.clear()
    transport.result()
    assert list(transport.asked) == [SECOND], "it rests"
    transport.now += REST_SECONDS
    transport.asked.clear()
    transport.result()
    assert transport.asked == {FIRST: ["eth_chainId", "eth_getBalance"]}, (
        "another node may stand behind the URL by then"
    )


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
    transport = Transport(first=failing(error), second=sound)
    if asks_second:
        assert transport.result() == "0x2a"
    else:
        with pytest.raises(type(error)):
            transport.result()
    assert [state.is_up for state in transport.pool.states] == [not rests, True]
    assert bool(transport.asked[SECOND]) is asks_second


def test_unknown_tag_is_no_fault_of_the_node() -> None:
    unknown = failing(error_of({"code": -32602, "message": "invalid argument 0"}, FINALIZED, "here"))
    transport = Transport(first=unknown, second=sound)
    assert transport.result(FINALIZED)["hash"] == "0x" + OURS.hex()
    transport.nodes[SECOND] = unknown
    with pytest.raises(RefusedError):
        transport.result(FINALIZED)
    assert all(state.is_up for state in transport.pool.states)


def test_retry_after_is_respected() -> None:
    transport = Transport(first=failing(RateLimitedError("slowly", 12.0)), second=sound)
    for _ in range(3):
        assert transport.result() == "0x2a"
        transport.now += 3.0
    assert transport.asked[FIRST] == ["eth_chainId", "eth_getBalance"]
    transport.now += 3.0
    transport.nodes[FIRST] = sound
    transport.result()
    assert len(transport.asked[FIRST]) == 4


@pytest.mark.parametrize(("rest_seconds", "waits"), [(20.0, [12.0]), (5.0, [])])
def test_request_waits_as_long_as_the_policy_allows(rest_seconds: float, waits: list[float]) -> None:
    transport = Transport(EndpointPolicy(rest_seconds=rest_seconds), first=failing(RateLimitedError("slowly", 12.0)))
    with pytest.raises(RateLimitedError, match="no RPC endpoint of chain 5 answers"):
        transport.result()
    assert transport.waits == waits


def test_request_is_repeated_with_growing_pauses() -> None:
    transport = Transport(EndpointPolicy(try_seconds=3.0), first=failing(TransientRpcError("down")))
    with pytest.raises(TransientRpcError):
        transport.result()
    assert transport.waits == [0.1, 0.2, 0.4, 0.8]


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
    transport = Transport(first=failing(error))
    with pytest.raises(type(error)):
        transport.result(catches_up=catches_up)
    assert transport.asked[FIRST].count("eth_getBalance") == tries


@pytest.mark.parametrize(
    ("theirs", "why"),
    [(None, "is behind: it has no block 9 yet"), (OTHERS, "is on another branch: its block 9 has hash 0x0202")],
)
def test_another_endpoint_must_have_the_block_that_we_have(theirs: bytes | None, why: str) -> None:
    transport = Transport(EndpointPolicy(try_seconds=0.0), first=sound, second=lambda one: sound(one, block=theirs))
    transport.result()
    transport.pool.remember(KnownBlock(9, OURS))
    transport.nodes[FIRST] = failing(TransientRpcError("down"))
    with pytest.raises(TransientRpcError, match=f"http://second {why}"):
        transport.result()
    transport.nodes[SECOND] = sound
    transport.now += REST_SECONDS
    assert transport.result() == "0x2a"


@pytest.mark.parametrize("final", [None, KnownBlock(9, OURS), KnownBlock(7, OURS)])
def test_other_branch_is_followed_unless_finality_differs(final: KnownBlock | None) -> None:
    policy = EndpointPolicy(try_seconds=0.0, branch_seconds=30.0)
    transport = Transport(policy, first=sound, second=lambda one: sound(one, block=OTHERS))
    transport.result()
    transport.pool.must_have(KnownBlock(9, OURS[:16]), final)
    transport.nodes[FIRST] = failing(TransientRpcError("down"))
    for _ in range(2):
        with pytest.raises(TransientRpcError, match="on another branch"):
            transport.result()
        transport.now += 20.0
    if final is None:
        assert transport.result() == "0x2a"
    else:
        with pytest.raises(TransientRpcError, match=f"on another branch: its block {final.number} "):
            transport.result()


def test_answering_own_branch_resets_the_failover_clock() -> None:
    policy = EndpointPolicy(try_seconds=0.0, branch_seconds=30.0)
    transport = Transport(policy, first=sound, second=lambda one: sound(one, block=OTHERS))
    transport.pool.remember(KnownBlock(9, OURS))
    for _ in range(3):
        transport.nodes[FIRST] = failing(TransientRpcError("down"))
        with pytest.raises(TransientRpcError, match="on another branch"):
            transport.result()
        transport.now += 20.0
        transport.nodes[FIRST] = sound
        transport.result()


def test_a_block_is_gone_only_if_each_endpoint_has_another_one() -> None:
    transport = Transport(first=lambda one: sound(one, block=OTHERS), second=lambda one: sound(one, block=OTHERS))
    block = KnownBlock(9, OURS)
    assert asyncio.run(transport.pool.anyone_has(block)) is False
    transport.nodes[SECOND] = failing(TransientRpcError("down"))
    with pytest.raises(TransientRpcError, match="not all endpoints report a different block at that height: down"):
        asyncio.run(transport.pool.anyone_has(block))
    transport.nodes[SECOND] = sound
    assert asyncio.run(transport.pool.anyone_has(block)) is True
    transport.asked.clear()
    transport.now += REST_SECONDS
    transport.result()
    assert transport.asked[SECOND][-1] == "eth_getBalance", "and only who has it counts from then on"
    assert "eth_getBalance" not in transport.asked[FIRST]


def test_a_liar_with_another_chains_id_is_asked_for_nothing_else() -> None:
    transport = Transport(first=lambda one: sound(one, chain=1), second=sound)
    assert transport.result() == "0x2a"
    assert transport.asked[FIRST] == ["eth_chainId"]


def test_equal_answers_are_counted_and_refusals_by_meaning() -> None:
    refusals = [error_of({"code": 3, "message": text, "data": "0xab"}, BALANCE, "here") for text in ("one", "another")]
    votes = votes_of(["0x1", *refusals, "0x1", "0x1", "0x2"], str)
    assert votes == [["0x1"] * 3, refusals, ["0x2"]]


@for_each_case("name", ["requests_per_second", "batch", "agreement"])
def test_a_policy_of_nothing_is_refused(name: str) -> None:
    nothing: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"{name} is 0; it must be greater than 0"):
        EndpointPolicy(**nothing)
