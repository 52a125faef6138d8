"""Outgoing streams.

Changes recorded by the store and the index are published in one order to topics that other systems read.

A record gets its version once, when it is claimed for sending. Versions always increase, even across a restored
backup: each is the time in microseconds, or the last version plus one. So (message id, version) identifies a
record everywhere, and a consumer only needs to keep the highest version of each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import orjson

from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.records.dead_letters import LogRecord, RecordKind

REFUSED: Final = "refused"
"""The counter of records that a topic refused and that went to the dead-letter topic."""


class Stream(StrEnum):
    """The streams; each has its own topic."""

    MESSAGES = "messages"  # events of messages and their deliveries
    RETRIES = "retries"  # the index's retry requests and their outcomes
    DIVERGENCES = "divergences"  # contradictions that the index finds, and their end
    DEAD_LETTERS = "dead_letters"  # records of the log of dead letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change without a version yet."""

    stream: Stream
    key: str  # the message's id as 0x and 64 hex digits, or a lane
    event: str
    at: float  # Unix seconds
    data: Mapping[str, Any]  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord(Change):
    """A change with its version, which stays the same however often it is sent."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """The progress of publishing. Times are Unix seconds."""

    recording: bool  # whether changes are recorded for this sink: the relayer that started last has it configured
    waiting: int  # records that are not sent yet
    oldest: float | None  # when the oldest of them happened
    version: int  # of the last record that was sent
    sent: Mapping[str, int]  # records sent, by stream, and `REFUSED`
    holder: str  # the worker that publishes
    halted: str  # why publishing halted, until an operator resumes it; empty while it goes on
    error: str  # error of the last try; empty: none


def change_of(record: LogRecord) -> Change:
    """Converts a record of the dead-letter log to a change."""
    data = {"eventId": record.event_id, "kind": record.kind.value, "signer": record.signer, "document": record.document}
    message = record.event_id.partition("/")[0]
    return Change(stream=Stream.DEAD_LETTERS, key=message, event=record.kind.value, at=record.at, data=data)


def value_of(record: StreamRecord) -> bytes:
    """Serialises a record as JSON; see docs/streams.md."""
    data = dict(record.data)
    if "gmp" in data:
        data["gmp"] = Gmp(data["gmp"]).label
    if "gmps" in data:
        data["gmps"] = [gmp.label for gmp in sorted(gmps_from_bits(data["gmps"]))]
    document = {
        "stream": record.stream.value,
        "key": record.key,
        "version": record.version,
        "event": record.event,
        "at": record.at,
        "data": data,
    }
    return orjson.dumps(document)


def original_of(record: StreamRecord) -> Mapping[str, Any] | None:
    """Returns the letter's document if the record belongs in the dead-letter topic, otherwise None.

    A record belongs there if a letter entered or returned.
    """
    died = record.stream is Stream.DEAD_LETTERS and record.event in (RecordKind.ENTERED, RecordKind.RETURNED)
    document: Mapping[str, Any] | None = record.data["document"] if died else None
    return document
