"""StreamForge's three recommended configurations, as the documentation has them, value by value."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from bridge.domain.failures import FailureKind
from bridge.domain.retry_policy import RetryPolicy, Spent, next_try
from bridge.protocol.message import Kind
from bridge.relayer.commits import CommitStrategy
from bridge.settings import Settings

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "operate" / "streamforge.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def load(number: int, home: Path) -> Settings:
    file = home / "waybill.toml"
    file.write_text(BLOCKS[number])
    return Settings.load(file)


def plain(settings: Settings) -> RetryPolicy:
    return settings.retry_policies()[Kind.PLAIN]


@pytest.mark.requirement(
    "SF-99", "SF-19", "SF-20", "SF-21", "SF-22", "SF-38", "SF-39", "SF-40", "SF-41", "SF-42", "SF-72"
)
def test_the_production_configuration(tmp_path: Path) -> None:
    settings = load(0, tmp_path)
    commits = settings.relay().commits
    assert (commits.strategy, commits.interval, commits.wait) == (CommitStrategy.BATCH, 100, 5)
    expected = RetryPolicy(max_retries=3, base=0.1, cap=30, dead_letter=True, jitter=0.1, multiplier=2)
    assert plain(settings) == expected
    assert (settings.dlq.tries, settings.dlq.pause) == (3, 1)


@pytest.mark.requirement("SF-100", "SF-27")
def test_the_low_latency_configuration(tmp_path: Path) -> None:
    settings = load(1, tmp_path)
    assert settings.relay().commits.strategy is CommitStrategy.MESSAGE
    policy = plain(settings)
    assert (policy.max_retries, policy.base, policy.cap) == (5, 0.01, 1)


@pytest.mark.requirement("SF-101")
def test_the_high_throughput_configuration(tmp_path: Path) -> None:
    settings = load(2, tmp_path)
    commits = settings.relay().commits
    assert (commits.strategy, commits.interval) == (CommitStrategy.BATCH, 1_000)
    assert (plain(settings).max_retries, plain(settings).base, plain(settings).cap) == (3, 0.1, 30)


@pytest.mark.requirement("SF-43", "SF-41", "SF-52", "X-8")
def test_its_schedule_is_kept_and_the_multiplier_counts(tmp_path: Path) -> None:
    """Four tries, the first at once, as its schedule and scenarios say; its loop of three is a miscount."""
    dice = random.Random(3)
    policy = plain(load(0, tmp_path))
    for attempt, (least, most) in enumerate(((0.09, 0.11), (0.18, 0.22), (0.36, 0.44)), 1):
        waits = [next_try(policy, attempt, FailureKind.TRANSIENT, random=dice.random) for _ in range(200)]
        assert all(not isinstance(wait, Spent) and least <= wait <= most for wait in waits)
    assert next_try(policy, 4, FailureKind.TRANSIENT, random=dice.random) is Spent.MAX_RETRIES_EXCEEDED
    tripled = Settings.load(policies={"plain": {"multiplier": 3, "jitter": 0, "base": 1}}).retry_policies()[Kind.PLAIN]
    waits = [next_try(tripled, attempt, FailureKind.TRANSIENT, random=dice.random) for attempt in (1, 2, 3)]
    assert waits == [1, 3, 9]
