"""Streams in SQL. Triggers record each change in the transaction that makes it, including changes made by commands.

A record gets its version when it is claimed. PostgreSQL transactions may commit in a different order than they
number rows, so a reader that remembers row numbers would miss late commits. Versions are therefore assigned to
visible rows.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from bridge.records.dead_letters import LogRecord
from bridge.records.figures import Counted
from bridge.records.jobs import Queue
from bridge.records.outbox import OutboxState
from bridge.records.streams import REFUSED, Change, Stream, StreamRecord, StreamStatus, change_of
from bridge.store.counters import add_counts, counted
from bridge.store.database import Database
from bridge.store.tables import METADATA

stream_records = Table(
    "stream_records",
    METADATA,
    Column("sequence", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("version", BigInteger),  # null until claimed
    Column("stream", String, nullable=False),
    Column("key", String, nullable=False),
    Column("event", String, nullable=False),
    Column("at", Double, nullable=False),
    Column("data", Text, nullable=False),  # JSON
    Index(None, "version", unique=True),
)

stream_state = Table(
    "stream_state",  # one row
    METADATA,
    Column("identity", String, primary_key=True),
    Column("triggers", String, nullable=False),  # hash of the installed triggers; empty: none, and nothing is recorded
    Column("claimed", BigInteger, nullable=False),  # the last version assigned
    Column("version", BigInteger, nullable=False),  # the last version published
    Column("letter_cursor", BigInteger, nullable=False),  # the last record copied from the dead-letter log
    Column("holder", String, nullable=False),
    Column("leased_until", Double, nullable=False),
    Column("halted", Text, nullable=False),
    Column("error", Text, nullable=False),
)

stream_divergences = Table(
    "stream_divergences",  # divergences at the last poll of the index
    METADATA,
    Column("identity", String, primary_key=True),
    Column("change", Text, nullable=False),  # JSON
)

_EXCLUSIVE: Final = "streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trigger:
    """A trigger that records one kind of change of one table.

    Its expressions are SQL that works in both dialects; `hex(…)`, `json(…)` and `object(…)` in braces stand for
    the dialect's functions.
    """

    name: str
    when: str  # INSERT, UPDATE OF a column, DELETE
    table: str
    condition: str = ""
    event: str
    message: str = "NEW.message_id"  # 32 bytes
    stream: str = f"'{Stream.MESSAGES}'"
    data: Mapping[str, str]
    source: str = ""  # further tables to read


_ENTRY: Final = {"eventId": "NEW.event_id", "gmp": "NEW.gmp", "attempt": "NEW.attempt_number"}
_DELIVERED, _DEAD, _PENDING = (f"'{state}'" for state in (OutboxState.DELIVERED, OutboxState.DEAD, OutboxState.PENDING))

_TRIGGERS: Final = (
    _Trigger(
        name="stream_routed",
        when="INSERT",
        table="messages",
        event="'ROUTED'",
        data={
            "sourceChainId": "NEW.source_chain",
            "destinationChainId": "NEW.destination_chain",
            "sender": "{hex(NEW.sender)}",
            "nonce": "NEW.nonce",
            "envelope": "{hex(NEW.envelope)}",
        },
    ),
    _Trigger(
        name="stream_attempted",
        when="INSERT",
        table="attempts",
        event="'ATTEMPTED'",
        data={
            "attempt": "NEW.attempt",
            "gmps": "NEW.gmps",
            "block": "NEW.block_number",
            "transaction": "{hex(NEW.transaction_hash)}",
        },
    ),
    _Trigger(
        name="stream_dispatched",
        when="INSERT",
        table="outbox",
        event="'DISPATCHED'",
        data={
            **_ENTRY,
            "transportId": "NEW.transport_id",
            "block": "NEW.block_number",
            "transaction": "{hex(NEW.transaction_hash)}",
        },
    ),
    _Trigger(
        name="stream_failed",
        when="INSERT",
        table="outbox_failures",
        event="'FAILED'",
        message="outbox.message_id",
        source="FROM outbox WHERE outbox.event_id = NEW.event_id",
        data={
            "eventId": "NEW.event_id",
            "gmp": "outbox.gmp",
            "attempt": "outbox.attempt_number",
            "try": "NEW.number",
            "kind": "NEW.kind",
            "code": "NEW.code",
            "error": "NEW.message",
        },
    ),
    _Trigger(
        name="stream_state",
        when="UPDATE OF state",
        table="outbox",
        condition=f"NEW.state <> OLD.state AND (NEW.state IN ({_DELIVERED}, {_DEAD}) OR OLD.state IN ({_DELIVERED}, {_DEAD}))",
        event=f"CASE NEW.state WHEN {_PENDING} THEN 'REOPENED' ELSE NEW.state END",
        data={
            **_ENTRY,
            "failedTries": "NEW.failed_tries",
            "error": "NEW.last_error",
            "block": "NEW.delivery_block_number",
            "transaction": "{hex(NEW.delivery_transaction_hash)}",
        },
    ),
    _Trigger(
        name="stream_final",
        when="UPDATE OF confirmed_at",
        table="outbox",
        condition=f"NEW.state = {_DELIVERED} AND (NEW.confirmed_at IS NULL) <> (OLD.confirmed_at IS NULL)",
        event="CASE WHEN NEW.confirmed_at IS NULL THEN 'NOT_FINAL' ELSE 'FINAL' END",
        data={
            **_ENTRY,
            "block": "NEW.delivery_block_number",
            "transaction": "{hex(NEW.delivery_transaction_hash)}",
        },
    ),
    _Trigger(
        name="stream_orphaned",
        when="UPDATE OF orphaned_at",
        table="outbox",
        condition="(NEW.orphaned_at IS NULL) <> (OLD.orphaned_at IS NULL)",
        event="CASE WHEN NEW.orphaned_at IS NULL THEN 'DISPATCHED' ELSE 'ORPHANED' END",
        data=_ENTRY,
    ),
    _Trigger(
        name="stream_withdrawn",
        when="DELETE",
        table="outbox",
        condition=f"OLD.state = {_PENDING}",
        event="'ORPHANED'",
        message="OLD.message_id",
        data={name: column.replace("NEW.", "OLD.") for name, column in _ENTRY.items()},
    ),
    *(
        _Trigger(
            name=f"stream_job_{name}",
            when=when,
            table="jobs",
            condition=condition,
            stream=f"CASE NEW.queue WHEN '{Queue.RETRY}' THEN '{Stream.RETRIES}' ELSE '{Stream.MESSAGES}' END",
            event="upper(NEW.queue)",
            data={
                "name": "NEW.name",
                "state": "NEW.state",
                "outcome": "NEW.outcome",
                "tries": "NEW.tries",
                "detail": "{json(NEW.detail)}",
            },
        )
        for name, when, condition in (("added", "INSERT", ""), ("changed", "UPDATE OF state", "NEW.state <> OLD.state"))
    ),
)

_DIALECTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "sqlite": {
        "hex": "CASE WHEN {0} IS NOT NULL THEN '0x' || lower(hex({0})) END",
        "json": "json({})",
        "object": "json_object({})",
        "now": "(julianday('now') - 2440587.5) * 86400",
        "make": ("CREATE TRIGGER {name} AFTER {when} ON {table} FOR EACH ROW {condition} BEGIN {statement}; END",),
        "drop": ("DROP TRIGGER IF EXISTS {name}",),
    },
    "postgresql": {
        "hex": "'0x' || encode({}, 'hex')",
        "json": "{}::json",
        "object": "json_build_object({})",
        "now": "extract(epoch FROM clock_timestamp())",
        "make": (
            "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {statement}; RETURN NULL; END $$",
            "CREATE TRIGGER {name} AFTER {when} ON {table} FOR EACH ROW {condition} EXECUTE FUNCTION {name}()",
        ),
        "drop": ("DROP TRIGGER IF EXISTS {name} ON {table}", "DROP FUNCTION IF EXISTS {name}()"),
    },
}


class Streams:
    """Stores changes until they are published. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self) -> None:
        """Installs the triggers that record changes, and ends a halt."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            _set_triggers(connection, wanted=True)
            _set(connection, halted="", error="")

    def stop(self) -> None:
        """Drops the triggers. Unpublished records stay."""
        if self._read()["triggers"]:
            with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
                _set_triggers(connection, wanted=False)

    def claim(self, holder: str, *, now: float, lease: float, limit: int) -> list[StreamRecord] | None:
        """Claims the oldest unsent records with their versions.

        Claims nothing while another worker is sending or the stream is halted.

        The same worker gets the same records until it marks them as sent.

        Args:
            holder: The worker.
            now: Unix seconds.
            lease: Seconds during which no other worker can claim.
            limit: Maximum number of records.
        """
        if self._is_idle(holder, now, lease):
            return []
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            state = _state(connection)
            if state["halted"] or (state["holder"] != holder and state["leased_until"] > now):
                return None
            _set(connection, holder=holder, leased_until=now + lease)
            records = _versioned(connection, state["version"], limit)
            missing = limit - len(records)
            last = _give_versions(connection, state["claimed"], now, missing) if missing else 0
            if not last:
                return records
            _set(connection, claimed=last)
            return _versioned(connection, state["version"], limit)

    def is_leased_to(self, holder: str) -> bool:
        """Whether the given worker made the last claim."""
        return bool(self._read()["holder"] == holder)

    def sent(self, version: int) -> None:
        """Counts and deletes the published records up to a version."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            before = _state(connection)["version"]
            done = (stream_records.c.version > before) & (stream_records.c.version <= version)
            query = select(stream_records.c.stream, func.count()).where(done).group_by(stream_records.c.stream)
            add_counts(connection, {(Counted.PUBLISHED, (name,)): number for name, number in connection.execute(query)})
            _set(connection, version=max(version, before), error="")
            connection.execute(delete(stream_records).where(stream_records.c.version <= version))

    def count_refused(self) -> None:
        """Counts a record that was sent to the dead-letter topic instead."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            add_counts(connection, {(Counted.PUBLISHED, (REFUSED,)): 1})

    def identity(self) -> str:
        """Returns an id that distinguishes this store from others that send to the same topics."""
        return str(self._read()["identity"])

    def cursor(self) -> int:
        """Returns the sequence of the last dead-letter record copied."""
        return int(self._read()["letter_cursor"])

    def copy(self, records: Sequence[LogRecord]) -> None:
        """Copies records of the dead-letter log and advances the cursor."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            new = [record for record in records if record.sequence > _state(connection)["letter_cursor"]]
            if new:
                connection.execute(insert(stream_records), [_row(change_of(record)) for record in new])
                _set(connection, letter_cursor=new[-1].sequence)

    def compare(self, found: Mapping[str, Change]) -> None:
        """Records divergences that are new since the last call, and the end of those that have disappeared.

        Args:
            found: All current divergences by identity.
        """
        query = select(stream_divergences.c.identity, stream_divergences.c.change)
        if {identity for identity, _ in self._database.rows(query)} == found.keys():
            return
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            known = {identity: orjson.loads(change) for identity, change in connection.execute(query)}
            ended = [{**known[one], "event": "ENDED"} for one in known.keys() - found.keys()]
            begun = {one: _row(found[one]) for one in found.keys() - known.keys()}
            if changes := [*begun.values(), *ended]:
                connection.execute(insert(stream_records), changes)
            connection.execute(delete(stream_divergences).where(stream_divergences.c.identity.not_in(list(found))))
            if begun:
                rows = [{"identity": one, "change": orjson.dumps(row).decode()} for one, row in begun.items()]
                connection.execute(insert(stream_divergences), rows)

    def note_error(self, error: str) -> None:
        """Records the error of the last failed send."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            _set(connection, error=error)

    def halt(self, reason: str) -> None:
        """Halts sending until `resume`."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            _set(connection, halted=reason)

    def resume(self) -> bool:
        """Ends a halt; returns whether there was one."""
        with self._database.transaction(exclusive=_EXCLUSIVE) as connection:
            was_halted = bool(_state(connection)["halted"])
            _set(connection, halted="", error="")
        return was_halted

    def status(self) -> StreamStatus:
        """Returns the streams' progress."""
        with self._database.reading() as connection:
            state = _found_state(connection)
            waiting = select(func.count(), func.min(stream_records.c.at)).where(_is_behind(state["version"]))
            count, oldest = connection.execute(waiting).one()
            published = counted(connection, Counted.PUBLISHED)
        return StreamStatus(
            recording=bool(state["triggers"]),
            waiting=count,
            oldest=oldest,
            version=state["version"],
            sent={name: int(published.get((name,), 0)) for name in (*Stream, REFUSED)},
            holder=state["holder"],
            halted=state["halted"],
            error=state["error"],
        )

    def _read(self) -> Mapping[str, Any]:
        with self._database.reading() as connection:
            return _found_state(connection)

    def _is_idle(self, holder: str, now: float, lease: float) -> bool:
        """Whether no write is needed: every record was sent, and the lease still lasts long enough."""
        with self._database.reading() as connection:
            state = _found_state(connection)
            is_leased = state["holder"] == holder and state["leased_until"] > now + lease / 2 and not state["halted"]
            waiting = select(stream_records.c.sequence).where(_is_behind(state["version"])).limit(1)
            return is_leased and connection.execute(waiting).first() is None


