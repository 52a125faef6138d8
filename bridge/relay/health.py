"""How each GMP does towards each destination, and what may be delivered over it now."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import structlog

from bridge.ports import Clock
from bridge.protocol.gmps import Gmp
from bridge.records.figures import Figures, Tried
from bridge.relay.breaker import Breaker, BreakerSettings, BreakerState, breakers

_log = structlog.get_logger(__name__)


class GmpHealth:
    """The breakers towards one destination: from the store at first, then from this worker's own tries."""

    def __init__(self, destination_chain: int, figures: Figures, clock: Clock, settings: BreakerSettings) -> None:
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
