"""When a message really expires: pauses stop its clock (docs/decisions/0008-pauses-stop-the-clock.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.protocol.indexed import PausedThing, PauseRecord
from bridge.protocol.message import Message


@dataclass(frozen=True, slots=True)
class Expiry:
    """The end of a message's time to live.

    Attributes:
        at: Unix seconds: the last second in which the message may be executed.
        blocked: seconds by which pauses have put it off, those of a pause under way up to its announced end.
    """

    at: int
    blocked: int


def expiry_of(message: Message, pauses: Iterable[PauseRecord]) -> Expiry | None:
    """The expiry that a router applies to a message, or None if the message never expires.

    Args:
        message: which one.
        pauses: the pauses that the router's chain told of. The destination's router decides about executions, the source's
            about retries; each goes by its own pauses.
    """
    if message.ttl == 0:
        return None
    ends = (message.source_chain, message.destination_chain)
    clocks = sorted(
        (one.begins, one.ends) for one in pauses if one.thing is PausedThing.CLOCK and one.number in (0, *ends)
    )
    at = message.sent_at + message.ttl
    for begins, stops in clocks:
        if begins <= at:
            at += max(0, stops - max(begins, message.sent_at))
    return Expiry(at=at, blocked=at - message.sent_at - message.ttl)


def lane_pause(pauses: Iterable[PauseRecord], other_chain: int, now: float) -> int | None:
    """When the lane's pause ends that is under way, in Unix seconds; None if it is open."""
    found = (one.ends for one in pauses if one.thing is PausedThing.LANE and one.number == other_chain)
    return max((ends for ends in found if now < ends), default=None)
