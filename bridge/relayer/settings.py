"""What an operator decides about observing and delivering: over which GMPs, how much at once, in which order, for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import DEFAULT_ATOMICITY, AssetClass, Atomicity
from bridge.protocol.lanes import Lane
from bridge.protocol.message import Kind
from bridge.records.relay_policy import EVERYTHING, RelayPolicy
from bridge.relayer.breaker import BreakerSettings
from bridge.relayer.delivery_commits import CommitSettings


class Ordering(StrEnum):
    """What a delivery that fails does to those behind it in its lane and GMP (their `ordering_key`)."""

    SKIP = "skip"  # nothing: they overtake it
    BLOCK = "block"  # they wait until it is DELIVERED or DEAD; one at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLimit:
    """Other phase timeouts for some messages.

    Attributes:
        lanes: which ones it is about; None is every one.
        kind: the same.
        seconds: by phase, "attest" and "deliver".
    """

    lanes: frozenset[Lane] | None = None
    kind: Kind | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    def fits(self, lane: Lane, kind: Kind) -> bool:
        """Whether it is about such messages."""
        return (self.lanes is None or lane in self.lanes) and self.kind in (None, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """Times are in seconds."""

    gmps: frozenset[Gmp] = frozenset(Gmp)  # to deliver over; the others are observed all the same
    paused: frozenset[Gmp] = frozenset()  # not to deliver over for now
    poll_interval: float = 1.0  # between two looks at a chain
    lease: float = 15.0  # how long a dead worker keeps others from its entries
    in_flight: int = 64  # deliveries under way at once, per destination; idle queues and live traffic may add some
    commits: CommitSettings = field(default_factory=CommitSettings)
    ordering: Ordering = Ordering.SKIP
    asset_classes: tuple[AssetClass, ...] = ()  # whose minimum TTL messages are to keep
    atomicity: Mapping[Kind, Atomicity] = field(default_factory=lambda: DEFAULT_ATOMICITY)
    phase_timeouts: Mapping[str, float] = field(default_factory=dict)  # of "attest" and "deliver"; none named, none
    phase_limits: tuple[PhaseLimit, ...] = ()  # for some lanes and kinds
    retention: float | None = None  # after it, deliveries that are final are forgotten; None keeps them
    dedup_capacity: int | None = None  # messages that the store knows at once; None is no limit
    block_range: int = 2_000  # blocks asked for at once when catching up
    completeness_interval: float = 60.0  # between two comparisons of what was found with what the routers have counted
    acceptance: RelayPolicy = EVERYTHING  # whose messages to deliver; the others are observed and wait
    breaker: BreakerSettings = field(default_factory=BreakerSettings)

    def phases_of(self, lane: Lane, kind: Kind) -> Mapping[str, float]:
        """The timeouts of such messages, in seconds by phase: of the limits that fit the shortest, else the general ones."""
        found = dict(self.phase_timeouts)
        fitting = [limit.seconds for limit in self.phase_limits if limit.fits(lane, kind)]
        for phase in {phase for seconds in fitting for phase in seconds}:
            found[phase] = min(seconds[phase] for seconds in fitting if phase in seconds)
        return found

    @property
    def claimable(self) -> frozenset[Gmp]:
        """The GMPs whose entries are worked on."""
        return self.gmps - self.paused
