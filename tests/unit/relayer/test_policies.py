"""A sender's choice on its chain counts for the policy of its messages, within the operator's bounds."""

from __future__ import annotations

from typing import Any, cast

import pytest
from eth_abi import encode

from bridge.protocol.contracts import PROFILES, ROUTER
from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.deployment import Deployment
from bridge.protocol.guarantee import ChoiceBounds, IdempotencyStrategy, OperatorPolicies
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Chain
from bridge.relayer.policies import Policies
from tests.builders import ALPHA, BETA, message
from tests.unit.dead_letters.test_review import deployed

NETWORK = Deployment.model_validate(
    {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
)
CHOICE = ["bool", "uint8", "uint8", "uint32", "uint32", "uint32", "bool"]


class ProfilesChain:
    """A chain on which every sender has made the same choice."""

    chain_id = ALPHA

    def __init__(self, *choice: Any) -> None:
        self.choice = choice

    async def call(self, call: Call, **_: object) -> bytes:
        if call.data[:4] == ROUTER.selector("profiles"):
            return encode(["address"], ["0x" + "0f" * 20])
        assert call.data[:4] == PROFILES.selector("deliveryOf")
        return encode(CHOICE, self.choice)


def policies(*choice: Any, **bounds: Any) -> Policies:
    chain = cast(Chain, ProfilesChain(*choice))
    return Policies(NETWORK, {ALPHA: chain}, OperatorPolicies(bounds=ChoiceBounds(**bounds)))


@pytest.mark.parametrize(
    ("number", "strategy"),
    [
        (0, IdempotencyStrategy.MESSAGE_ID),
        (1, IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH),
        (2, IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE),
    ],
)
@pytest.mark.parametrize("dead_letter", [True, False])
async def test_each_part_of_a_senders_choice_counts(
    number: int, strategy: IdempotencyStrategy, *, dead_letter: bool
) -> None:
    found = await policies(True, 0, number, 3, 250, 9_000, dead_letter).of(message(), frozenset(IdempotencyStrategy))
    chosen = found.delivery
    assert (chosen.max_retries, chosen.base, chosen.cap, chosen.dead_letter) == (3, 0.25, 9, dead_letter)
    assert found.idempotency_strategy is strategy


async def test_choice_counts_within_enabled_bounds() -> None:
    beyond = (True, 0, 0, 100, 10, 10**9, True)
    bounded = (await policies(*beyond, max_retries=4, least_base=0.5, longest_cap=60).of(message())).delivery
    assert (bounded.max_retries, bounded.base, bounded.cap) == (4, 0.5, 60)
    for usual in (policies(*beyond, enabled=False), policies(False, 0, 0, 0, 0, 0, False)):
        assert (await usual.of(message())).delivery == DEFAULT_POLICIES[Kind.PLAIN]


async def test_of_a_critical_action_nobody_is_asked() -> None:
    critical = message(kind=Kind.REGULATORY_ACTION_CRITICAL)
    found = await Policies(NETWORK, {}, OperatorPolicies()).of(critical)
    assert found.delivery == DEFAULT_POLICIES[Kind.REGULATORY_ACTION_CRITICAL]
