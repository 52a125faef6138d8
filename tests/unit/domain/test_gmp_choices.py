"""What a lane's history is said to promise: counted right, and kept by the half of the history that was held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.domain.gmp_choices import Choice, Goal, choices, hours_needed
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
    together = [Observation(n * HOUR, dict.fromkeys((1, 2), None if n % 10 == 0 else 5)) for n in range(2_000)]
    apart = [
        Observation(n * HOUR, {1: None if n % 10 == 0 else 5, 2: None if n % 10 == 1 else 5}) for n in range(2_000)
    ]
    goal = Goal(60, 0.95)
    assert not of(compared(together, goal), (1, 2), 1).meets
    assert of(compared(apart, goal), (1, 2), 1).meets


@given(st.data())
def test_a_choice_is_shown_exactly_if_so_few_misses_are_rare_below_the_goal(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 120))
    missed = data.draw(st.integers(0, min(number, 6)))
    percent = data.draw(st.integers(60, 99))
    seen = [Observation(n * HOUR, {1: None if n * 20 // number < missed else 1}) for n in range(number)]
    missed = sum(one.seconds[1] is None for one in seen)
    found = choices(seen, [1], Goal(60, percent / 100), least_quorum=1, now=10**9)[0]
    share = Fraction(percent, 100)
    lost = min(found.sample, math.ceil(missed * Fraction(found.sample, number))) if found.sample else 0
    chance = sum(math.comb(found.sample, n) * share ** (found.sample - n) * (1 - share) ** n for n in range(lost + 1))
    assert found.sample <= number
    if chance >= Fraction(6, 100):
        assert not found.is_shown
    if missed == 0:
        assert (found.sample, found.is_shown) == (number, share**number < Fraction(5, 100))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.dictionaries(st.integers(1, 5), st.none() | st.integers(0, 200), min_size=1),
        ),
        max_size=60,
    ),
    st.integers(50, 99),
)
def test_any_history_is_compared(rows: list[tuple[int, dict[int, int | None]]], percent: int) -> None:
    seen = [Observation(at, seconds) for at, seconds in rows]
    for one in compared(seen, Goal(60, percent / 100)):
        assert 0 <= one.sample <= one.messages
        assert 0 <= one.kept <= one.messages


def test_a_choice_with_few_messages_of_a_lane_with_outages_is_judged() -> None:
    """Fewer than make one independent message: it was a traceback."""
    outage = [Observation(n * 36, {1: None if n < 100 else 1}) for n in range(10_000)]
    few = [Observation(n * 36, {1: None, 4: None}) for n in range(10)]
    assert not of(compared([*outage, *few], Goal(60, 0.9)), (1, 4), 2).meets


def test_an_hour_of_messages_says_as_much_as_one_message() -> None:
    burst = [Observation(n, {1: 1}) for n in range(3_000)]
    assert of(compared(burst, Goal(60, 0.9)), (1,), 1).sample == 1


@pytest.mark.parametrize("hours", [1, 6, 24])
def test_misses_of_one_outage_count_as_one(hours: int) -> None:
    length = 10_000  # hours, of which each has a message
    outages = [Observation(n * HOUR, {1: None if n % 2_400 < hours else 1}) for n in range(length)]
    found = of(compared(outages, Goal(60, 0.5)), (1,), 1)
    assert length / hours / 2 < found.sample < length / hours * 2


def test_as_many_hours_are_needed_as_show_the_goal_without_a_miss() -> None:
    goal, one_choice = Goal(60, 0.999), 1
    needed = hours_needed(goal, one_choice)
    assert needed == 2_995
    for number, shown in ((needed, True), (needed - 1, False)):
        seen = [Observation(n * HOUR, {1: 1}) for n in range(number)]
        assert choices(seen, [1], goal, least_quorum=1, now=10**9)[0].meets is shown


def test_the_more_choices_are_compared_the_more_hours_it_takes() -> None:
    goal, among = Goal(60, 0.99), len(compared([], Goal(60, 0.99)))
    assert among == 80
    needed = hours_needed(goal, among)
    assert needed > 2 * hours_needed(goal, 1)
    for number, shown in ((needed, True), (needed - 1, False)):
        seen = [Observation(n * HOUR, dict.fromkeys(GMPS, 1)) for n in range(number)]
        assert {one.meets for one in compared(seen, goal)} == {shown}


def test_a_gmp_that_has_become_worse_is_in_no_quorum_also_with_gmps_it_was_not_sent_over_with() -> None:
    seen = [Observation(n * HOUR, {1: 1, 2: 1, 3: 1}) for n in range(500)]
    late = [Observation(seen[-1].at + n * 20, {1: None, 2: 1}) for n in range(180)]
    found = compared([*seen, *late], Goal(60, 0.9), now=late[-1].at + 60)
    assert not of(found, (1, 3), 2).meets
    assert of(found, (2, 3), 2).meets
    assert of(found, (1, 2, 3), 2).meets
    assert not of(found, (1, 2, 3), 3).meets


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
    goal = Goal(600, 0.8)
    before = history(seed, 12_000 + seed)  # ends at another time of an hour
    now = before[-1].at + goal.within
    chosen = next(one for one in compared(before, goal, now=now) if one.meets and len(one.gmps) == one.quorum)
    fell_ill = chosen.gmps[0]
    later = [
        worse(Observation(before[-1].at + one.at + 60, one.seconds), fell_ill, 900)
        for one in history(seed + 1_000, 60, every=60)
    ]
    after = of(compared([*before, *later], goal, now=later[-1].at + goal.within), chosen.gmps, chosen.quorum)
    assert after.is_worse_lately
    assert not after.meets
