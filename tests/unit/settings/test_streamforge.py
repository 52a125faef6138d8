"""StreamForge's three recommended configurations, as the profiles have them, value by value."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy, GiveUpReason, next_try
from bridge.protocol.failures import FailureKind
from bridge.protocol.message import Kind
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.service.settings import PROFILES, Settings
from tests.cases import for_each_case


def plain(settings: Settings) -> DeliveryPolicy:
    return settings.delivery_policies()[Kind.PLAIN]


THEIRS = {
    "production": (CommitStrategy.BATCH, 100, DeliveryPolicy(max_retries=3, base=0.1, cap=30, dead_letter=True)),
    "low-latency": (CommitStrategy.MESSAGE, 1, DeliveryPolicy(max_retries=5, base=0.01, cap=1, dead_letter=True)),
    "high-throughput": (CommitStrategy.BATCH, 1_000, DeliveryPolicy(max_retries=3, base=0.1, cap=30, dead_letter=True)),
}


@pytest.mark.parametrize("profile", THEIRS)
def test_profile_matches_the_documents_configuration(profile: str) -> None:
    settings = Settings.load(profile=profile)
    strategy, interval, policy = THEIRS[profile]
    assert settings.commit is strategy
    if strategy is CommitStrategy.BATCH:
        assert (settings.commit_interval, settings.commit_wait) == (interval, 5)
    assert plain(settings) == policy
    assert (plain(settings).jitter, plain(settings).multiplier) == (0.1, 2)
    assert (settings.dlq.tries, settings.dlq.PAUSE) == (3, 1)


@for_each_case("profile", PROFILES)
def test_letters_have_three_tries_in_every_profile(profile: str) -> None:
    writing = Settings.load(profile=profile).dlq
    assert (writing.tries, writing.PAUSE) == (3, 1)


@pytest.mark.parametrize("profile", THEIRS)
def test_a_profile_leaves_the_rows_of_all_other_kinds_alone(profile: str) -> None:
    policies = Settings.load(profile=profile).delivery_policies()
    assert {kind for kind in Kind if policies[kind] != DEFAULT_POLICIES[kind]} == {Kind.PLAIN}


def test_a_row_in_the_file_goes_over_the_profile_value_by_value(tmp_path: Path) -> None:
    file = tmp_path / "waybill.toml"
    file.write_text('profile = "low-latency"\n[policies.plain]\nmax_retries = 7\n')
    policy = plain(Settings.load(file))
    assert (policy.max_retries, policy.base, policy.cap) == (7, 0.01, 1)


def test_its_schedule_is_kept_and_the_multiplier_counts() -> None:
    """Four tries, the first at once, as its schedule and scenarios say; its loop of three is a miscount."""
    dice = random.Random(3)
    policy = plain(Settings.load(profile="production"))
    for attempt, (least, most) in enumerate(((0.09, 0.11), (0.18, 0.22), (0.36, 0.44)), 1):
        waits = [next_try(policy, attempt, FailureKind.TRANSIENT, random=dice.random) for _ in range(200)]
        assert all(not isinstance(wait, GiveUpReason) and least <= wait <= most for wait in waits)
    assert next_try(policy, 4, FailureKind.TRANSIENT, random=dice.random) is GiveUpReason.MAX_RETRIES_EXCEEDED
    tripled = plain(Settings.load(policies={"plain": {"multiplier": 3, "jitter": 0, "base": 1}}))
    waits = [next_try(tripled, attempt, FailureKind.TRANSIENT, random=dice.random) for attempt in (1, 2, 3)]
    assert waits == [1, 3, 9]