_NOTHING: Final[Mapping[str, Any]] = {
    "identity": "",
    "triggers": "",
    "claimed": 0,
    "version": 0,
    "letter_cursor": 0,
    "holder": "",
    "leased_until": 0.0,
    "halted": "",
    "error": "",
}


def _is_behind(version: int) -> ColumnElement[bool]:
    """Whether there are records above `version`, or without a version."""
    return or_(stream_records.c.version.is_(None), stream_records.c.version > version)


def _found_state(connection: Connection) -> Mapping[str, Any]:
    found = connection.execute(select(stream_state)).mappings().first()
    return _NOTHING if found is None else dict(found)


def _state(connection: Connection) -> Mapping[str, Any]:
    """Returns the single row, creating it if missing."""
    found = _found_state(connection)
    if found is _NOTHING:
        connection.execute(insert(stream_state).values(**{**_NOTHING, "identity": uuid.uuid4().hex}))
        return _found_state(connection)
    return found


def _set(connection: Connection, **values: Any) -> None:
    _state(connection)
    connection.execute(update(stream_state).values(**values))


def _give_versions(connection: Connection, last: int, now: float, limit: int) -> int:
    """Assigns versions to the oldest records without one; returns the last version assigned, or 0."""
    without = select(stream_records.c.sequence).where(stream_records.c.version.is_(None))
    sequences = connection.execute(without.order_by(stream_records.c.sequence).limit(limit)).scalars().all()
    first = max(last + 1, int(now * 1_000_000))
    if not sequences:
        return 0
    connection.execute(
        update(stream_records).where(stream_records.c.sequence == bindparam("row")).values(version=bindparam("given")),
        [{"row": sequence, "given": first + place} for place, sequence in enumerate(sequences)],
    )
    return first + len(sequences) - 1


