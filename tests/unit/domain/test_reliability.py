"""What a lane's history is said to promise: counted right, and kept by the half of the history that was held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.trust import backtest
from bridge.domain.reliability import Choice, Goal, choices, messages_needed
from bridge.protocol.indexed import Observation
from tests.support.simulation.lane_history import GMPS, history, worse

HOUR = 3_600


def compared(
    observations: Sequence[Observation], goal: Goal, *, least_quorum: int = 1, now: float = 10**9
) -> list[Choice]:
    return choices(observations, GMPS, goal, least_quorum=least_quorum, now=now)


def of(found: Sequence[Choice], gmps: tuple[int, ...], quorum: int) -> Choice:
    return next(one for one in found if (one.gmps, one.quorum) == (gmps, quorum))


def test_only_messages_over_all_gmps_of_a_choice_count_and_their_quorum_in_time() -> None:
    seen = [
        Observation(0, {1: 10, 2: 20, 3: 90}),
        Observation(1, {1: 10, 2: None}),
        Observation(2, {1: None, 2: 60, 4: 5}),
        Observation(3, {3: 5}),
    ]
    found = compared(seen, Goal(60, 0.9))
    assert [(one.messages, one.kept) for one in (of(found, (1, 2), 1), of(found, (1, 2), 2))] == [(3, 3), (3, 1)]
    assert (of(found, (1, 2, 3), 3).messages, of(found, (1, 2, 3), 3).kept) == (1, 0)
    assert of(found, (3,), 1).kept == 1
    assert of(found, (5,), 1).messages == 0


def test_gmps_that_fail_together_are_no_help_to_each_other() -> None:
    together = [Observation(n, dict.fromkeys((1, 2), None if n % 10 == 0 else 5)) for n in range(2_000)]
    apart = [Observation(n, {1: None if n % 10 == 0 else 5, 2: None if n % 10 == 1 else 5}) for n in range(2_000)]
    goal = Goal(60, 0.95)
    assert not of(compared(together, goal), (1, 2), 1).meets
    assert of(compared(apart, goal), (1, 2), 1).meets


@given(st.data())
def test_a_choice_is_shown_exactly_if_so_few_misses_are_rare_below_the_goal(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, 120))
    missed = data.draw(st.integers(0, min(number, 6)))
    percent = data.draw(st.integers(60, 99))
    seen = [Observation(n, {1: None if n < missed else 1}) for n in range(number)]
    found = choices(seen, [1], Goal(60, percent / 100), least_quorum=1, now=10**9)
    share = Fraction(percent, 100)
    assert found[0].clump == 1  # all within one hour
    chance = sum(math.comb(number, n) * share ** (number - n) * (1 - share) ** n for n in range(missed + 1))
    assert found[0].is_shown == (chance < Fraction(5, 100))


def test_misses_of_one_outage_count_as_one() -> None:
    def seen(missed: int) -> list[Observation]:
        return [Observation(n * 36, {1: None if n < missed else 1}) for n in range(10_000)]  # a hundred an hour

    goal = Goal(60, 0.98)
    scattered = [Observation(n * 36, {1: None if n % 100 == 0 else 1}) for n in range(10_000)]
    assert of(compared(scattered, goal), (1,), 1).meets
    outage = of(compared(seen(100), goal), (1,), 1)
    assert outage.clump > 90
    assert not outage.meets


def test_as_many_messages_are_needed_as_show_the_goal_without_a_miss() -> None:
    goal, one_choice = Goal(60, 0.999), 1
    needed = messages_needed(goal, one_choice)
    assert needed == 2_995
    for number, shown in ((needed, True), (needed - 1, False)):
        seen = [Observation(n, {1: 1}) for n in range(number)]
        assert choices(seen, [1], goal, least_quorum=1, now=10**9)[0].meets is shown


def test_the_more_choices_are_compared_the_more_messages_it_takes() -> None:
    goal, among = Goal(60, 0.99), len(compared([], Goal(60, 0.99)))
    assert among == 80
    needed = messages_needed(goal, among)
    assert needed > 2 * messages_needed(goal, 1)
    for number, shown in ((needed, True), (needed - 1, False)):
        seen = [Observation(n, dict.fromkeys(GMPS, 1)) for n in range(number)]
        assert {one.meets for one in compared(seen, goal)} == {shown}


def test_what_was_shown_does_not_count_once_the_last_hour_says_otherwise() -> None:
    seen = [Observation(n * 5, {1: 1}) for n in range(200_000)]  # 277 hours
    assert of(compared(seen, Goal(60, 0.9), now=seen[-1].at + 60), (1,), 1).meets
    late = [Observation(seen[-1].at + n, {1: None}) for n in range(900)]
    found = of(compared([*seen, *late], Goal(60, 0.9), now=late[-1].at + 60), (1,), 1)
    assert (found.is_shown, found.is_worse_lately, found.meets) == (True, True, False)


def test_liars_and_floors_raise_the_quorum() -> None:
    assert {one.quorum for one in compared([], Goal(60, 0.9, max_corrupt=2))} == {3, 4, 5}
    assert min(one.quorum for one in compared([], Goal(60, 0.9), least_quorum=2)) == 2
    assert choices([], [1, 2], Goal(60, 0.9, max_corrupt=2), least_quorum=1, now=0) == []


def test_a_message_is_judged_once_its_time_is_over() -> None:
    young = [Observation(1_000, {1: 1}), Observation(1_000, {1: None})]
    assert of(compared(young, Goal(300, 0.9), now=1_299), (1,), 1).messages == 0
    assert of(compared(young, Goal(300, 0.9), now=1_300), (1,), 1).messages == 2


@pytest.mark.parametrize("seed", range(8))
def test_a_gmp_that_becomes_worse_is_chosen_no_more_within_an_hour(seed: int) -> None:
    goal = Goal(600, 0.9)
    before = history(seed, 6_000 + seed * 15)  # ends at another time of an hour
    now = before[-1].at + goal.within
    chosen = next(one for one in compared(before, goal, now=now) if one.meets and len(one.gmps) == one.quorum)
    fell_ill = chosen.gmps[0]
    later = [
        worse(Observation(before[-1].at + one.at + 30, one.seconds), fell_ill, 900)
        for one in history(seed + 1_000, HOUR // 30)
    ]
    after = of(compared([*before, *later], goal, now=later[-1].at + goal.within), chosen.gmps, chosen.quorum)
    assert after.is_worse_lately
    assert not after.meets


def test_what_one_half_of_a_history_promises_the_other_half_keeps() -> None:
    promised, kept = backtest(seeds=range(100, 120), messages=8_000)
    assert promised > 50
    assert kept >= 0.95 * promised
