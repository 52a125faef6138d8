"""What the tripwire remembers: what it read of each chain, what it found, and the signed log. One SQLite file of its own.

Each method is one transaction. What is found and what is to be done about it are written together, so that a process that
dies goes on where it was.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eth_account.signers.local import LocalAccount

from bridge.domain.dead_letters import NO_RECORD
from bridge.domain.errors import StoreError
from bridge.domain.observations import BlockRef
from bridge.tripwire.journal import Deed, Record
from bridge.tripwire.judgement import Creation, HandOver, Judgement, SeenReceipt

_VERSION: Final = 1
_KEPT: Final = 512  # blocks below the newest that are remembered one by one; a deeper reorg is read again from there

_TABLES: Final = """
create table chains (chain_id integer primary key, routers text not null, complete_to integer not null);
create table blocks (chain_id integer, number integer, hash blob not null, primary key (chain_id, number));
create table creations (
  chain_id integer, message_id blob, router text, destination integer, payload_hash blob, block integer, block_hash blob,
  orphaned integer not null default 0, primary key (chain_id, message_id, block_hash));
create index creations_of_lane on creations (chain_id, router, destination, block);
create index creations_by_block on creations (chain_id, block);
create table hand_overs (
  chain_id integer, message_id blob, gmps integer, is_retry integer, block integer, block_hash blob, log_index integer,
  orphaned integer not null default 0, primary key (chain_id, message_id, block_hash, log_index));
create index hand_overs_by_block on hand_overs (chain_id, block);
create table receipts (
  row integer primary key, chain_id integer, message_id blob, gmp integer, source_chain integer, payload_hash blob,
  block integer, block_hash blob, block_time integer, "transaction" blob, log_index integer, source_height integer,
  judgement text not null default 'WAIT', unique (chain_id, block_hash, log_index));
create index receipts_waiting on receipts (row) where judgement = 'WAIT';
create index receipts_by_message on receipts (chain_id, message_id);
create index receipts_by_block on receipts (chain_id, block);
create table executions (chain_id integer, message_id blob, block integer, primary key (chain_id, message_id));
create table peers (chain_id integer, source_chain integer, router text, primary key (chain_id, source_chain, router));
create table incidents (
  id text primary key, chain_id integer, gmp integer, opened_at real, state text not null, paused_until integer,
  paused_block integer);
create table notices (key text, channel text, notice text not null, primary key (key, channel));
create table log (
  sequence integer primary key, previous blob, key text unique, deed text, incident text, at real, document text,
  signer text, signature blob);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A GMP that lied on a destination, and how far the answer to that has come.

    Attributes:
        state: ``OPEN`` (to be paused), ``PAUSED``, or ``NOT_PAUSED``: the log says why.
        paused_until: Unix seconds; None while it was never paused.
    """

    id: str
    chain_id: int
    gmp: int
    opened_at: float
    state: str
    paused_until: int | None
    paused_block: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What some blocks of one chain say, and those of them that are remembered: the last one at least."""

    chain_id: int
    tips: Sequence[BlockRef]
    creations: Sequence[Mapping[str, Any]] = ()
    hand_overs: Sequence[Mapping[str, Any]] = ()
    receipts: Sequence[Mapping[str, Any]] = ()
    executions: Sequence[Mapping[str, Any]] = ()
    peers: Sequence[Mapping[str, Any]] = ()


