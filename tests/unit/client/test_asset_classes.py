"""A client lets no message about a class of assets live shorter than the class demands."""

from __future__ import annotations

from typing import cast

import pytest

from bridge.client import Client, RouteRequest
from bridge.domain.guarantee import AssetClass
from bridge.domain.ports import Chain
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from tests.builders import ALPHA, BETA
from tests.unit.dead_letters.test_review import SENDER, RoutingChain, deployed

RECIPIENT = "0x" + "0a" * 20


@pytest.mark.requirement("OIP-18", "OIP-33", "OIP-34", "OIP-45", "OIP-46")
@pytest.mark.parametrize(
    ("asked", "member", "routed"), [(30, True, 600), (700, True, 700), (0, True, 0), (30, False, 30)]
)
async def test_a_ttl_below_the_minimum_of_the_class_is_raised_to_it(asked: int, member: bool, routed: int) -> None:
    chains = {ALPHA: RoutingChain(ALPHA), BETA: RoutingChain(BETA)}
    document = {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    members = frozenset({(BETA, to_bytes32(RECIPIENT))}) if member else frozenset({(ALPHA, to_bytes32(RECIPIENT))})
    client = Client(
        Deployment.model_validate(document),
        {chain_id: cast(Chain, chain) for chain_id, chain in chains.items()},
        SENDER,
        [AssetClass(name="regulatory", min_ttl=600, members=members)],
    )
    request = RouteRequest(destination=BETA, recipient=RECIPIENT, payload=b"freeze", gmps=(Gmp.HYPERLANE,), ttl=asked)
    sent = await client.route(ALPHA, request)
    assert (sent.message.ttl, [one.ttl for one in chains[ALPHA].sent]) == (routed, [routed])
