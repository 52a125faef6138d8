"""Settings of the tripwire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.protocol.gmps import Gmp

MAX_PAUSE: Final = 6 * 3600
"""Longest pause that the router grants a tripwire, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripwireSettings:
    """Conditions for accusing a GMP, and the duration of a pause.

    Attributes:
        pause: Duration of a pause in seconds.
        poll_interval: Seconds between two reads of the index.
        max_clock_skew: Seconds by which two chains' clocks may differ.
        early_gmps: GMPs that may deliver before source finality. For a message missing on its source they are reported
            but never
            paused, because a reorg explains it.
    """

    pause: int = MAX_PAUSE
    poll_interval: float = 0.5
    max_clock_skew: float = 15.0
    early_gmps: frozenset[Gmp] = frozenset()
