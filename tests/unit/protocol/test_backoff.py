"""Waits double up to a cap, and jitter keeps senders apart even there."""

from __future__ import annotations

from functools import partial

import pytest

from bridge.protocol.backoff import backoff
from tests.cases import for_each_case


@for_each_case("doublings, seconds", [(0, 0.5), (1, 1), (4, 8), (5, 10), (10_000, 10)])
def test_a_wait_doubles_up_to_the_cap(doublings: int, seconds: float) -> None:
    assert backoff(0.5, doublings, cap=10) == seconds


@pytest.mark.parametrize(("doublings", "shortest", "longest"), [(0, 0.8, 1.2), (3, 6.4, 9.6), (20, 80 / 1.2, 100)])
def test_jitter_makes_a_wait_longer_or_shorter_and_never_exceeds_the_cap(
    doublings: int, shortest: float, longest: float
) -> None:
    waits = [backoff(1, doublings, cap=100, jitter=0.2, random=partial(float, number / 8)) for number in range(9)]
    assert (waits[0], waits[-1]) == pytest.approx((shortest, longest))
    assert waits == sorted(set(waits))
    assert max(waits) <= 100
