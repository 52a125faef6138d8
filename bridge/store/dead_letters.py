"""The log of dead letters."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    Index,
    LargeBinary,
    RowMapping,
    String,
    Table,
    Text,
    func,
    insert,
    select,
    update,
)

from bridge.protocol.errors import StoreBusyError
from bridge.records.dead_letters import (
    NO_RECORD,
    OPEN,
    BrokenLogError,
    DeadLetter,
    Draft,
    LetterStatus,
    LettersWaiting,
    LogHead,
    LogRecord,
    RecordKind,
    Sealer,
    canonical,
)
from bridge.store.database import Database
from bridge.store.positions import LETTER_HEAD, move, position, position_hash
from bridge.store.tables import METADATA, positions

_Result = TypeVar("_Result")

# These tables may be in a database of their own.
dead_letter_log = Table(
    "dead_letter_log",
    METADATA,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("key", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("event_id", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("document_hash", LargeBinary, nullable=False),
    Column("document", Text),  # JSON
    Column("signer", String, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    CheckConstraint(f"kind IN ({', '.join(repr(str(kind)) for kind in RecordKind)})", name="kind"),
    Index(None, "event_id", "sequence"),
)

dead_letters = Table(
    "dead_letters",
    METADATA,
    Column("event_id", String, primary_key=True),
    Column("message_id", LargeBinary, nullable=False),
    Column("kind", String, nullable=False),
    Column("source_chain", BigInteger, nullable=False),
    Column("destination_chain", BigInteger, nullable=False),
    Column("gmp", String, nullable=False),
    Column("error_code", String, nullable=False),
    Column("status", String, nullable=False),
    Column("entered_at", Double, nullable=False),
    Column("retention_until", Double, nullable=False),
    Column("first_sequence", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    CheckConstraint(f"status IN ({', '.join(repr(str(status)) for status in LetterStatus)})", name="status"),
    Index(None, "status", "first_sequence"),
    Index(None, "message_id"),
    Index(None, "entered_at"),
)

_REST: Final = 30.0
"""Seconds for which a database that did not respond is not queried again."""

_ANSWER_SECONDS: Final = 30.0
"""Timeout of work in the log's thread."""

DEAD_LETTER_TABLES = (dead_letter_log, dead_letters, positions)


