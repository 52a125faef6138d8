"""What an operator decides about the tripwire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.protocol.gmps import Gmp

MAX_PAUSE: Final = 6 * 3600
"""Seconds that the router allows a tripwire's pause to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripwireSettings:
    """When the tripwire accuses a GMP, and for how long it pauses it.

    Attributes:
        pause: seconds.
        poll_interval: seconds between two looks at the index.
        max_clock_skew: seconds by which the times of two chains may differ.
        early_gmps: GMPs that may deliver before the source is final. They are reported and never paused for a message that
            is missing on its source, since a block that fell explains it.
    """

    pause: int = MAX_PAUSE
    poll_interval: float = 0.5
    max_clock_skew: float = 15.0
    early_gmps: frozenset[Gmp] = frozenset()
