"""Which GMPs and quorum carry messages in time: what a lane's own history says of it, and how sure that is.

Only messages that were sent over all GMPs of a choice count for it. So GMPs that fail together are seen to, and nothing is
assumed of GMPs that were never used together. A choice is shown to reach a share if so few misses would be rare below it, by
the binomial distribution. Bonferroni's correction keeps the luckiest of many choices from looking good. Misses come together,
in outages: so messages are counted in clumps, whose size is the lane's own.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from bridge.protocol.indexed import Observation

CERTAINTY: Final = 0.95
"""With which all that one comparison shows is true together."""

RECENT: Final = 3_600
"""Seconds in which a GMP that has become worse is noticed."""

_HOUR: Final = 3_600  # seconds: misses within one are taken to have one cause
_TOO_UNLIKELY: Final = 0.001  # so rarely are the last hour's misses chance, if the goal still holds


@dataclass(frozen=True, slots=True)
class Goal:
    """What a sender asks for."""

    within: float  # seconds from the source's block to the quorum
    share: float  # of messages, such as 0.999
    max_corrupt: int = 0  # GMPs that may lie without a forged message executing


@dataclass(frozen=True, slots=True)
class Choice:
    """GMPs and a quorum, and how messages fared that were sent over these GMPs, among others perhaps."""

    gmps: tuple[int, ...]
    quorum: int
    messages: int
    kept: int  # of them, those that had the quorum in time
    clump: float  # so many messages say as much as one, since misses come together
    is_shown: bool  # that the goal's share is reached, with `CERTAINTY`
    recent: int  # messages of the last hour
    recent_kept: int
    is_worse_lately: bool  # the last hour's misses are too many for the goal to hold still

    @property
    def meets(self) -> bool:
        """Whether history and last hour say that the choice reaches the goal."""
        return self.is_shown and not self.is_worse_lately


def choices(
    observations: Iterable[Observation], gmps: Collection[int], goal: Goal, *, least_quorum: int, now: float
) -> list[Choice]:
    """Every set of GMPs and quorum that the goal allows, with what is known of it.

    Args:
        observations: of the lane. Those are left out that are younger than the goal's time.
        gmps: that can be sent over.
        goal: what is asked for.
        least_quorum: receipts that the destination demands.
        now: Unix seconds.
    """
    usable, hours = sorted(gmps), _Hours()
    for one in observations:
        if one.at > now - goal.within:
            continue
        in_time = (gmp for gmp, seconds in one.seconds.items() if seconds is not None and seconds <= goal.within)
        hours.add(one.at, _bits(one.seconds), _bits(in_time))
    clump = max((hours.clump(1 << gmp, 1) for gmp in usable), default=1.0)
    first = max(1, least_quorum, goal.max_corrupt + 1)
    compared = [
        (chosen, quorum)
        for size in range(1, len(usable) + 1)
        for chosen in combinations(usable, size)
        for quorum in range(first, size + 1)
    ]
    doubt = (1 - CERTAINTY) / max(1, len(compared))
    found = []
    for chosen, quorum in compared:
        wanted = _bits(chosen)
        messages, missed = hours.fared(wanted, quorum)
        recent, recent_missed = hours.fared(wanted, quorum, since=now - RECENT - goal.within)
        size = max(clump, hours.clump(wanted, quorum))
        is_shown = _at_most_missed(int(messages / size), math.ceil(missed / size), goal.share) < doubt
        by_chance = 1.0 - _at_most_missed(recent, recent_missed - 1, goal.share)  # so many or more
        found.append(
            Choice(
                gmps=chosen,
                quorum=quorum,
                messages=messages,
                kept=messages - missed,
                clump=size,
                is_shown=is_shown,
                recent=recent,
                recent_kept=recent - recent_missed,
                is_worse_lately=by_chance < _TOO_UNLIKELY,
            )
        )
    return found


def messages_needed(goal: Goal, compared: int) -> int:
    """How many messages it takes to show the goal for one of so many choices, if every message is in time."""
    return math.ceil(math.log((1 - CERTAINTY) / max(1, compared)) / math.log(goal.share))


def _bits(gmps: Iterable[int]) -> int:
    return sum(1 << gmp for gmp in gmps)


class _Hours:
    """How messages fared, by the hour."""

    def __init__(self) -> None:
        self._outcomes: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)

    def add(self, at: int, sent_over: int, in_time: int) -> None:
        """Counts a message; GMPs are bits."""
        self._outcomes[at // _HOUR][sent_over, in_time] += 1

    def fared(self, wanted: int, quorum: int, since: float = float("-inf")) -> tuple[int, int]:
        """Messages that were sent over all of these GMPs, and those of them without so many of their receipts in time."""
        hours = [self._of(hour, wanted, quorum) for hour in self._outcomes if (hour + 1) * _HOUR > since]
        return sum(number for number, _ in hours), sum(missed for _, missed in hours)

    def clump(self, wanted: int, quorum: int) -> float:
        """How many messages count as one since misses come together: the variance by hours over that of single misses."""
        hours = [self._of(hour, wanted, quorum) for hour in self._outcomes]
        messages, missed = sum(number for number, _ in hours), sum(lost for _, lost in hours)
        if missed in (0, messages):
            return 1.0
        share = missed / messages
        spread = sum((lost - number * share) ** 2 for number, lost in hours)
        return max(1.0, spread / (messages * share * (1 - share)))

    def _of(self, hour: int, wanted: int, quorum: int) -> tuple[int, int]:
        messages = missed = 0
        for (sent_over, in_time), number in self._outcomes[hour].items():
            if sent_over & wanted == wanted:
                messages += number
                missed += number if (in_time & wanted).bit_count() < quorum else 0
        return messages, missed


def _at_most_missed(messages: int, missed: int, share: float) -> float:
    """The probability of so many misses or fewer, if that share is kept; 0 for fewer than none."""
    kept, lost, ways = math.log(share), math.log1p(-share), math.lgamma(messages + 1)
    terms = (
        math.exp(ways - math.lgamma(n + 1) - math.lgamma(messages - n + 1) + (messages - n) * kept + n * lost)
        for n in range(missed + 1)
    )
    return min(1.0, math.fsum(terms))