class DeadLetterLog:
    """Stores dead letters, in the store's database or a separate one. Every method is one transaction.

    The database is opened on first use, so it may be unreachable at start.
    """

    def __init__(self, url: str) -> None:
        """Creates the log of the database at `url` without connecting."""
        self._url = url
        self._opened: Database | None = None
        self._opening = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dead-letters")
        self._silent_until = 0.0  # of the process's clock
        self._silence = ""

    async def in_thread(self, work: Callable[[], _Result]) -> _Result:
        """Runs `work` in the log's own thread, so that an unresponsive database blocks nothing else.

        Raises:
            StoreBusyError: The work timed out. It may still complete later, so it must be repeatable.
        """
        begun = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await begun
        except TimeoutError as error:
            raise StoreBusyError(f"the dead-letter database did not respond within {_ANSWER_SECONDS:g} s") from error

    def append(self, draft: Draft, sealer: Sealer) -> LogRecord | None:
        """Appends a record. If a record with the same key exists, returns None and changes nothing.

        Raises:
            ForbiddenDecisionError: The letter's state does not allow the record.
            StoreBusyError, StoreError: The record was not written.
        """
        with self._database.transaction(exclusive="dead letters") as connection:
            known = select(dead_letter_log.c.sequence).where(dead_letter_log.c.key == draft.key)
            if connection.execute(known).first() is not None:
                return None
            record = LogRecord.of(draft, *_place(connection))
            before = _letter(connection, draft.event_id)
            letter = DeadLetter.entered(record) if before is None else before.after(record)
            record = record.signed(sealer)
            connection.execute(insert(dead_letter_log).values(**_record_row(record)))
            if before is None:
                connection.execute(insert(dead_letters).values(**_letter_row(letter)))
            else:
                mine = dead_letters.c.event_id == letter.event_id
                connection.execute(update(dead_letters).where(mine).values(**_letter_row(letter)))
        return record

    def records(self, *, after: int = 0, limit: int | None = None) -> list[LogRecord]:
        """Returns the records with a sequence above `after`, in order."""
        query = select(dead_letter_log).where(dead_letter_log.c.sequence > after)
        return self._records(query.order_by(dead_letter_log.c.sequence).limit(limit))

    def history(self, event_id: str) -> list[LogRecord]:
        """Returns the records of one letter, in order."""
        query = select(dead_letter_log).where(dead_letter_log.c.event_id == event_id)
        return self._records(query.order_by(dead_letter_log.c.sequence))

    def letter(self, event_id: str) -> DeadLetter | None:
        """Returns one letter in its current state."""
        with self._database.reading() as connection:
            return _letter(connection, event_id)

    def dead_letters(
        self,
        *,
        statuses: frozenset[LetterStatus] = frozenset(LetterStatus),
        message_id: bytes | None = None,
        since: float = 0,
        limit: int | None = 100,
    ) -> list[DeadLetter]:
        """Returns the letters that entered the log at or after `since` (Unix seconds), newest first."""
        query = select(dead_letters).where(dead_letters.c.entered_at >= since)
        if statuses != frozenset(LetterStatus):
            query = query.where(dead_letters.c.status.in_(sorted(statuses)))
        if message_id is not None:
            query = query.where(dead_letters.c.message_id == message_id)
        found = self._database.read(query.order_by(dead_letters.c.first_sequence.desc()).limit(limit))
        return [_letter_from(row) for row in found]

    def is_abandoned(self, message_id: bytes) -> bool:
        """Whether an operator abandoned any letter of the message."""
        return bool(self.dead_letters(statuses=frozenset({LetterStatus.ABANDONED}), message_id=message_id, limit=1))

    def last_sequence(self) -> int:
        """Returns the sequence of the last record, or 0."""
        return int(self._database.scalar(select(func.max(dead_letter_log.c.sequence))) or 0)

    def has(self, head: LogHead) -> bool:
        """Whether the log contains a record with the head's sequence and hash."""
        mine = (dead_letter_log.c.sequence == head.sequence) & (dead_letter_log.c.hash == head.hash)
        return self._database.first(select(dead_letter_log.c.sequence).where(mine)) is not None

    def decision_signers(self) -> list[str]:
        """Returns the accounts that signed records of decisions."""
        decided = dead_letter_log.c.kind == RecordKind.DECIDED.value
        return [row.signer for row in self._database.rows(select(dead_letter_log.c.signer).where(decided).distinct())]

    def entered_between(self, first: float, last: float) -> int:
        """Counts the letters that entered between two moments, inclusive (Unix seconds)."""
        within = dead_letters.c.entered_at.between(first, last)
        return int(self._database.scalar(select(func.count()).select_from(dead_letters).where(within)))

    def open_letters(self, *, after: int, limit: int) -> list[DeadLetter]:
        """Returns the open letters that entered after the sequence `after`, in order of entry."""
        is_open = dead_letters.c.status.in_(sorted(OPEN)) & (dead_letters.c.first_sequence > after)
        found = self._database.read(
            select(dead_letters).where(is_open).order_by(dead_letters.c.first_sequence).limit(limit)
        )
        return [_letter_from(row) for row in found]

    def counts(self) -> dict[LetterStatus, int]:
        """Counts the letters in each state."""
        query = select(dead_letters.c.status, func.count()).group_by(dead_letters.c.status)
        return {LetterStatus(status): count for status, count in self._database.rows(query)}

    def waiting(self) -> list[LettersWaiting]:
        """Counts the letters in PENDING_REVIEW, for every lane and GMP that has ever had a letter."""
        key = (dead_letters.c.source_chain, dead_letters.c.destination_chain, dead_letters.c.gmp)
        waits = dead_letters.c.status == LetterStatus.PENDING_REVIEW.value
        entries = (
            select(dead_letter_log.c.event_id, func.count().label("entered"))
            .where(dead_letter_log.c.kind.in_([RecordKind.ENTERED.value, RecordKind.RETURNED.value]))
            .group_by(dead_letter_log.c.event_id)
            .subquery()
        )
        query = (
            select(*key, func.count().filter(waits).label("count"), func.sum(entries.c.entered).label("entered"))
            .join(entries, entries.c.event_id == dead_letters.c.event_id)
            .group_by(*key)
            .order_by(*key)
        )
        return [LettersWaiting(**{**row, "entered": int(row["entered"])}) for row in self._database.read(query)]

    def cursor(self, reader: str) -> int:
        """Returns a reader's position: the sequence of the last record reported to it, initially 0."""
        with self._database.reading() as connection:
            return position(connection, _alert_reader(reader)) or 0

    def move_cursor(self, reader: str, sequence: int) -> None:
        """Stores a reader's position."""
        with self._database.transaction() as connection:
            move(connection, _alert_reader(reader), sequence)

    def close(self) -> None:
        """Releases files and connections."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._opened is not None:
            self._opened.close()

    @property
    def _database(self) -> Database:
        with self._opening:
            if self._opened is None:
                if time.monotonic() < self._silent_until:
                    raise StoreBusyError(self._silence)
                try:
                    self._opened = Database(self._url, tables=DEAD_LETTER_TABLES)
                except StoreBusyError as error:
                    self._silent_until, self._silence = time.monotonic() + _REST, str(error)
                    raise
            return self._opened

    def _records(self, query: Any) -> list[LogRecord]:
        return [_record_from(row) for row in self._database.read(query)]


class HeadMemory:
    """Stores the log's head separately from the log, in the relayer's store."""

    def __init__(self, database: Database) -> None:
        self._store = database

    def noted(self) -> LogHead:
        """Returns the last stored head."""
        with self._store.reading() as connection:
            return _noted(connection)

    def note(self, head: LogHead) -> None:
        """Stores a head unless a later one is already stored."""
        with self._store.transaction(exclusive=LETTER_HEAD) as connection:
            if _noted(connection).sequence < head.sequence:
                move(connection, LETTER_HEAD, head.sequence, head.hash)


def _noted(connection: Connection) -> LogHead:
    sequence, record_hash = position(connection, LETTER_HEAD), position_hash(connection, LETTER_HEAD)
    return LogHead() if sequence is None or record_hash is None else LogHead(sequence, record_hash)


def _alert_reader(channel: str) -> str:
    return f"alerts/{channel}"


def _place(connection: Connection) -> tuple[int, bytes]:
    """Returns the next record's sequence and the previous record's hash."""
    query = select(dead_letter_log.c.sequence, dead_letter_log.c.hash).order_by(dead_letter_log.c.sequence.desc())
    last = connection.execute(query.limit(1)).first()
    return (1, NO_RECORD) if last is None else (last.sequence + 1, last.hash)


def _letter(connection: Connection, event_id: str) -> DeadLetter | None:
    found = connection.execute(select(dead_letters).where(dead_letters.c.event_id == event_id)).mappings().first()
    return None if found is None else _letter_from(found)


def _record_row(record: LogRecord) -> dict[str, Any]:
    return {
        "sequence": record.sequence,
        "previous": record.previous,
        "hash": record.hash,
        "key": record.key,
        "kind": record.kind.value,
        "event_id": record.event_id,
        "at": record.at,
        "document_hash": record.document_hash,
        "document": canonical(record.document).decode(),
        "signer": record.signer,
        "signature": record.signature,
    }


def _record_from(row: RowMapping) -> LogRecord:
    """Builds a record from its row, without verifying it."""
    try:
        document = json.loads(row["document"])
    except (TypeError, json.JSONDecodeError) as error:
        raise BrokenLogError(f"record {row['sequence']}: the document is not valid JSON ({error})") from error
    return LogRecord(
        sequence=row["sequence"],
        previous=row["previous"],
        key=row["key"],
        kind=RecordKind(row["kind"]),
        event_id=row["event_id"],
        at=row["at"],
        document_hash=row["document_hash"],
        document=document,
        signer=row["signer"],
        signature=row["signature"],
    )


def _letter_row(letter: DeadLetter) -> dict[str, Any]:
    return {field.name: getattr(letter, field.name) for field in fields(letter)} | {"status": letter.status.value}


def _letter_from(row: RowMapping) -> DeadLetter:
    return DeadLetter(**{**row, "status": LetterStatus(row["status"])})
