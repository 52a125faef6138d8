"""Formats timestamps for programs and for display."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_LAST: Final = 253_402_300_799
"""The last second of the year 9999, where Python's dates end; a contract may report any number."""


def iso(seconds: float | None) -> str | None:
    """Formats Unix seconds as ISO 8601 in UTC, such as ``2026-11-28T22:00:00Z``.

    Includes milliseconds if the seconds are not whole.

    Times after the year 9999 are reduced to that year's last second.
    """
    if seconds is None:
        return None
    seconds = min(seconds, _LAST)
    if seconds != int(seconds):
        return iso_milliseconds(seconds)
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def iso_milliseconds(seconds: float) -> str:
    """Formats Unix seconds as ISO 8601 in UTC with milliseconds, such as ``2026-11-28T22:00:00.000Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def readable(moment: str) -> str:
    """Converts a timestamp from the format of `iso` to that of `utc`, for display."""
    return moment[:19].replace("T", " ")


def utc(seconds: float | None) -> str | None:
    """Formats Unix seconds as date and time in UTC, such as ``2026-11-28 22:00:00``."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
