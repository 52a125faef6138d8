"""Fills an index store with synthetic messages, to measure pages under load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Engine, Index, Table, delete, func, select
from sqlalchemy.event import listen
from sqlalchemy.schema import CreateIndex, DropIndex

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from indexer.store import tables
from indexer.store.store import Store

CHAINS: Final = (31337, 31338)
_ENCODED: Final = 20_000
_KEPT_IDS: Final = 20
_BLOCK_HASH: Final = sha256(b"block").digest()
_FILLED: Final = (tables.messages, tables.receipts, tables.events)


@dataclass(frozen=True, slots=True)
class Made:
    """A synthetic message and its outcome."""

    number: int
    message: Message
    envelope: bytes
    routed_at: int  # Unix seconds

    @property
    def message_id(self) -> bytes:
        """Id of the message, as in the envelope."""
        return self.envelope[1:33]

    @property
    def is_executed(self) -> bool:
        """True for nine in ten messages."""
        return self.number % 10 != 0

    @property
    def is_repeated(self) -> bool:
        """True for one in a hundred messages: their first GMP delivers them twice."""
        return self.number % 100 == 1

    @property
    def is_retried(self) -> bool:
        """True for one in fifty messages."""
        return self.number % 50 == 0

    @property
    def gmps(self) -> tuple[Gmp, Gmp]:
        """The two GMPs that accept the message."""
        return Gmp(self.number % 5 + 1), Gmp((self.number + 1) % 5 + 1)

    @property
    def delivered(self) -> tuple[Gmp, ...]:
        """The GMPs that deliver the message."""
        return self.gmps if self.is_executed else self.gmps[: self.number // 10 % 2]


def fill(url: str, count: int, now: int) -> list[bytes]:
    """Writes at least `count` messages, one per second up to `now` (Unix seconds); returns the ids of some of the newest.

    The newest messages are encoded one by one; older ones are copies of them, made by the database. A store that an earlier call
    with the same arguments has filled is kept. Indexes are created at the end, since each would cost as much as the rows.
    """
    store = Store(url)
    try:
        listen(store.engine, "connect", _prepare_for_bulk)
        store.engine.dispose()
        copies = -(-count // _ENCODED)
        encoded = -(-count // copies)
        count = encoded * copies
        newest = range(count - encoded, count)
        with store.engine.connect() as connection:
            written = connection.scalar(select(func.count()).select_from(tables.messages)) or 0
        if written != count:
            _write_messages(store.engine, newest, now - count)
            for copy in range(1, copies):
                print(f"  {copy * encoded} of {count} messages", flush=True)
                _copy_messages(store.engine, copy, copy * encoded, newest.start, now - encoded)
        for index in _indexes():
            print(f"  index {index.name}", flush=True)
            with store.engine.begin() as connection:
                connection.execute(CreateIndex(index, if_not_exists=True))
        with store.engine.begin() as connection:
            connection.execute(delete(tables.chains))
            _insert(connection, tables.chains, [_chain_row(chain, count, now) for chain in CHAINS])
        some = newest[:: max(1, len(newest) // _KEPT_IDS)]
        return [_make(number, now - count + number).message_id for number in some]
    finally:
        store.close()


def _prepare_for_bulk(connection: Any, _record: object) -> None:
    """Keeps the tables in memory, because random message ids spread rows over all pages."""
    connection.execute("PRAGMA cache_size = -1500000")  # KiB
    connection.execute("PRAGMA synchronous = OFF")  # a store that a power cut spoils is rebuilt
    connection.execute("PRAGMA wal_autocheckpoint = 20000")  # pages
    connection.create_function("of_copy", 2, lambda value, copy: value and copy.to_bytes(4, "big") + value[4:])


def _indexes() -> list[Index]:
    """Returns the indexes except primary keys."""
    return sorted((index for table in _FILLED for index in table.indexes), key=lambda index: str(index.name))


def _write_messages(engine: Engine, numbers: range, begin: int) -> None:
    with engine.begin() as connection:
        for index in _indexes():
            connection.execute(DropIndex(index, if_exists=True))
        for table in _FILLED:
            connection.execute(delete(table))
        made = [_make(number, begin + number) for number in numbers]
        _insert(connection, tables.messages, [_message_row(item) for item in made])
        _insert(connection, tables.receipts, [row for item in made for row in _receipt_rows(item)])
        _insert(connection, tables.events, [row for item in made for row in _event_rows(item)])


def _copy_messages(engine: Engine, copy: int, shift: int, first_block: int, begin: int) -> None:
    """Copies the encoded messages `shift` seconds and blocks into the past.

    Args:
        engine: the store's.
        copy: number of the copy, at least 1.
        shift: seconds and blocks.
        first_block: of the encoded messages.
        begin: Unix seconds of the first encoded message.
    """
    encoded = {
        tables.messages: f"source_time >= {begin}",
        tables.receipts: f"dispatched_time >= {begin}",
        tables.events: f"block_number >= {first_block}",
    }
    with engine.begin() as connection:
        for table, condition in encoded.items():
            names = [column.name for column in table.columns]
            values = ", ".join(_copied(name, copy, shift) for name in names)
            connection.exec_driver_sql(
                f"insert into {table.name} ({', '.join(names)}) select {values} from {table.name} where {condition}"  # noqa: S608  names of our own tables
            )


def _copied(name: str, copy: int, shift: int) -> str:
    """A column of a copy: ids and hashes begin with the copy's number, and times and blocks are lower."""
    if name in ("message_id", "transaction_hash") or name.endswith("_transaction"):
        return f"of_copy({name}, {copy})"
    if name in ("block_number", "nonce", "sent_at") or name.endswith(("_time", "_block")):
        return f"{name} - {shift}"
    return name


