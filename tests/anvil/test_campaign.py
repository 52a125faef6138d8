"""Routers do what an independent model of them says, whoever acts when; and routers without one of their checks do not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scripts.twins import compile_twin, prepare, read_twins
from tests import seeds
from tests.anvil.campaign.story import Story, stage

MUTANTS = (
    "any-gmp-counts",
    "anyone-retries",
    "cancelled-executes",
    "credit-paid-twice",
    "executed-twice",
    "expired-executes",
    "forged-report",
    "left-out-for-good",
    "no-floor",
    "outcome-overwritten",
    "paid-for-twice",
    "paused-receipts-count",
    "quorum-only-within-the-policy",
    "receipt-over-a-paused-lane",
    "revoked-receipts-count",
)
"""Routers that lack one check, of tests/solidity/twins/twins.toml."""
ACTIONS = 300
"""Of one story."""


def play(stories: int, purpose: str, router: Path | None = None, *, seed: str = "") -> set[str]:
    """Plays stories, and returns what happened in them.

    Raises:
        AssertionError: the router did something else than the model.
    """
    reached: set[str] = set()
    with stage(router) as where:
        for number in range(stories):
            story = Story(where, random.Random(f"{purpose} {number} {seed}"))
            story.play(ACTIONS)
            reached |= story.reached
    return reached


def test_routers_do_what_the_model_says() -> None:
    reached = play(5, "brief")
    # The stories are no good if they do not come far.
    assert len(reached) > 90
    assert reached >= {
        "AlreadyEnded",
        "AlreadyExecuted",
        "AlreadyReceived",
        "Expired",
        "GmpPaused",
        "LanePaused",
        "LateReceipt",
        "MessageCancelled",
        "MessageHasExpired",
        "NotSenderOrRetrier",
        "NotUnfunded",
        "OutcomeReported",
        "QuorumNotReached",
        "UnknownPeer",
        "execute",
        "fund",
        "retry_route",
    }


@pytest.mark.long
def test_routers_do_what_the_model_says_at_length() -> None:
    play(150, "long", seed=seeds.SEED)


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_campaign_notices_mutants(mutant: str) -> None:
    twin = read_twins()[mutant]
    prepare()
    compile_twin(twin)
    with pytest.raises(AssertionError, match="of the model"):
        play(60, "mutant", twin.artifact)
