"""How long to wait before the next try: the one formula of relayer and indexer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MOST_DOUBLINGS: Final = 64  # beyond it, doubling is past any cap, and floats overflow in the end


def backoff(
    base: float,
    doublings: int,
    *,
    cap: float,
    multiplier: float = 2.0,
    jitter: float = 0.0,
    random: Callable[[], float] = lambda: 0.5,
) -> float:
    """Seconds to wait: `base`, doubled so many times, up to `cap`.

    At the cap the wait is scaled so that the jitter survives, else all senders would wait equally long there.

    Args:
        base: seconds.
        doublings: how often the wait was doubled by now; 0 before the second try.
        cap: seconds that are never exceeded.
        multiplier: how many times as long as the one before a wait is, if not twice.
        jitter: share by which a wait is made longer or shorter, at least 0 and less than 1.
        random: gives a number in [0, 1); 0.5 is the middle.
    """
    wait = min(base * multiplier ** min(doublings, _MOST_DOUBLINGS), cap / (1 + jitter))
    return min(wait * (1 + jitter * (2 * random() - 1)), cap)  # floating point may have exceeded it by a hair
