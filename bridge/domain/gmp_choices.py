"""Which GMPs and quorum carry messages in time: what a lane's own history says of it.

Only messages that were sent over all GMPs of a choice count for it. So GMPs that fail together are seen to, and nothing is
assumed of GMPs that were never used together. Misses come together, in outages. So the sample is made smaller by its design
effect: the variance of misses by stretches of time, over that of single misses. An hour counts as one message at most.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

from bridge.protocol.indexed import Observation

DOUBT: Final = 0.05
"""Chance with which one of the compared choices looks good without being so, if stretches of time are independent."""

RECENT: Final = 3_600
"""Seconds in which a GMP that has become worse is noticed."""

_STRETCHES: Final = (3_600, 21_600, 86_400)  # seconds: outages are taken to be no longer
_TOO_UNLIKELY: Final = 0.001  # so rarely are the last hour's misses chance


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
    sample: int  # independent messages that they are worth
    is_shown: bool  # that the goal's share is reached
    is_worse_lately: bool  # too few of its GMPs are now as they were, or its last hour does not fit the goal

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
    usable = sorted(gmps)
    history, lately = _History(), _History()
    for one in observations:
        if one.at > now - goal.within:
            continue
        in_time = (gmp for gmp, seconds in one.seconds.items() if seconds is not None and seconds <= goal.within)
        outcome = _bits(one.seconds), _bits(in_time)
        history.add(one.at, *outcome)
        if one.at > now - goal.within - RECENT:
            lately.add(one.at, *outcome)
    well = [gmp for gmp in usable if not _is_ill(history, lately, 1 << gmp)]
    # A choice that has had no outage yet may have one like the others'.
    least_effect = max((history.fared(1 << gmp, 1).design_effect for gmp in well), default=1.0)
    first = max(1, least_quorum, goal.max_corrupt + 1)
    compared = [
        (chosen, quorum)
        for size in range(1, len(usable) + 1)
        for chosen in combinations(usable, size)
        for quorum in range(first, size + 1)
    ]
    found = []
    for chosen, quorum in compared:
        wanted = _bits(chosen)
        all_of, recent = history.fared(wanted, quorum), lately.fared(wanted, quorum)
        effect = max(least_effect, all_of.design_effect)
        sample = int(all_of.messages / effect)
        missed = min(sample, math.ceil(all_of.missed / effect))
        does_not_fit = 1.0 - _at_most_missed(recent.messages, recent.missed - 1, goal.share) < _TOO_UNLIKELY
        found.append(
            Choice(
                gmps=chosen,
                quorum=quorum,
                messages=all_of.messages,
                kept=all_of.messages - all_of.missed,
                sample=sample,
                is_shown=_at_most_missed(sample, missed, goal.share) < DOUBT / len(compared),
                is_worse_lately=does_not_fit or sum(gmp in well for gmp in chosen) < quorum,
            )
        )
    return found


def _is_ill(history: _History, lately: _History, gmp: int) -> bool:
    """Whether a GMP misses more within the last hour than chance makes of what it was before."""
    ever, recent = history.fared(gmp, 1), lately.fared(gmp, 1)
    before, missed_before = ever.messages - recent.messages, ever.missed - recent.missed
    share = (before - missed_before + 1) / (before + 2)  # Laplace's rule: never 0 and never 1
    return 1.0 - _at_most_missed(recent.messages, recent.missed - 1, share) < _TOO_UNLIKELY


def hours_needed(goal: Goal, compared: int) -> int:
    """For how many hours a choice among so many must have had messages, and each in time, until the goal is shown."""
    return math.ceil(math.log(DOUBT / max(1, compared)) / math.log(goal.share))


def _bits(gmps: Iterable[int]) -> int:
    return sum(1 << gmp for gmp in gmps)


class _Fared(NamedTuple):
    """How messages fared."""

    messages: int
    missed: int  # of them, those that were late
    design_effect: float  # so many are worth one independent message: no fewer than come in an hour


class _History:
    """How messages fared, by the hour."""

    def __init__(self) -> None:
        self._hours: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)

    def add(self, at: int, sent_over: int, in_time: int) -> None:
        """Counts a message; GMPs are bits."""
        self._hours[at // _STRETCHES[0]][sent_over, in_time] += 1

    def fared(self, wanted: int, quorum: int) -> _Fared:
        """What became of messages that were sent over all of these GMPs, with so many of their receipts in time or not."""
        hours = self._by_hour(wanted, quorum)
        messages, missed = sum(number for number, _ in hours.values()), sum(lost for _, lost in hours.values())
        an_hour = messages / len(hours) if hours else 1.0
        if missed in (0, messages):
            return _Fared(messages, missed, an_hour)
        share = missed / messages
        spreads = []
        for stretch in _STRETCHES:
            apart: defaultdict[int, float] = defaultdict(float)
            for hour, (number, lost) in hours.items():
                apart[hour * _STRETCHES[0] // stretch] += lost - number * share
            spreads.append(sum(one**2 for one in apart.values()))
        return _Fared(messages, missed, max(an_hour, max(spreads) / (messages * share * (1 - share))))

    def _by_hour(self, wanted: int, quorum: int) -> dict[int, tuple[int, int]]:
        found = {}
        for hour, outcomes in self._hours.items():
            messages = missed = 0
            for (sent_over, in_time), number in outcomes.items():
                if sent_over & wanted == wanted:
                    messages += number
                    missed += number if (in_time & wanted).bit_count() < quorum else 0
            if messages:
                found[hour] = messages, missed
        return found


def _at_most_missed(messages: int, missed: int, share: float) -> float:
    """The probability of so many misses or fewer, if that share is kept; 0 for fewer than none."""
    kept, lost, ways = math.log(share), math.log1p(-share), math.lgamma(messages + 1)
    terms = (
        math.exp(ways - math.lgamma(n + 1) - math.lgamma(messages - n + 1) + (messages - n) * kept + n * lost)
        for n in range(missed + 1)
    )
    return min(1.0, math.fsum(terms))
