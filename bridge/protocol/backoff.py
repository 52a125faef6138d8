"""The exponential backoff with jitter that the relayer and the index share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MOST_DOUBLINGS: Final = 64  # any cap is reached by then, and larger exponents overflow a float


def backoff(
    base: float,
    doublings: int,
    *,
    cap: float,
    multiplier: float = 2.0,
    jitter: float = 0.0,
    random: Callable[[], float] = lambda: 0.5,
) -> float:
    """Returns the seconds to wait before the next try: `base`, doubled `doublings` times, at most `cap`.

    At the cap, the wait is scaled down so that there is still jitter. Otherwise all senders would wait equally long.

    Args:
        base: first wait in seconds.
        doublings: number of times the wait has been doubled; 0 before the second try.
        cap: upper bound in seconds, never exceeded.
        multiplier: growth factor from one wait to the next, if not 2.
        jitter: fraction by which a wait varies in either direction, in [0, 1).
        random: returns a number in [0, 1); 0.5 means no jitter.
    """
    wait = min(base * multiplier ** min(doublings, _MOST_DOUBLINGS), cap / (1 + jitter))
    return min(wait * (1 + jitter * (2 * random() - 1)), cap)  # floating point can exceed the cap slightly