def _versioned(connection: Connection, after: int, limit: int) -> list[StreamRecord]:
    """Returns the oldest records above a version."""
    query = select(stream_records).where(stream_records.c.version > after).order_by(stream_records.c.version)
    return [
        StreamRecord(
            version=row["version"],
            stream=Stream(row["stream"]),
            key=row["key"],
            event=row["event"],
            at=row["at"],
            data=orjson.loads(row["data"]),
        )
        for row in connection.execute(query.limit(limit)).mappings()
    ]


def _row(change: Change) -> dict[str, Any]:
    """Returns the columns of `stream_records` for a change."""
    return {**asdict(change), "stream": change.stream.value, "data": orjson.dumps(change.data).decode()}


def _set_triggers(connection: Connection, *, wanted: bool) -> None:
    """Creates or drops the triggers; leaves current ones unchanged."""
    dialect = _DIALECTS[connection.dialect.name]
    statements = [(one, _statement(one, dialect)) for one in _TRIGGERS]
    mark = hashlib.sha256(repr(statements).encode()).hexdigest() if wanted else ""
    if _state(connection)["triggers"] == mark:
        return
    for trigger, statement in statements:
        condition = f"WHEN ({trigger.condition})" if trigger.condition else ""
        about = {**asdict(trigger), "statement": statement, "condition": condition}
        for template in (*dialect["drop"], *(dialect["make"] if wanted else ())):
            connection.exec_driver_sql(template.format(**about))
    _set(connection, triggers=mark)


def drop_triggers(connection: Connection) -> None:
    """Drops the triggers for a restore; a relayer creates them again when it starts."""
    if _found_state(connection)["triggers"]:
        _set_triggers(connection, wanted=False)


def forget_triggers(connection: Connection) -> None:
    """Records that no triggers are installed, whatever the backup says."""
    connection.execute(update(stream_state).values(triggers=""))


def _statement(trigger: _Trigger, dialect: Mapping[str, Any]) -> str:
    """Renders the body of a trigger."""

    def expanded(expression: str) -> str:
        return re.sub(r"\{(hex|json)\((.+?)\)\}", lambda found: dialect[found[1]].format(found[2]), expression)

    pairs = ", ".join(f"'{name}', {expanded(value)}" for name, value in trigger.data.items())
    return (
        "INSERT INTO stream_records (stream, key, event, at, data)"
        f" SELECT {trigger.stream}, {dialect['hex'].format(trigger.message)}, {trigger.event}, {dialect['now']},"
        f" CAST({dialect['object'].format(pairs)} AS text) {trigger.source}"
    )
