"""What an operator decides about the tripwire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.protocol.gmps import Gmp

MAX_PAUSE: Final = 6 * 3600
"""Seconds that the router allows a tripwire's pause to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripwireSettings:
    """How the tripwire watches, and what it does.

    Attributes:
        pause: seconds that a GMP is paused for.
        poll_interval: seconds between two looks at a chain.
        max_clock_skew: seconds by which the times of two chains may differ.
        block_range: blocks asked for at once when catching up.
        early_gmps: GMPs that may deliver before the source is final.
        is_dry_run: whether people are told and nothing is paused.
        max_fee: wei per gas that a pause's transaction does not exceed; None is no limit.
    """

    pause: int = MAX_PAUSE
    poll_interval: float = 0.5
    max_clock_skew: float = 15.0
    block_range: int = 2_000
    early_gmps: frozenset[Gmp] = frozenset()
    is_dry_run: bool = False
    max_fee: int | None = None
