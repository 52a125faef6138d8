"""What a sender chose on its chain counts for its messages, within the bounds of the settings."""

from __future__ import annotations

from typing import Any, cast

import pytest
from eth_abi import encode

from bridge.protocol.contracts import PROFILES, ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.guarantee import IdempotencyStrategy, SenderChoice
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Chain
from bridge.relayer.sender_choices import SenderChoices
from bridge.settings import Settings
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


def choices(*choice: Any, **bounds: Any) -> SenderChoices:
    chain = cast(Chain, ProfilesChain(*choice))
    return SenderChoices(NETWORK, {ALPHA: chain}, Settings.load(sender_choices=bounds).sender_choices.bounds(), {})


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
    sent = message()
    chosen = await choices(True, 0, number, 3, 250, 9_000, dead_letter).of(sent)
    assert chosen == {
        sent.id: SenderChoice(max_retries=3, base=0.25, cap=9, dead_letter=dead_letter, idempotency=strategy)
    }


async def test_a_choice_beyond_the_bounds_counts_as_the_bound_and_none_where_they_are_switched_off() -> None:
    sent, beyond = message(), (True, 0, 0, 100, 10, 10**9, True)
    (bounded,) = (await choices(*beyond, max_retries=4, least_base=0.5, longest_cap=60).of(sent)).values()
    assert (bounded.max_retries, bounded.base, bounded.cap) == (4, 0.5, 60)
    assert await choices(*beyond, enabled=False).of(sent) == {}
    assert await choices(False, 0, 0, 0, 0, 0, False).of(sent) == {}, "nothing was chosen"


async def test_of_a_critical_action_nobody_is_asked() -> None:
    critical = message(kind=Kind.REGULATORY_ACTION_CRITICAL)
    assert await choices(True, 0, 0, 1, 100, 200, True).of(critical) == {}
