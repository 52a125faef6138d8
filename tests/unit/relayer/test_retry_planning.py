"""Which GMPs carry a retry."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.gmps import Gmp
from bridge.relayer.retry_planning import ranked

pytestmark = pytest.mark.long

H, A, W, L, C = Gmp
sets = st.frozensets(st.sampled_from(Gmp))


def order(
    *,
    usable: Collection[Gmp],
    tried: Collection[Gmp] = (),
    failing: Collection[Gmp] = (),
    given_up: Collection[Gmp] = (),
) -> list[Gmp]:
    return ranked(
        frozenset(usable),
        tried=frozenset(tried),
        failing=frozenset(failing),
        given_up=frozenset(given_up),
    )


def test_a_gmp_that_fails_on_the_lane_comes_last() -> None:
    assert order(usable={H, A, W}, tried={H}, failing={A}) == [W, H, A]


def test_gmp_of_a_death_comes_behind_one_failure() -> None:
    assert order(usable={H, A, W}, tried={A}, failing={H, W}, given_up={A}) == [H, W, A]


@given(usable=sets, tried=sets, failing=sets)
def test_usable_gmps_come_once_and_healthy_first(
    usable: frozenset[Gmp], tried: frozenset[Gmp], failing: frozenset[Gmp]
) -> None:
    chosen = order(usable=usable, tried=tried, failing=failing)
    assert set(chosen) == usable
    assert len(chosen) == len(set(chosen))
    health = [gmp in failing for gmp in chosen]
    assert health == sorted(health)
    for healthy in (True, False):
        known = [gmp in tried for gmp in chosen if (gmp not in failing) is healthy]
        assert known == sorted(known)
