"""Which GMPs a message is retried over. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState, QueueCount

_WAITING = (OutboxState.PENDING, OutboxState.CLAIMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of the GMPs with regard to one message."""

    usable: frozenset[Gmp]  # enabled on both routers, and delivered over by this relayer
    received: frozenset[Gmp]  # have delivered it
    tried: frozenset[Gmp]  # took it in an earlier attempt
    failing: frozenset[Gmp]  # fail on its lane now


def ranked(situation: Situation) -> list[Gmp]:
    """The GMPs that may carry the message again, the best first: healthy before failing, untried before silent ones."""
    candidates = situation.usable - situation.received
    return sorted(candidates, key=lambda gmp: (gmp in situation.failing, gmp in situation.tried, gmp))


def failing_on(counts: Iterable[QueueCount], source_chain: int, destination_chain: int) -> frozenset[Gmp]:
    """The GMPs of a lane with deliveries that failed and are not there yet."""
    return frozenset(
        count.gmp
        for count in counts
        if (count.source_chain, count.destination_chain) == (source_chain, destination_chain)
        and count.state in _WAITING
        and count.failing
    )
