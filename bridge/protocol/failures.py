"""Failed tries in an entry's history, each with a snapshot of the message's deliveries."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.protocol.text import shortened, visible

_LONGEST_ERROR = 1_000  # characters
_SAYS_HOW_MUCH = 40  # characters reserved for stating how much was cut

CONFIRMATION: Final = "confirmation"
"""The worker of failures without one: a delivery was missing when its block became final."""


class FailureKind(StrEnum):
    """The kind of a failure, which determines how it affects the next try."""

    TRANSIENT = "TRANSIENT"
    TERMINAL = "TERMINAL"
    REFUSED = "REFUSED"  # a contract rejected the call, and may accept it later
    UNKNOWN = "UNKNOWN"  # not in the table of `bridge.protocol.classification`
    INTERRUPTED = "INTERRUPTED"  # the worker stopped, or its lease ran out
    UNANSWERED = "UNANSWERED"  # no endpoint, service or store gave a usable response
    UNDONE = "UNDONE"  # a reorg of the destination removed the delivery

    @property
    def costs_a_try(self) -> bool:
        """Whether the failure counts as one of the delivery's tries.

        An interruption does; a missing response or a reorg does not.
        """
        return self not in (FailureKind.UNANSWERED, FailureKind.UNDONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLine:
    """The state of one delivery."""

    event_id: str
    state: str
    failed_tries: int
    last_error: str | None

    def value(self) -> dict[str, Any]:
        """Returns the line as JSON."""
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
    code: str  # the error's code, for programs
    message: str  # for people
    delivery_snapshot: DeliverySnapshot = ()  # state of the message's deliveries at the failure
    letter: bool | None = None  # whether the delivery died with a dead letter; None: it did not die, or unknown

    def __post_init__(self) -> None:
        """Truncates and escapes the message, which may contain text from untrusted contracts and nodes."""
        text = visible(self.message)
        if len(text) > _LONGEST_ERROR:
            text = shortened(text, _LONGEST_ERROR - _SAYS_HOW_MUCH)
        object.__setattr__(self, "message", text)


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """A failure in an entry's history."""

    number: int  # number of the failed try, from 1
    worker: str
    failure: Failure


def snapshot_text(delivery_snapshot: DeliverySnapshot) -> str | None:
    """Serialises a snapshot for the store. Returns None if it is empty."""
    return json.dumps([asdict(line) for line in delivery_snapshot]) if delivery_snapshot else None


def snapshot_from(text: str | None) -> DeliverySnapshot:
    """Parses a stored snapshot."""
    return tuple(SnapshotLine(**line) for line in json.loads(text)) if text else ()