class TripwireStore:
    """See the module."""

    def __init__(self, path: Path | str, signer: LocalAccount | None = None) -> None:
        """Opens or makes the file.

        Args:
            path: the file, or ``:memory:``.
            signer: signs the log; None only reads.

        Raises:
            StoreError: the file is none of the tripwire's, or of another version.
        """
        self._signer = signer
        self._executions_seen = 0  # up to which row executions were looked at
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("pragma busy_timeout = 5000")
            version = self._connection.execute("pragma user_version").fetchone()[0]
            if version == 0 and signer is not None:
                self._connection.execute("pragma journal_mode = wal")
                self._connection.executescript(f"begin; {_TABLES} pragma user_version = {_VERSION}; commit;")
            elif version != _VERSION:
                raise StoreError(f"{path} is no tripwire's store of version {_VERSION}; delete it or name another file")
            self._connection.execute("pragma synchronous = full")
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the tripwire's store {path} can't be used: {error}") from error

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._connection.execute("begin immediate")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("rollback")
                raise
            self._connection.execute("commit")
        except sqlite3.Error as error:
            raise StoreError(f"the tripwire's store can't be written: {error}") from error

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        return self._connection.execute(query, values).fetchall()

    # ---- what was read

    def know(self, chain_id: int, routers: Collection[str]) -> bool:
        """The routers that are read on a chain; if there are others than before, it is read again from the start."""
        text = json.dumps(sorted(routers))
        with self._transaction() as connection:
            known = connection.execute("select routers from chains where chain_id = ?", (chain_id,)).fetchone()
            is_new = known is None or known["routers"] != text
            if is_new:
                connection.execute("replace into chains values (?, ?, -1)", (chain_id, text))
                _take_back(connection, chain_id, -1)
        return is_new

    def blocks(self, chain_id: int) -> list[BlockRef]:
        """The blocks that were the last of a reading, newest first."""
        found = self._rows("select number, hash from blocks where chain_id = ? order by number desc", chain_id)
        return [BlockRef(row["number"], row["hash"]) for row in found]

    def rewind(self, chain_id: int, number: int) -> None:
        """Blocks above a height have fallen. What their sources' routers said in them is kept, and known to be orphaned."""
        with self._transaction() as connection:
            _take_back(connection, chain_id, number)
            fallen = connection.execute(
                "select * from incidents where chain_id = ? and state = 'PAUSED' and paused_block > ?",
                (chain_id, number),
            ).fetchall()
            for row in fallen:
                connection.execute(
                    "update incidents set state = 'OPEN', paused_block = null where id = ?", (row["id"],)
                )
                self._append(
                    connection,
                    f"undone/{row['id']}/{row['paused_block']}/{row['paused_until']}",
                    Deed.UNDONE,
                    {"block": row["paused_block"]},
                    incident=row["id"],
                    at=row["opened_at"],
                )

    def read_again(self, chain_id: int, *, from_start: bool) -> None:
        """Something of a chain is missing: it is read again, from where it was complete or from the start. Nothing is forgotten."""
        with self._transaction() as connection:
            if from_start:
                connection.execute("update chains set complete_to = -1 where chain_id = ?", (chain_id,))
            known = connection.execute("select complete_to from chains where chain_id = ?", (chain_id,)).fetchone()
            _take_back(connection, chain_id, known["complete_to"] if known else -1)

    def complete_to(self, chain_id: int, number: int) -> None:
        """Up to a final block nothing of a chain is missing."""
        with self._transaction() as connection:
            connection.execute(
                "update chains set complete_to = max(complete_to, ?) where chain_id = ?", (number, chain_id)
            )

    def apply(self, reading: Reading) -> None:
        """Keeps what a range of blocks says, and that it was read; the same twice changes nothing."""
        with self._transaction() as connection:
            for row in reading.creations:
                connection.execute(
                    "insert into creations values (:chain_id, :message_id, :router, :destination, :payload_hash, :block,"
                    " :block_hash, 0) on conflict do update set orphaned = 0",
                    row,
                )
            for row in reading.hand_overs:
                connection.execute(
                    "insert into hand_overs values (:chain_id, :message_id, :gmps, :is_retry, :block, :block_hash,"
                    " :log_index, 0) on conflict do update set orphaned = 0",
                    row,
                )
            for row in reading.receipts:
                connection.execute(
                    "insert into receipts (chain_id, message_id, gmp, source_chain, payload_hash, block, block_hash,"
                    ' block_time, "transaction", log_index) values (:chain_id, :message_id, :gmp, :source_chain,'
                    " :payload_hash, :block, :block_hash, :block_time, :transaction, :log_index) on conflict do nothing",
                    row,
                )
            for row in reading.executions:
                connection.execute("replace into executions values (:chain_id, :message_id, :block)", row)
            for row in reading.peers:
                connection.execute("insert or ignore into peers values (:chain_id, :source_chain, :router)", row)
            for tip in reading.tips:
                connection.execute("replace into blocks values (?, ?, ?)", (reading.chain_id, tip.number, tip.hash))
            connection.execute(
                "delete from blocks where chain_id = ? and number < ?",
                (reading.chain_id, reading.tips[-1].number - _KEPT),
            )

    def peers(self, source_chain: int) -> frozenset[str]:
        """The routers of a chain that any destination ever believed."""
        return frozenset(
            row["router"] for row in self._rows("select router from peers where source_chain = ?", source_chain)
        )

    def waiting(self) -> list[SeenReceipt]:
        """Receipts that are not judged yet."""
        return [_receipt(row) for row in self._rows("select * from receipts where judgement = 'WAIT' order by row")]

    def creations(self, chain_id: int, message_id: bytes) -> list[Creation]:
        """Of one message."""
        found = self._rows("select * from creations where chain_id = ? and message_id = ?", chain_id, message_id)
        return [
            Creation(
                router=row["router"],
                destination=row["destination"],
                payload_hash=row["payload_hash"],
                block_number=row["block"],
                is_orphaned=bool(row["orphaned"]),
            )
            for row in found
        ]

    def hand_overs(self, chain_id: int, message_id: bytes) -> list[HandOver]:
        """Of one message."""
        found = self._rows("select * from hand_overs where chain_id = ? and message_id = ?", chain_id, message_id)
        return [HandOver(row["gmps"], row["block"], bool(row["orphaned"])) for row in found]

    def count_created(self, chain_id: int, router: str, destination: int, block: int) -> int:
        """How many messages a router has created for a destination up to a block of the chain as it is now."""
        (row,) = self._rows(
            "select count(*) as count from creations where chain_id = ? and router = ? and destination = ? and block <= ?"
            " and orphaned = 0",
            *(chain_id, router, destination, block),
        )
        return int(row["count"])

    def count_orphaned(self) -> int:
        """How many creations were in a block that fell, or are about to be read again."""
        (row,) = self._rows("select count(*) as count from creations where orphaned")
        return int(row["count"])

    def count_retries(self, chain_id: int, message_id: bytes) -> int:
        """How many attempts of a message there were after its first, on the chain as it is now."""
        (row,) = self._rows(
            "select count(*) as count from hand_overs where chain_id = ? and message_id = ? and is_retry and not orphaned",
            *(chain_id, message_id),
        )
        return int(row["count"])

    def lacking(self, chain_id: int, gmp: int) -> list[tuple[bytes, int, list[int], list[int]]]:
        """Messages to a chain that a GMP was handed and has not delivered, and that are not executed.

        Returns:
            Id and source of each, the GMPs that it was handed to, and those that have delivered it.
        """
        found = self._rows(
            "select h.chain_id as source, h.message_id, h.gmps from hand_overs h join creations c on c.chain_id = h.chain_id"
            " and c.message_id = h.message_id and c.destination = ? and not c.orphaned where not h.orphaned"
            " and not exists (select 1 from executions e where e.chain_id = ? and e.message_id = h.message_id)",
            *(chain_id, chain_id),
        )
        handed: dict[tuple[int, bytes], int] = {}
        for row in found:
            key = row["source"], row["message_id"]
            handed[key] = handed.get(key, 0) | row["gmps"]
        lacking = []
        for (source, message_id), bits in handed.items():
            rows = self._rows(
                "select distinct gmp from receipts where chain_id = ? and message_id = ?", chain_id, message_id
            )
            received = sorted(row["gmp"] for row in rows)
            if bits >> (gmp - 1) & 1 and gmp not in received:
                lacking.append((message_id, source, [n for n in range(1, 17) if bits >> (n - 1) & 1], received))
        return lacking

    def executed_without_receipt(self) -> list[tuple[int, bytes, int]]:
        """Chain, message and block of executions of which no receipt was read."""
        found = self._rows(
            "select e.* from executions e where not exists (select 1 from receipts r where r.chain_id = e.chain_id"
            " and r.message_id = e.message_id) and e.rowid > ?",
            self._executions_seen,
        )
        (newest,) = self._rows("select coalesce(max(rowid), 0) as row from executions")
        self._executions_seen = newest["row"]
        return [(row["chain_id"], row["message_id"], row["block"]) for row in found]

    # ---- what was found and done

    def bound(self, receipt: SeenReceipt, source_height: int) -> None:
        """Keeps which block of its source a receipt rests on at the highest."""
        with self._transaction() as connection:
            connection.execute("update receipts set source_height = ? where row = ?", (source_height, receipt.row))

    def note_judgement(self, receipt: SeenReceipt, judgement: Judgement) -> None:
        """Keeps what a receipt is, where nothing has to be done about it."""
        with self._transaction() as connection:
            connection.execute("update receipts set judgement = ? where row = ?", (judgement.value, receipt.row))

    def accuse(
        self,
        receipt: SeenReceipt,
        judgement: Judgement,
        evidence: Mapping[str, Any],
        now: float,
        notices: Callable[[str], Iterable[tuple[str, str, Mapping[str, Any]]]],
    ) -> str:
        """A receipt is forged: opens an incident, or adds to the one that is there. Returns its id.

        Args:
            receipt: the forged one.
            judgement: in which way.
            evidence: what shows it.
            now: Unix seconds.
            notices: what is to be told of the incident: key, channel and notice of each.
        """
        with self._transaction() as connection:
            connection.execute("update receipts set judgement = ? where row = ?", (judgement.value, receipt.row))
            known = connection.execute(
                "select id from incidents where chain_id = ? and gmp = ? and (state = 'OPEN' or paused_until > ?)"
                " order by opened_at desc",
                (receipt.chain_id, receipt.gmp, now),
            ).fetchone()
            name = known["id"] if known else f"{receipt.chain_id}-{receipt.gmp}-{receipt.message_id.hex()[:8]}"
            if known is None:
                connection.execute(
                    "insert into incidents values (?, ?, ?, ?, 'OPEN', null, null) on conflict do update set state = 'OPEN'",
                    (name, receipt.chain_id, receipt.gmp, now),
                )
            else:  # a person may have ended the pause: the pauser looks
                connection.execute("update incidents set state = 'OPEN' where id = ?", (name,))
            key = f"evidence/{receipt.chain_id}/{receipt.block_hash.hex()}/{receipt.message_id.hex()}/{receipt.gmp}"
            self._append(connection, key, Deed.EVIDENCE, evidence, incident=name, at=now)
            _queue(connection, notices(name))
        return name

    def widen(self, incident: Incident, chain_id: int, because: Sequence[str], now: float) -> None:
        """A GMP lied on two destinations: it is to be paused on another chain too. The same twice changes nothing."""
        name = f"{chain_id}-{incident.gmp}-wide-{incident.id}"
        with self._transaction() as connection:
            known = connection.execute(
                "select 1 from incidents where chain_id = ? and gmp = ? and (id = ? or state = 'OPEN' or paused_until > ?)",
                (chain_id, incident.gmp, name, now),
            ).fetchone()
            if known is None:
                connection.execute(
                    "insert into incidents values (?, ?, ?, ?, 'OPEN', null, null)", (name, chain_id, incident.gmp, now)
                )
                self._append(
                    connection, f"widened/{name}", Deed.WIDENED, {"because": list(because)}, incident=name, at=now
                )

    def settle(
        self,
        incident: Incident,
        deed: Deed,
        document: Mapping[str, Any],
        now: float,
        *,
        until: int | None = None,
        block: int | None = None,
        notices: Iterable[tuple[str, str, Mapping[str, Any]]] = (),
    ) -> None:
        """The answer to an incident was given: the GMP is paused, or it can't be."""
        state = "PAUSED" if deed is Deed.PAUSED else "NOT_PAUSED"
        with self._transaction() as connection:
            connection.execute(
                "update incidents set state = ?, paused_until = coalesce(?, paused_until), paused_block = ? where id = ?",
                (state, until, block, incident.id),
            )
            key = f"{deed.value}/{incident.id}/{until}/{block}/{document.get('reason', '')}"
            self._append(connection, key, deed, document, incident=incident.id, at=now)
            _queue(connection, notices)

    def note(
        self,
        key: str,
        deed: Deed,
        document: Mapping[str, Any],
        now: float,
        *,
        incident: str = "",
        receipt: SeenReceipt | None = None,
        judgement: Judgement | None = None,
        notices: Iterable[tuple[str, str, Mapping[str, Any]]] = (),
    ) -> bool:
        """Keeps something that pauses nothing; says whether it was new."""
        with self._transaction() as connection:
            if receipt is not None and judgement is not None:
                connection.execute("update receipts set judgement = ? where row = ?", (judgement.value, receipt.row))
            is_new = self._append(connection, key, deed, document, incident=incident, at=now)
            if is_new:
                _queue(connection, notices)
        return is_new

    def incidents(self) -> list[Incident]:
        """All, oldest first."""
        return [Incident(**dict(row)) for row in self._rows("select * from incidents order by opened_at, id")]

    def records(self, incident: str | None = None) -> list[Record]:
        """The log, or what it says of one incident."""
        where = "" if incident is None else "where incident = ?"
        found = self._rows(
            f"select * from log {where} order by sequence",  # noqa: S608  our own text
            *(() if incident is None else (incident,)),
        )
        return [_record(row) for row in found]

    def untold(self) -> list[tuple[str, str, Mapping[str, Any]]]:
        """Key, channel and notice of what people were not told yet."""
        return [(r["key"], r["channel"], json.loads(r["notice"])) for r in self._rows("select * from notices")]

    def told(self, key: str, channel: str) -> None:
        """A channel took a notice."""
        with self._transaction() as connection:
            connection.execute("delete from notices where key = ? and channel = ?", (key, channel))

    def _append(
        self,
        connection: sqlite3.Connection,
        key: str,
        deed: Deed,
        document: Mapping[str, Any],
        *,
        incident: str,
        at: float,
    ) -> bool:
        assert self._signer is not None, "a store that is only read was written to"
        if connection.execute("select 1 from log where key = ?", (key,)).fetchone():
            return False
        last = connection.execute("select * from log order by sequence desc limit 1").fetchone()
        record = Record(
            sequence=last["sequence"] + 1 if last else 1,
            previous=_record(last).hash if last else NO_RECORD,
            key=key,
            deed=deed,
            incident=incident,
            at=at,
            document=document,
        ).signed(self._signer)
        connection.execute(
            "insert into log values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.sequence,
                record.previous,
                key,
                deed.value,
                incident,
                at,
                json.dumps(document),
                record.signer,
                record.signature,
            ),
        )
        return True


