"""Formats numbers for display, in the same way in pages and commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal


def count(number: int) -> str:
    """Formats a count with groups of three digits, such as ``12,345``."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Formats a number with its noun, such as ``1 message``, ``2 messages`` or ``2 deliveries``."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count(number)} {noun}"


def percent(part: int, whole: int) -> str:
    """Formats part/whole as a percentage with one decimal place. Never rounds up to 100 %. A whole of 0 gives a dash."""
    if not whole:
        return "–"
    return "100 %" if part == whole else f"{min(99.9, 100 * part / whole):.1f} %"


def duration(seconds: float | None) -> str:
    """Formats seconds in the two largest units, such as ``3 m 12 s``; empty if unknown."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds == int(seconds) else f"{max(seconds, 0.1):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def amount(wei: int) -> str:
    """Formats an amount of wei with four digits, in wei, gwei or ETH."""
    if wei < 10**9:
        return f"{wei} wei"
    unit, size = ("gwei", 10**9) if wei < 10**13 else ("ETH", 10**18)
    text = f"{Decimal(f'{wei / size:.4g}'):,f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def percentile(ascending: Sequence[int], share: float) -> int:
    """Returns the nearest-rank percentile of a sorted, non-empty sequence.

    This is the lowest value that at least `share` of the values do not exceed.

    The result is always one of the values. All of Waybill's percentiles use this definition, which Spark SQL
    calls `percentile_disc`.
    """
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]
