"""What the pages say of the commit strategies and of exactly-once is what the code has."""

from __future__ import annotations

import re

import pytest

from bridge.protocol.message import Kind
from bridge.relayer.delivery_commits import DEFAULT_SECONDS, GUARANTEES, CommitStrategy
from bridge.settings import Settings
from bridge.settings.sources import PROFILES
from bridge.streams.settings import Semantics
from tests.unit.docs.test_docs import ROOT

_STORES = (ROOT / "docs" / "operate" / "stores.md").read_text()
_STREAMFORGE = (ROOT / "docs" / "operate" / "streamforge.md").read_text()
_STREAMS = (ROOT / "docs" / "streams.md").read_text()
IS_LOST = frozenset({CommitStrategy.AT_MOST_ONCE, CommitStrategy.AUTO})


def rows(page: str, heading: str) -> dict[str, list[str]]:
    """The cells of a section's first table, by the name between backticks in the first of them."""
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|")
    return {named.group(1): rest for first, *rest in cells if (named := re.match(r"`([\w-]+)`", first))}


WHEN = {
    CommitStrategy.BATCH: "always, unless another row applies",
    CommitStrategy.MESSAGE: "latency counts, below 1,000 messages/s, or a repeated call is dear",
    CommitStrategy.TIME: "throughput counts, and a repeated call costs little",
    CommitStrategy.AT_MOST_ONCE: "another relayer delivers what this one loses",
    CommitStrategy.AUTO: "never",
}
"""StreamForge's recommendations."""


@pytest.mark.parametrize("strategy", list(CommitStrategy))
def test_operators_are_told_of_each_strategy_what_it_repeats_and_whether_it_loses(strategy: CommitStrategy) -> None:
    promises, committed, crash = rows(_STORES, "When deliveries are committed")[strategy]
    use, repeats, loses = rows(_STREAMFORGE, "When to use what")[strategy]
    assert use == WHEN[strategy]
    promise = GUARANTEES[strategy].partition(":")[0]
    assert promises == ("nothing" if promise == "none" else promise)
    assert (loses == "nothing") is ("lose" not in crash) is (strategy not in IS_LOST)
    seconds = DEFAULT_SECONDS.get(strategy)
    assert seconds is None or f"{seconds:g} s" in committed
    size = {
        CommitStrategy.BATCH: f"up to {Settings().relay().commits.interval} deliveries",
        CommitStrategy.TIME: "up to 30 s",
    }
    assert size.get(strategy, "") in repeats


@pytest.mark.parametrize("profile", PROFILES)
def test_no_profile_takes_a_strategy_that_loses(profile: str) -> None:
    assert Settings.load(profile=profile).relay().commits.strategy not in IS_LOST


@pytest.mark.parametrize("profile", PROFILES)
def test_operators_are_told_the_values_of_each_profile(profile: str) -> None:
    committed, *tries, _ = rows(_STREAMFORGE, "Its three configurations")[profile]
    settings = Settings.load(profile=profile)
    commits, plain = settings.relay().commits, settings.delivery_policies()[Kind.PLAIN]
    size = f", {commits.interval:,}" if commits.strategy is CommitStrategy.BATCH else ""
    assert committed == f"`{commits.strategy}`{size}"
    assert tries == [str(plain.max_retries), f"{plain.base:g} s", f"{plain.cap:g} s"]


def test_operators_are_told_how_many_refused_commits_end_the_relayer() -> None:
    tries = Settings().relay().commits.tries
    assert f"`commit_tries` | {tries}, then the relayer stops |" in _STREAMFORGE
    assert tries == 12
    assert Settings.load(commit_tries=3).relay().commits.tries == 3


def test_exactly_once_is_off_and_says_what_it_needs_and_where_it_ends() -> None:
    section = " ".join(_STREAMS.partition("\n## Guarantees\n")[2].partition("\n## ")[0].split())
    needs = ("`isolation.level=read_committed`", "Each store needs a `transactional_id` of its own")
    ends = ("Exactly-once ends where the store does", "restored from a backup", "dead-letter topic is written before")
    for words in (*needs, *ends):
        assert words in section
    assert Settings().kafka.delivery is Semantics.AT_LEAST_ONCE
