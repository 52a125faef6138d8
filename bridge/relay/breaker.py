"""The circuit breaker of each GMP and destination: while every delivery fails, none but a probe is tried.

Its state is a function of the tries that the store remembers, so that it survives the process, and every process that reads
the store sees the same one. Entries behind an open breaker wait in the outbox and use up no tries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.protocol.gmps import Gmp
from bridge.records.figures import Tried

BLAMED: Final = frozenset(
    {"NotAttestedError", "AttestationUnansweredError", "CallRevertedError", "DeliveryRevertedError"}
)
"""Failures that speak against the GMP. The rest is the destination's endpoints, its fees, or this process."""

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
        if tried.code not in BLAMED:
            return self
        messages = self.messages if len(self.messages) >= _LEAST_MESSAGES else self.messages | {tried.message_id}
        failed = replace(self, failures=self.failures + 1, messages=messages)
        if self.opened_at is not None:
            # What was under way when it opened does not lengthen the wait: only a probe does.
            if tried.at < self.opened_at + self.cooldown:
                return failed
            longer = min(2 * self.cooldown, self.settings.cooldown_cap)
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


def breakers(tries: Iterable[Tried], settings: BreakerSettings) -> dict[tuple[Gmp, int], Breaker]:
    """The breakers of all GMPs and destinations, from what was tried, the oldest first."""
    found: dict[tuple[Gmp, int], Breaker] = {}
    for tried in tries:
        key = (tried.gmp, tried.destination_chain)
        found[key] = found.get(key, Breaker(settings)).after(tried)
    return found
