"""How the relay works."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.protocol.gmps import Gmp
from bridge.records.acceptance import EVERYTHING, Acceptance
from bridge.relay.breaker import BreakerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Times are in seconds."""

    gmps: frozenset[Gmp] = frozenset(Gmp)  # to deliver over; the others are observed all the same
    paused: frozenset[Gmp] = frozenset()  # not to deliver over for now
    poll: float = 1.0  # between two looks at a chain
    lease: float = 15.0  # how long a dead worker keeps others from its entries
    in_flight: int = 64  # deliveries worked on at once, per destination
    block_range: int = 2_000  # blocks asked for at once when catching up
    compare: float = 60.0  # between two comparisons of what was found with what the routers have counted
    acceptance: Acceptance = EVERYTHING  # whose messages to deliver; the others are observed and wait
    breaker: BreakerSettings = field(default_factory=BreakerSettings)

    @property
    def claimable(self) -> frozenset[Gmp]:
        """The GMPs whose entries are worked on."""
        return self.gmps - self.paused