def _take_back(connection: sqlite3.Connection, chain_id: int, number: int) -> None:
    """Blocks above a height are to be read again. What was created in them is orphaned until that shows it again."""
    above = (chain_id, number)
    connection.execute("delete from blocks where chain_id = ? and number > ?", above)
    connection.execute("update creations set orphaned = 1 where chain_id = ? and block > ?", above)
    connection.execute("update hand_overs set orphaned = 1 where chain_id = ? and block > ?", above)
    connection.execute(
        "delete from receipts where chain_id = ? and block > ? and judgement in ('WAIT', 'HONEST')", above
    )
    connection.execute("delete from executions where chain_id = ? and block > ?", above)


def _queue(connection: sqlite3.Connection, notices: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
    for key, channel, notice in notices:
        connection.execute("insert or ignore into notices values (?, ?, ?)", (key, channel, json.dumps(notice)))


def _record(row: sqlite3.Row) -> Record:
    return Record(
        sequence=row["sequence"],
        previous=row["previous"],
        key=row["key"],
        deed=Deed(row["deed"]),
        incident=row["incident"],
        at=row["at"],
        document=json.loads(row["document"]),
        signer=row["signer"],
        signature=row["signature"],
    )


def _receipt(row: sqlite3.Row) -> SeenReceipt:
    return SeenReceipt(
        row=row["row"],
        chain_id=row["chain_id"],
        message_id=row["message_id"],
        gmp=row["gmp"],
        source_chain=row["source_chain"],
        payload_hash=row["payload_hash"],
        block_number=row["block"],
        block_hash=row["block_hash"],
        block_time=row["block_time"],
        transaction=row["transaction"],
        source_height=row["source_height"],
    )
