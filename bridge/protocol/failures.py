"""Failed tries, as an entry's history keeps them, each with a snapshot of the message's deliveries."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.protocol.text import shortened, visible

_LONGEST_ERROR = 1_000  # characters
_SAYS_HOW_MUCH = 40  # of them, kept for saying how much was cut

CONFIRMATION: Final = "confirmation"
"""The worker of failures without one: a delivery was missing when its block became final."""


class FailureKind(StrEnum):
    """The kind of a failure, as far as it affects the next try."""

    TRANSIENT = "TRANSIENT"
    TERMINAL = "TERMINAL"
    REFUSED = "REFUSED"  # a contract refused, and may take it later
    UNKNOWN = "UNKNOWN"  # in no row of `bridge.protocol.classification`
    INTERRUPTED = "INTERRUPTED"  # the worker stopped, or its lease ran out
    UNANSWERED = "UNANSWERED"  # no endpoint, service or store gave an answer that can be used
    UNDONE = "UNDONE"  # a reorg of the destination took the delivery back

    @property
    def costs_a_try(self) -> bool:
        """Whether the failure uses up one of the delivery's tries: an interruption does, a missing answer and a reorg do not."""
        return self not in (FailureKind.UNANSWERED, FailureKind.UNDONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLine:
    """The state of one delivery."""

    event_id: str
    state: str
    failed_tries: int
    last_error: str | None

    def value(self) -> dict[str, Any]:
        """The line as JSON."""
        return {
            "eventId": self.event_id,
            "state": self.state,
            "failedTries": self.failed_tries,
            "lastError": self.last_error,
        }


DeliverySnapshot = tuple[SnapshotLine, ...]
"""The state of each delivery of a message at one moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed try."""

    at: float  # Unix seconds
    kind: FailureKind
    code: str  # the type of error, a word for programs
    message: str  # for people
    delivery_snapshot: DeliverySnapshot = ()  # where the message's deliveries were when it failed
    letter: bool | None = None  # whether the delivery died with a dead letter; None: it did not die, or unknown

    def __post_init__(self) -> None:
        """Truncates and escapes the message, which may hold text of untrusted contracts and nodes."""
        text = visible(self.message)
        if len(text) > _LONGEST_ERROR:
            text = shortened(text, _LONGEST_ERROR - _SAYS_HOW_MUCH)
        object.__setattr__(self, "message", text)


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """A failure in an entry's history."""

    number: int  # 1 is the first try that failed
    worker: str
    failure: Failure


def snapshot_text(delivery_snapshot: DeliverySnapshot) -> str | None:
    """The snapshot as it is stored; None for an empty one."""
    return json.dumps([asdict(line) for line in delivery_snapshot]) if delivery_snapshot else None


def snapshot_from(text: str | None) -> DeliverySnapshot:
    """The snapshot that was stored."""
    return tuple(SnapshotLine(**line) for line in json.loads(text)) if text else ()
