"""Streams out: what the store and the index record, in one order, on its way to other systems' topics.

A record gets its version when it is claimed for sending, once. Versions only grow, also over a restored backup: each is the
time in microseconds, or one more than the last. So (message id, version) names a record wherever it arrives, and a consumer
that keeps the highest version of each message needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import orjson

from bridge.domain.dead_letters import LogRecord, RecordKind
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.indexed import DivergenceRecord

REFUSED: Final = "refused"
"""Counts records that a topic did not take and that went to the dead-letter topic, beside the streams' own counts."""


class Sink(StrEnum):
    """Where records go. Each sink has a position of its own among them; a record is kept until all sinks have it."""

    KAFKA = "kafka"
    WEBHOOKS = "webhooks"


class Stream(StrEnum):
    """What a record is about; each stream has its own topic."""

    MESSAGES = "messages"  # what happened to a message and its deliveries
    RETRIES = "retries"  # what the index asks to retry, and what became of it
    DIVERGENCES = "divergences"  # what the index finds contradicting, and when it no longer does
    DEAD_LETTERS = "dead_letters"  # records of the log of dead letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that happened, before it has a version."""

    stream: Stream
    key: str  # the message's id as 0x and 64 hex digits; of what is about no message, a lane
    event: str
    at: float  # Unix seconds
    data: Mapping[str, Any]  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord(Change):
    """A change with the version under which it is sent, however often."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """How far the streams are. Times are Unix seconds."""

    recording: bool  # whether changes are recorded for this sink: the relayer that started last has it configured
    waiting: int  # records that are not sent yet
    oldest: float | None  # when the oldest of them happened
    version: int  # of the last record that was sent
    sent: Mapping[str, int]  # records sent, by stream, and `REFUSED`
    holder: str  # which worker sends
    halted: str  # why publishing halted, until an operator resumes it; empty while it goes on
    error: str  # what kept the last try from sending; empty: nothing


def change_of(record: LogRecord) -> Change:
    """A record of the log of dead letters as a change."""
    data = {"eventId": record.event_id, "kind": record.kind.value, "signer": record.signer, "document": record.document}
    message = record.event_id.partition("/")[0]
    return Change(stream=Stream.DEAD_LETTERS, key=message, event=record.kind.value, at=record.at, data=data)


def value_of(record: StreamRecord) -> bytes:
    """A record as it is sent: JSON, see docs/streams.md."""
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
    """The document of a letter whose message belongs into the dead-letter topic: one that was entered, now or once more."""
    died = record.stream is Stream.DEAD_LETTERS and record.event in (RecordKind.ENTERED, RecordKind.RETURNED)
    document: Mapping[str, Any] | None = record.data["document"] if died else None
    return document


class Divergences(Protocol):
    """What the index knows of contradictions."""

    def divergences(self) -> Sequence[DivergenceRecord]:
        """Facts that contradict each other."""


IndexSource = Callable[[], AbstractContextManager[Divergences | None]]
"""Opens the index; gives None while there is none."""


class Streams(Protocol):
    """Where changes wait until they are sent to one sink. Every method is one transaction."""

    def start(self) -> None:
        """Has the database record changes in the transactions that make them, and ends a halt.

        A sink that is new begins behind the records that another one was given before.
        """

    def stop(self) -> None:
        """Has the database record no more changes for this sink; what waits stays as long as no other sink goes on."""

    def claim(self, holder: str, *, now: float, lease: float, limit: int) -> list[StreamRecord] | None:
        """The oldest records that wait, with their versions; None while another worker sends, or nothing may be sent.

        The same worker gets the same records until it says that they are sent.

        Args:
            holder: the worker.
            now: Unix seconds.
            lease: seconds for which no other worker gets any.
            limit: how many records at most.
        """

    def is_leased_to(self, holder: str) -> bool:
        """Whether that worker was the last one to claim."""

    def sent(self, version: int) -> None:
        """Notes that the sink has the records up to that version; those that all sinks have are removed."""

    def count_refused(self) -> None:
        """Counts a record that went to the dead-letter topic."""

    def identity(self) -> str:
        """Names this store among all that send to the same topics."""

    def cursor(self) -> int:
        """The sequence of the last record of the dead letters' log that was copied."""

    def copy(self, records: Sequence[LogRecord]) -> None:
        """Adds records of the dead letters' log behind the cursor, and moves it."""

    def compare(self, found: Mapping[str, Change]) -> None:
        """Adds divergences that were not there when this was last called, and notes the end of those that were.

        Args:
            found: all that there are, by what tells each from the others.
        """

    def note_error(self, error: str) -> None:
        """Notes what kept the last try from sending."""

    def halt(self, reason: str) -> None:
        """Nothing is sent until `resume`."""

    def resume(self) -> bool:
        """Ends a halt; whether there was one."""

    def status(self) -> StreamStatus:
        """How far the streams are."""
