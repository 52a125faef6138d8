"""Dead letters in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bridge.domain.dead_letters import (
    NO_RECORD,
    OPEN,
    DeadLetter,
    Draft,
    LetterStatus,
    LettersWaiting,
    LogHead,
    LogRecord,
    RecordKind,
    Sealer,
)


class MemoryHead:
    """See `bridge.domain.dead_letters.HeadMemory`."""

    def __init__(self) -> None:
        self._head = LogHead()

    def noted(self) -> LogHead:
        return self._head

    def note(self, head: LogHead) -> None:
        if head.sequence > self._head.sequence:
            self._head = head


class MemoryDeadLetterLog:
    """See `bridge.domain.dead_letters.DeadLetterLog`."""

    def __init__(self) -> None:
        self._records: list[LogRecord] = []
        self._letters: dict[str, DeadLetter] = {}  # in the order of their entering
        self._cursors: dict[str, int] = {}

    def append(self, draft: Draft, sealer: Sealer) -> LogRecord | None:
        if any(record.key == draft.key for record in self._records):
            return None
        previous = self._records[-1].hash if self._records else NO_RECORD
        record = LogRecord.of(draft, len(self._records) + 1, previous)
        before = self._letters.get(draft.event_id)
        letter = DeadLetter.entered(record) if before is None else before.after(record)
        self._records.append(record.signed(sealer))
        self._letters[draft.event_id] = letter
        return self._records[-1]

    def records(self, *, after: int = 0, limit: int | None = None) -> list[LogRecord]:
        return self._records[after:][:limit]

    def history(self, event_id: str) -> list[LogRecord]:
        return [record for record in self._records if record.event_id == event_id]

    def letter(self, event_id: str) -> DeadLetter | None:
        return self._letters.get(event_id)

    def dead_letters(
        self,
        *,
        statuses: frozenset[LetterStatus] = frozenset(LetterStatus),
        message_id: bytes | None = None,
        since: float = 0,
        limit: int | None = 100,
    ) -> list[DeadLetter]:
        found = [
            letter
            for letter in reversed(self._letters.values())
            if letter.status in statuses
            and letter.entered_at >= since
            and (message_id is None or letter.message_id == message_id)
        ]
        return found[:limit]

    def counts(self) -> dict[LetterStatus, int]:
        return dict(Counter(letter.status for letter in self._letters.values()))

    def waiting(self) -> list[LettersWaiting]:
        waiting: Counter[tuple[int, int, str]] = Counter()
        entered: Counter[tuple[int, int, str]] = Counter()
        for record in self._records:
            letter = self._letters[record.event_id]
            key = (letter.source_chain, letter.destination_chain, letter.gmp)
            entered[key] += record.kind in (RecordKind.ENTERED, RecordKind.RETURNED)
            waiting[key] += record.kind is RecordKind.ENTERED and letter.status is LetterStatus.PENDING_REVIEW
        return [
            LettersWaiting(
                source_chain=source,
                destination_chain=destination,
                gmp=gmp,
                count=waiting[source, destination, gmp],
                entered=count,
            )
            for (source, destination, gmp), count in sorted(entered.items())
        ]

    def archive(self, event_ids: frozenset[str]) -> int:
        taken = 0
        for index, record in enumerate(self._records):
            is_decided = record.event_id in event_ids and self._letters[record.event_id].status not in OPEN
            if is_decided and record.kind in (RecordKind.ENTERED, RecordKind.RETURNED) and record.document is not None:
                self._records[index] = replace(record, document=None)
                taken += 1
        return taken

    def cursor(self, reader: str) -> int:
        return self._cursors.get(reader, 0)

    def move_cursor(self, reader: str, sequence: int) -> None:
        self._cursors[reader] = sequence

    def close(self) -> None:
        """Nothing to close."""
