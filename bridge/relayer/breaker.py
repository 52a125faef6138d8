"""Circuit breakers, one per GMP and destination. While every delivery fails, only single probes are let through.

A breaker's state is a function of the tries in the store. It survives a restart, and every process that reads
the store sees the same state. Entries behind an open breaker wait in the outbox; waiting does not count as a
try.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import structlog

from bridge.protocol.backoff import backoff
from bridge.protocol.classification import class_of
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Clock
from bridge.records.figures import Tried
from bridge.store.figures import Figures

_log = structlog.get_logger(__name__)

_LEAST_MESSAGES: Final = 3  # one undeliverable message is no evidence about its GMP


class BreakerState(StrEnum):
    """The state of a breaker, which decides which deliveries it admits."""

    CLOSED = "CLOSED"  # all
    HALF_OPEN = "HALF_OPEN"  # one probe
    OPEN = "OPEN"  # none


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """Thresholds and durations of a breaker. Durations are in seconds."""

    failures: int = 10  # consecutive failures that open it
    cooldown: float = 10.0  # until the first probe
    cooldown_cap: float = 60.0  # each failed probe doubles the wait, up to this

    @property
    def memory(self) -> float:
        """Returns how long a try counts, in seconds."""
        return 10 * self.cooldown_cap


BREAKER: Final = BreakerSettings()
"""The settings that relayers and pages share, so that they compute the same state from the store."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker for deliveries over one GMP to one destination.

    Attributes:
        failures: Consecutive failures since the last successful delivery.
        messages: Number of distinct messages among those failures, up to the threshold.
        opened_at: Unix seconds when the breaker opened or its last probe failed; None while it is closed.
        cooldown: Seconds from `opened_at` until the next probe.
    """

    settings: BreakerSettings
    failures: int = 0
    messages: frozenset[bytes] = frozenset()
    opened_at: float | None = None
    cooldown: float = 0.0

    def after(self, tried: Tried) -> Breaker:
        """Returns the breaker updated with the result of another try."""
        if tried.code is None:
            return Breaker(self.settings)
        if not class_of(tried.code).blames_gmp:
            return self
        messages = self.messages if len(self.messages) >= _LEAST_MESSAGES else self.messages | {tried.message_id}
        failed = replace(self, failures=self.failures + 1, messages=messages)
        if self.opened_at is not None:
            # Only a failed probe lengthens the wait, not a delivery that was in progress when the breaker opened.
            if tried.at < self.opened_at + self.cooldown:
                return failed
            longer = backoff(self.cooldown, 1, cap=self.settings.cooldown_cap)
            return replace(failed, opened_at=tried.at, cooldown=longer)
        if failed.failures >= self.settings.failures and len(messages) >= _LEAST_MESSAGES:
            return replace(failed, opened_at=tried.at, cooldown=self.settings.cooldown)
        return failed

    def state(self, now: float) -> BreakerState:
        """Returns the state at `now` (Unix seconds)."""
        if self.opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.opened_at + self.cooldown else BreakerState.HALF_OPEN

    @property
    def probes_at(self) -> float | None:
        """Returns when the next probe is due (Unix seconds), or None while the breaker is closed."""
        return None if self.opened_at is None else self.opened_at + self.cooldown


def breakers(tries: Iterable[Tried], settings: BreakerSettings = BREAKER) -> dict[tuple[Gmp, int], Breaker]:
    """Builds the breakers of all GMPs and destinations from their tries, oldest first."""
    found: dict[tuple[Gmp, int], Breaker] = {}
    for tried in tries:
        key = (tried.gmp, tried.destination_chain)
        found[key] = found.get(key, Breaker(settings)).after(tried)
    return found


class GmpHealth:
    """The breakers of all GMPs for one destination, derived from the store and from this worker's own tries."""

    def __init__(
        self, destination_chain: int, figures: Figures, clock: Clock, settings: BreakerSettings = BREAKER
    ) -> None:
        self._destination = destination_chain
        self._figures = figures
        self._clock = clock
        self._settings = settings
        self._breakers: dict[Gmp, Breaker] | None = None

    def record(self, tried: Tried) -> None:
        """Updates the breakers with another try."""
        known = self._known()
        before = known.get(tried.gmp, Breaker(self._settings))
        after = before.after(tried)
        known[tried.gmp] = after
        if before.opened_at is None and after.opened_at is not None:
            _log.error(
                "circuit breaker opened",
                gmp=tried.gmp.label,
                destination=self._destination,
                failures=after.failures,
                probe_in=after.cooldown,
                error=tried.code,
            )
        elif before.opened_at is not None and after.opened_at is None:
            _log.info("circuit breaker closed", gmp=tried.gmp.label, destination=self._destination)

    def among(self, gmps: AbstractSet[Gmp], state: BreakerState) -> frozenset[Gmp]:
        """Returns those of `gmps` whose breaker is in `state` now."""
        known, now = self._known(), self._clock.now()
        return frozenset(gmp for gmp in gmps if known.get(gmp, Breaker(self._settings)).state(now) is state)

    def _known(self) -> dict[Gmp, Breaker]:
        if self._breakers is None:
            tries = self._figures.recent(self._clock.now() - self._settings.memory)
            found = breakers(tries, self._settings)
            self._breakers = {gmp: breaker for (gmp, chain), breaker in found.items() if chain == self._destination}
        return self._breakers
