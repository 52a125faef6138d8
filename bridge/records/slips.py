"""Routing slips: where each delivery of a message was at one moment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge.records.outbox import OutboxEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class SlipLine:
    """Where one delivery was."""

    event_id: str
    state: str
    attempts: int  # tries so far
    last_error: str | None

    def value(self) -> dict[str, Any]:
        """The line as JSON."""
        return {
            "eventId": self.event_id,
            "state": self.state,
            "attempts": self.attempts,
            "lastError": self.last_error,
        }


Slip = tuple[SlipLine, ...]


def slip_of(entries: Iterable[OutboxEntry]) -> Slip:
    """The slip of a message's deliveries as they are now."""
    return tuple(
        SlipLine(event_id=one.event_id, state=one.state.value, attempts=one.attempts, last_error=one.last_error)
        for one in entries
    )


def slip_text(slip: Slip) -> str | None:
    """The slip as it is stored; None for an empty one."""
    return json.dumps([asdict(line) for line in slip]) if slip else None


def slip_from(text: str | None) -> Slip:
    """The slip that was stored."""
    return tuple(SlipLine(**line) for line in json.loads(text)) if text else ()
