"""Dead letters: an append-only log whose records are signed, each chained to its predecessor by hash.

A letter's state is derived from its records. The store's table of letters is only an index of the log.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from eth_utils import decode_hex, keccak

NO_RECORD: Final = bytes(32)
"""The predecessor's hash in the first record."""

ACTION_ROUTE: Final = "action"
"""Stands in place of a GMP in a dead letter about an atomic action."""


def action_letter_id(action_id: bytes, branch: int) -> str:
    """Returns the event id of the dead letter for a participant that contradicts an action's decision."""
    return f"0x{action_id.hex()}/{ACTION_ROUTE}/{branch}"


def action_of_letter(event_id: str) -> tuple[bytes, int] | None:
    """Returns the action and the participant that a dead letter is about, or None if it is about a message."""
    action_id, is_action, branch = event_id.partition(f"/{ACTION_ROUTE}/")
    return (decode_hex(action_id), int(branch)) if is_action else None


class LetterStatus(StrEnum):
    """The state of a letter."""

    PENDING_REVIEW = "PENDING_REVIEW"  # an operator has to decide
    RETRY_QUEUED = "RETRY_QUEUED"  # decided: the delivery is being retried
    ABANDONED = "ABANDONED"  # decided: never delivered again
    RECOVERED = "RECOVERED"  # the message reached its recipient later


class RecordKind(StrEnum):
    """The kind of a record in a letter's history."""

    ENTERED = "ENTERED"  # a delivery used up its tries
    RETURNED = "RETURNED"  # the delivery used up its tries again after a requeue
    DECIDED = "DECIDED"  # an operator decided; the document is the signed decision
    RECOVERED = "RECOVERED"  # the message arrived; the document contains the evidence


class Decision(StrEnum):
    """An operator's decisions."""

    RETRY = "RETRY"  # send a new message in its place
    REQUEUE = "REQUEUE"  # deliver the same message again, with all its tries
    ABANDON = "ABANDON"
    GOVERNANCE_ESCALATION = (
        "GOVERNANCE_ESCALATION"  # hand it to governance; it stays under review until governance decides
    )


_AFTER: Final[Mapping[Decision, LetterStatus]] = {
    Decision.RETRY: LetterStatus.RETRY_QUEUED,
    Decision.REQUEUE: LetterStatus.RETRY_QUEUED,
    Decision.ABANDON: LetterStatus.ABANDONED,
    Decision.GOVERNANCE_ESCALATION: LetterStatus.PENDING_REVIEW,
}
OPEN: Final = frozenset({LetterStatus.PENDING_REVIEW, LetterStatus.RETRY_QUEUED})


class ForbiddenDecisionError(Exception):
    """The letter's state does not allow this record."""


class BrokenLogError(Exception):
    """The log is broken and can't be continued; `waybill dlq verify` reports where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A record that has no sequence number in the log yet."""

    key: str  # identifies the event, so that it is recorded once
    kind: RecordKind
    event_id: str  # of the outbox entry
    at: float  # Unix seconds
    document: Mapping[str, Any]  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord(Draft):
    """A record of the log. Its hash covers the document's hash, and thereby the document."""

    sequence: int  # 1 is the first
    previous: bytes  # hash of the previous record
    document_hash: bytes
    signer: str = ""
    signature: bytes = b""

    @classmethod
    def of(cls, draft: Draft, sequence: int, previous: bytes) -> LogRecord:
        """Builds the unsigned record of a draft that follows the record with hash `previous`."""
        return cls(
            sequence=sequence,
            previous=previous,
            key=draft.key,
            kind=draft.kind,
            event_id=draft.event_id,
            at=draft.at,
            document_hash=keccak(canonical(draft.document)),
            document=draft.document,
        )

    @property
    def hash(self) -> bytes:
        """Returns the hash that the next record refers to and that is signed."""
        content = [self.sequence, self.key, self.kind.value, self.event_id, repr(self.at)]
        return keccak(self.previous + self.document_hash + canonical(content))

    @property
    def is_whole(self) -> bool:
        """Whether the document matches its hash."""
        return keccak(canonical(self.document)) == self.document_hash

    def signed(self, sealer: Sealer) -> LogRecord:
        """Returns the record with its signature."""
        return replace(self, signer=sealer.address, signature=sealer.seal(self))


class Sealer(Protocol):
    """Signs the records that this process writes."""

    @property
    def address(self) -> str:
        """Returns the signing account with its EIP-55 checksum."""

    def seal(self, record: LogRecord) -> bytes:
        """Returns the 65-byte signature of the record's sequence and hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A dead letter in its current state."""

    event_id: str
    message_id: bytes
    kind: str  # of the message
    source_chain: int
    destination_chain: int
    gmp: str
    error_code: str  # of its last failure
    status: LetterStatus
    entered_at: float  # Unix seconds: the first time
    retention_until: float  # Unix seconds until which the document is kept at least
    first_sequence: int  # of its first record, which holds the message
    last_sequence: int

    @classmethod
    def entered(cls, record: LogRecord) -> DeadLetter:
        """Builds the letter from its first record."""
        if record.kind is not RecordKind.ENTERED:
            raise ForbiddenDecisionError(f"{record.event_id} has no dead letter, so it can't be {record.kind}")
        document = record.document
        return cls(
            event_id=record.event_id,
            message_id=decode_hex(document["messageId"]),
            kind=document["messageType"],
            source_chain=document["sourceChainId"],
            destination_chain=document["destinationChainId"],
            gmp=document["gmp"],
            error_code=document["failureHistory"][-1]["errorCode"],
            status=LetterStatus.PENDING_REVIEW,
            entered_at=record.at,
            retention_until=document["retentionUntilSeconds"],
            first_sequence=record.sequence,
            last_sequence=record.sequence,
        )

    def after(self, record: LogRecord) -> DeadLetter:
        """Returns the letter's state after another record.

        Raises:
            ForbiddenDecisionError: The letter's state does not allow the record.
        """
        match record.kind:
            case RecordKind.ENTERED:
                raise ForbiddenDecisionError(f"dead letter {self.event_id} already exists")
            case RecordKind.RETURNED:
                return self._became(LetterStatus.PENDING_REVIEW, record)
            case RecordKind.RECOVERED:
                return self._became(LetterStatus.RECOVERED, record)
            case RecordKind.DECIDED:
                return self._became(_AFTER[Decision(record.document["decisionType"])], record)

    def _became(self, status: LetterStatus, record: LogRecord) -> DeadLetter:
        allowed = OPEN if record.kind is not RecordKind.RECOVERED else OPEN | {LetterStatus.ABANDONED}
        if self.status not in allowed:
            raise ForbiddenDecisionError(
                f"dead letter {self.event_id} is already {self.status}; there is nothing left to decide"
            )
        return replace(self, status=status, last_sequence=record.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersWaiting:
    """The number of undecided letters of a lane and GMP; 0 once all are decided."""

    source_chain: int
    destination_chain: int
    gmp: str
    count: int
    entered: int  # total number of entries and returns


def canonical(value: Any) -> bytes:
    """Serialises a value to canonical JSON, the bytes that are hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class LogHead:
    """The last known record of the log. A log without this record was truncated or rewritten."""

    sequence: int = 0
    hash: bytes = NO_RECORD