def _make(number: int, routed_at: int) -> Made:
    source, destination = CHAINS if number % 3 else CHAINS[::-1]
    message = Message(
        source_chain=source,
        source_router=_word(source),
        sender=_word(10_000 + number % 997),
        nonce=number + 1,
        destination_chain=destination,
        destination_router=_word(destination),
        recipient=_word(20_000 + number % 499),
        gas_limit=200_000,
        sent_at=routed_at,
        ttl=0,
        kind=Kind(number % 5),
        quorum=2,
        replaces=bytes(32),
        payload=b"message %d" % number,
    )
    return Made(number, message, message.encode(), routed_at)


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _transaction(item: Made, what: str) -> bytes:
    return sha256(b"%s %d" % (what.encode(), item.number)).digest()


def _message_row(item: Made) -> dict[str, Any]:
    message, delivered = item.message, item.delivered
    executed_at = item.routed_at + 5 + item.number % 20
    row = {
        name: getattr(message, name)
        for name in ("source_chain", "source_router", "destination_chain", "destination_router", "sender", "recipient")
    }
    row |= {name: getattr(message, name) for name in ("nonce", "gas_limit", "sent_at", "ttl", "quorum", "replaces")}
    return row | {
        "message_id": item.message_id,
        "asked_quorum": message.quorum,
        "status": "EXECUTED" if item.is_executed else "RECEIVED" if delivered else "ROUTED",
        "kind": int(message.kind),
        "source_block": item.number,
        "source_time": item.routed_at,
        "source_transaction": _transaction(item, "route"),
        "payload_hash": _BLOCK_HASH,
        "payload_differs": False,
        "retriable": True,
        "attempts": int(item.is_retried),
        "attempted_block": item.number,
        "attempted_hash": _BLOCK_HASH,
        "attempted_time": item.routed_at,
        "dispatched": sum(gmp.bit for gmp in item.gmps),
        "received": sum(gmp.bit for gmp in delivered),
        "receipts": len(delivered),
        "received_time": item.routed_at + 4 if delivered else None,
        "executions": int(item.is_executed),
        "executed_block": item.number if item.is_executed else None,
        "executed_log_index": 3 if item.is_executed else None,
        "executed_time": executed_at if item.is_executed else None,
        "executed_transaction": _transaction(item, "execute") if item.is_executed else None,
        "failures": 0,
        "duplicates": int(item.is_repeated),
    }


def _receipt_rows(item: Made) -> list[dict[str, Any]]:
    return [
        {
            "message_id": item.message_id,
            "gmp": int(gmp),
            "dispatches": 1,
            "dispatched_time": item.routed_at,
            "last_attempt": 0,
            "dispatch_failures": 0,
            "received_chain": item.message.destination_chain if gmp in item.delivered else None,
            "received_block": item.number if gmp in item.delivered else None,
            "received_log_index": position if gmp in item.delivered else None,
            "received_time": item.routed_at + 4 if gmp in item.delivered else None,
            "received_transaction": _transaction(item, gmp.label) if gmp in item.delivered else None,
            "last_received_block": item.number if gmp in item.delivered else None,
            "last_received_log_index": position if gmp in item.delivered else None,
            "quorum": 2 if gmp in item.delivered else None,
            "duplicates": int(item.is_repeated and position == 0),
        }
        for position, gmp in enumerate(item.gmps)
    ]


def _event_rows(item: Made) -> list[dict[str, Any]]:
    source, destination = item.message.source_chain, item.message.destination_chain
    rows = [
        _event_row(item, source, 0, "MessageRouted", "route")
        | {"gmps": sum(gmp.bit for gmp in item.gmps), "attempt": 0, "envelope": item.envelope}
    ]
    for position, gmp in enumerate(item.delivered, 1):
        rows.append(
            _event_row(item, destination, position, "MessageReceived", gmp.label)
            | {"gmp": int(gmp), "receipts": position, "quorum": 2}
        )
    if item.is_executed:
        rows.append(_event_row(item, destination, 3, "MessageExecuted", "execute"))
    if item.is_repeated:
        rows.append(_event_row(item, destination, 4, "DuplicateAbsorbed", "again") | {"gmp": int(item.delivered[0])})
    return rows


def _event_row(item: Made, chain: int, log_index: int, event: str, transaction: str) -> dict[str, Any]:
    return {
        "chain_id": chain,
        "block_number": item.number,
        "log_index": log_index,
        "block_hash": _BLOCK_HASH,
        "block_time": item.routed_at + log_index,
        "transaction_hash": _transaction(item, transaction),
        "address": bytes(20),
        "event": event,
        "message_id": item.message_id,
    }


def _chain_row(chain: int, block: int, now: int) -> dict[str, Any]:
    return {
        "chain_id": chain,
        "block": block,
        "block_hash": _BLOCK_HASH,
        "block_time": now,
        "hashes": b"",
        "final_block": block,
        "final_hash": _BLOCK_HASH,
        "head_block": block,
    }


def _insert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    names = [column.name for column in table.columns]
    marks = ", ".join("?" for _ in names)
    connection.exec_driver_sql(
        f"insert into {table.name} ({', '.join(names)}) values ({marks})",  # noqa: S608  names of our own tables
        [tuple(row.get(name) for name in names) for row in rows],
    )
