"""How long a client lets a message live: what its kind needs, and no shorter than its class of assets demands."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import cast

import pytest

from bridge.client import Client, RouteRequest
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import LEAST_TTL, RECOMMENDED_TTL, AssetClass, default_ttl
from bridge.protocol.message import Kind
from bridge.protocol.ports import Chain
from tests.builders import ALPHA, BETA
from tests.cases import for_each_case
from tests.unit.dead_letters.test_review import SENDER, RoutingChain, deployed

RECIPIENT = "0x" + "0a" * 20


@for_each_case("asked, member, routed", [(30, True, 600), (700, True, 700), (0, True, 0), (30, False, 30)])
def test_a_ttl_below_the_minimum_of_the_class_is_raised_to_it(asked: int, member: bool, routed: int) -> None:
    chains = {ALPHA: RoutingChain(ALPHA), BETA: RoutingChain(BETA)}
    document = {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    members = frozenset({(BETA, to_bytes32(RECIPIENT))}) if member else frozenset({(ALPHA, to_bytes32(RECIPIENT))})
    network, classes = Deployment.model_validate(document), [AssetClass(name="asset", min_ttl=600, members=members)]
    connected = {chain_id: cast(Chain, chain) for chain_id, chain in chains.items()}
    request = RouteRequest(
        destination=BETA,
        recipient=RECIPIENT,
        check_recipient=False,
        payload=b"freeze",
        gmps=(Gmp.HYPERLANE,),
        ttl=asked,
    )
    sent = asyncio.run(Client(network, connected, SENDER, classes).route(ALPHA, request))
    assert (sent.message.ttl, [one.ttl for one in chains[ALPHA].sent]) == (routed, [routed])


TTLS = json.loads((Path(__file__).parents[2] / "golden" / "ttl.json").read_text())
"""By kind, what both kits give a message whose sender names no TTL."""


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind < Kind.CANCELLATION], ids=lambda kind: kind.name)
async def test_message_without_a_ttl_gets_that_of_its_kind(kind: Kind) -> None:
    chains = {ALPHA: RoutingChain(ALPHA), BETA: RoutingChain(BETA)}
    document = {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    client = Client(
        Deployment.model_validate(document),
        {chain_id: cast(Chain, chain) for chain_id, chain in chains.items()},
        SENDER,
    )
    request = RouteRequest(
        destination=BETA, recipient=RECIPIENT, check_recipient=False, payload=b"now", gmps=(Gmp.HYPERLANE,), kind=kind
    )
    sent = await client.route(ALPHA, request)
    assert sent.message.ttl == TTLS[kind.name]
    recommended = RECOMMENDED_TTL[kind]
    assert (
        sent.message.ttl == max(recommended, LEAST_TTL)
        or (sent.message.ttl, kind) == (0, Kind.PLAIN)
        or recommended == 0
    )


def test_the_kits_and_the_router_have_the_same_values() -> None:
    root = Path(__file__).parents[3]
    typescript = (root / "dapp" / "src" / "message.ts").read_text()
    table = re.search(r"DEFAULT_TTL: [^{]*\{([^}]*)\}", typescript)
    assert table is not None
    assert {kind.name: default_ttl(kind) for kind in Kind} == TTLS
    assert {name: int(ttl) for name, ttl in re.findall(r"\[Kind\.(\w+)\]: (\d+),", table[1])} == TTLS
    source = (root / "contracts" / "types" / "Message.sol").read_text()
    assert f"uint32 constant MIN_TTL = {LEAST_TTL};" in source
