"""Which GMPs a message is retried over. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxEntry, OutboxState, QueueCount

_WAITING = (OutboxState.PENDING, OutboxState.CLAIMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known of the GMPs with regard to one message."""

    usable: frozenset[Gmp]  # enabled on both routers, and delivered over by this relayer
    received: frozenset[Gmp]  # have delivered it
    tried: frozenset[Gmp]  # took it in an earlier attempt
    failing: frozenset[Gmp]  # fail on its lane now
    given_up: frozenset[Gmp] = frozenset()  # a delivery of this very message over it has died
    ranking: tuple[Gmp, ...] = ()  # the index's: by how they have done on the lane of late, the best first


def ranked(situation: Situation) -> list[Gmp]:
    """The GMPs that may carry the message again, the best first.

    Those over which it has died come last, before them those that fail now, before them those that were tried and are silent;
    among equals the index's ranking decides.
    """
    place = {gmp: position for position, gmp in enumerate(situation.ranking)}
    return sorted(
        situation.usable - situation.received,
        key=lambda gmp: (
            gmp in situation.given_up,
            gmp in situation.failing,
            gmp in situation.tried,
            place.get(gmp, len(place)),
            gmp,
        ),
    )


def failing_on(counts: Iterable[QueueCount], source_chain: int, destination_chain: int) -> frozenset[Gmp]:
    """The GMPs of a lane with deliveries that failed and are not there yet."""
    return frozenset(
        count.gmp
        for count in counts
        if (count.source_chain, count.destination_chain) == (source_chain, destination_chain)
        and count.state in _WAITING
        and count.failing
    )


def given_up_on(entries: Iterable[OutboxEntry]) -> frozenset[Gmp]:
    """The GMPs over which a message's deliveries have died."""
    return frozenset(entry.dispatch.gmp for entry in entries if entry.state is OutboxState.DEAD)
