"""Made-up histories of a lane, whose GMPs are slow together now and then, as GMPs are."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bridge.protocol.indexed import Observation

GMPS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Character:
    """How a GMP is."""

    median: float  # seconds
    spread: float  # of the logarithm
    lost: float  # share of messages that it never brings
    out: float  # share of the time in which it brings nothing
    outage: int  # hours, how long it brings nothing then


def characters(dice: random.Random) -> dict[int, Character]:
    return {
        gmp: Character(
            median=dice.uniform(20, 120),
            spread=dice.uniform(0.1, 0.6),
            lost=dice.choice([0.0, 0.0005, 0.005]),
            out=dice.choice([0.0, 0.002, 0.01]),
            outage=dice.choice([1, 6, 24]),
        )
        for gmp in GMPS
    }


def history(seed: int, messages: int, *, every: int = 600) -> list[Observation]:
    """So many messages, one each `every` seconds from time 0 on, sent over three to five of the GMPs."""
    dice = random.Random(seed)
    kinds, until = characters(dice), dict.fromkeys(GMPS, -1)
    congested_until, made = -1, []
    for at in range(0, messages * every, every):
        if dice.random() < every / 30_000:  # the source is congested: all are slow together
            congested_until = at + dice.randrange(300, 1_800)
        for gmp, kind in kinds.items():
            if at >= until[gmp] and dice.random() < kind.out * every / (kind.outage * 3_600):
                until[gmp] = at + kind.outage * 3_600
        asked: Sequence[int] = dice.sample(GMPS, dice.choice([3, 4, 5, 5]))
        slow = dice.uniform(1, 4) if at < congested_until else 1.0
        made.append(Observation(at, {gmp: _took(dice, kinds[gmp], slow, is_out=at < until[gmp]) for gmp in asked}))
    return made


def worse(one: Observation, gmp: int, seconds: int) -> Observation:
    """The same message, if the GMP had taken so much longer."""
    took = one.seconds.get(gmp)
    return one if took is None else Observation(one.at, {**one.seconds, gmp: took + seconds})


def _took(dice: random.Random, kind: Character, slow: float, *, is_out: bool) -> int | None:
    took = round(kind.median * slow * dice.lognormvariate(0, kind.spread))
    return None if is_out or dice.random() < kind.lost else took
