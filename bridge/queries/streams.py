"""Queries about the streams to Kafka."""

from __future__ import annotations

from typing import Any

from bridge.records.streams import StreamStatus


def stream_value(found: StreamStatus, now: float) -> dict[str, Any]:
    """Returns the progress of the streams, for JSON; `now` is in Unix seconds."""
    return {
        "recording": found.recording,
        "waiting": found.waiting,
        "oldestSeconds": None if found.oldest is None else max(0.0, now - found.oldest),
        "version": found.version,
        "sent": dict(found.sent),
        "publishedBy": found.holder,
        "halted": found.halted or None,
        "error": found.error or None,
    }
