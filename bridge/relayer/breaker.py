"""The circuit breaker of each GMP and destination: while every delivery fails, only one probe is tried.

Its state is a function of the tries that the store remembers, so that it survives the process, and every process that reads
the store sees the same one. Entries behind an open breaker wait in the outbox and use up no tries.
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

_LEAST_MESSAGES: Final = 3  # one message that can't be delivered says nothing about its GMP


class BreakerState(StrEnum):
    """What is delivered over a GMP."""

    CLOSED = "CLOSED"  # everything
    HALF_OPEN = "HALF_OPEN"  # one delivery, to see whether it works again
    OPEN = "OPEN"  # nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """Times are in seconds."""

    failures: int = 10  # in a row that open it
    cooldown: float = 10.0  # until one delivery may try
    cooldown_cap: float = 60.0  # each failed probe doubles the wait, up to this

    @property
    def memory(self) -> float:
        """How far back tries matter."""
        return 10 * self.cooldown_cap


BREAKER: Final = BreakerSettings()
"""What every relayer and every page goes by: they compute the same state from the store."""


@dataclass(frozen=True, slots=True)
class Breaker:
    """One GMP towards one destination.

    Attributes:
        failures: in a row, since a delivery last worked.
        messages: how many different ones failed so, up to as many as matter.
        opened_at: when it opened, or a probe failed last; None while it is closed.
        cooldown: seconds from then on until a probe.
    """

    settings: BreakerSettings
    failures: int = 0
    messages: frozenset[bytes] = frozenset()
    opened_at: float | None = None
    cooldown: float = 0.0

    def after(self, tried: Tried) -> Breaker:
        """The breaker after another try."""
        if tried.code is None:
            return Breaker(self.settings)
        if not class_of(tried.code).blames_gmp:
            return self
        messages = self.messages if len(self.messages) >= _LEAST_MESSAGES else self.messages | {tried.message_id}
        failed = replace(self, failures=self.failures + 1, messages=messages)
        if self.opened_at is not None:
            # What was under way when it opened does not lengthen the wait: only a probe does.
            if tried.at < self.opened_at + self.cooldown:
                return failed
            longer = backoff(self.cooldown, 1, cap=self.settings.cooldown_cap)
            return replace(failed, opened_at=tried.at, cooldown=longer)
        if failed.failures >= self.settings.failures and len(messages) >= _LEAST_MESSAGES:
            return replace(failed, opened_at=tried.at, cooldown=self.settings.cooldown)
        return failed

    def state(self, now: float) -> BreakerState:
        """What is delivered at that moment (Unix seconds)."""
        if self.opened_at is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.opened_at + self.cooldown else BreakerState.HALF_OPEN

    @property
    def probes_at(self) -> float | None:
        """When one delivery may try again (Unix seconds), None while it is closed."""
        return None if self.opened_at is None else self.opened_at + self.cooldown


def breakers(tries: Iterable[Tried], settings: BreakerSettings = BREAKER) -> dict[tuple[Gmp, int], Breaker]:
    """The breakers of all GMPs and destinations, from what was tried, the oldest first."""
    found: dict[tuple[Gmp, int], Breaker] = {}
    for tried in tries:
        key = (tried.gmp, tried.destination_chain)
        found[key] = found.get(key, Breaker(settings)).after(tried)
    return found


class GmpHealth:
    """The breakers of all GMPs towards one destination: first from the store, then from this worker's own tries."""

    def __init__(
        self, destination_chain: int, figures: Figures, clock: Clock, settings: BreakerSettings = BREAKER
    ) -> None:
        self._destination = destination_chain
        self._figures = figures
        self._clock = clock
        self._settings = settings
        self._breakers: dict[Gmp, Breaker] | None = None

    def record(self, tried: Tried) -> None:
        """Takes another try into account."""
        known = self._known()
        before = known.get(tried.gmp, Breaker(self._settings))
        after = before.after(tried)
        known[tried.gmp] = after
        if before.opened_at is None and after.opened_at is not None:
            _log.error(
                "circuit breaker opened: its messages wait",
                gmp=tried.gmp.label,
                destination=self._destination,
                failures=after.failures,
                probe_in=after.cooldown,
                error=tried.code,
            )
        elif before.opened_at is not None and after.opened_at is None:
            _log.info(
                "circuit breaker closed: deliveries work again", gmp=tried.gmp.label, destination=self._destination
            )

    def among(self, gmps: AbstractSet[Gmp], state: BreakerState) -> frozenset[Gmp]:
        """Those of some GMPs whose breaker is in a state now."""
        known, now = self._known(), self._clock.now()
        return frozenset(gmp for gmp in gmps if known.get(gmp, Breaker(self._settings)).state(now) is state)

    def _known(self) -> dict[Gmp, Breaker]:
        if self._breakers is None:
            tries = self._figures.recent(self._clock.now() - self._settings.memory)
            found = breakers(tries, self._settings)
            self._breakers = {gmp: breaker for (gmp, chain), breaker in found.items() if chain == self._destination}
        return self._breakers
