"""Decodes the logs of Waybill's contracts to rows of the events table.

Every log becomes exactly one row, with its topics and data. A malformed event is quarantined: its row is not
decoded, and the column `error` has the reason. Nothing is dropped, and nothing stops the stream.
`events_of_logs` decodes the lake's raw logs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from eth_utils.crypto import keccak

from bridge.protocol.events import (
    SIGNATURES,
    DuplicateAbsorbed,
    EventSignature,
    MessageRouted,
    MessageUnfunded,
    topic_of,
)
from bridge.protocol.message import ENVELOPE_VERSION, HEADER_LENGTH, Kind
from indexer.decode import abi
from indexer.decode.abi import Rows, fixed_column, gather, to_uint64
from indexer.decode.hexadecimal import Bytes, Integers
from indexer.decode.logs import MAX_TOPICS, RawLogs, logs_of_rows
from indexer.model import schemas

_HIGHEST_GMP: Final = 16

_WITH_ENVELOPE: Final = frozenset({MessageRouted.__name__, MessageUnfunded.__name__})

REGISTRATIONS: Final = (topic_of("AdapterAdded"), topic_of("AdapterReplaced"))
"""Topics 0 of the events by which a router registers an adapter."""

_COLUMN_OF: Final = {"state": "outcome", "first": "outcome", "second": "second_outcome", "floor": "quorum"}
"""Parameters whose column has a different name: the same fact has one column, regardless of the event."""

_FIELDS: Final = {
    "version": (0, 1),
    "message_id": (1, 32),
    "source_chain": (33, 8),
    "source_router": (41, 32),
    "sender": (73, 32),
    "nonce": (105, 8),
    "destination_chain": (113, 8),
    "destination_router": (121, 32),
    "recipient": (153, 32),
    "gas_limit": (185, 8),
    "sent_at": (193, 8),
    "ttl": (201, 4),
    "kind": (205, 1),
    "quorum": (206, 1),
    "replaces": (207, 32),
}
"""Byte offset and width of each field."""

_INTEGERS: Final = ("source_chain", "nonce", "gas_limit", "sent_at", "ttl", "kind", "quorum")
_WORDS: Final = ("source_router", "sender", "destination_router", "recipient", "replaces")


@dataclass(frozen=True, slots=True)
class Emitters:
    """Waybill's contracts on one chain. Logs of other contracts are ignored, whatever their topics."""

    chain_id: int
    router: bytes  # 20 bytes
    adapters: frozenset[bytes]

    @property
    def addresses(self) -> tuple[bytes, ...]:
        """Returns all addresses, starting with the router."""
        return (self.router, *sorted(self.adapters))

    def with_adapters(self, adapters: Iterable[bytes]) -> Emitters:
        """Returns the emitters with adapters that the router registered later."""
        return replace(self, adapters=self.adapters | frozenset(adapters))


def events_table(logs: RawLogs, emitters: Emitters) -> pa.Table:
    """Decodes logs to events, in chain order.

    Args:
        logs: logs of one chain, with block times.
        emitters: Waybill's contracts on that chain.

    Returns:
        A table with the schema `schemas.EVENTS`, one row per log.
    """
    parts = [_rows_of_one_topic(logs, emitters, rows, signature) for rows, signature in _by_topic(logs)]
    table = pa.concat_tables(parts) if parts else schemas.EVENTS.empty_table()
    return table.sort_by([("block_number", "ascending"), ("log_index", "ascending")])


def logs_table(logs: RawLogs, emitters: Emitters) -> pa.Table:
    """Returns raw logs in chain order, with the schema `schemas.LOGS`. Takes the same arguments as `events_table`."""
    columns = _place(logs, emitters, np.arange(len(logs)))
    table = pa.table([columns[field.name].cast(field.type) for field in schemas.LOGS], schema=schemas.LOGS)
    return table.sort_by([("block_number", "ascending"), ("log_index", "ascending")])


def events_of_logs(rows: pa.Table) -> pa.Table:
    """Decodes raw logs from the lake to events, in the order of each chain.

    Args:
        rows: rows of `schemas.LOGS`, from any number of chains. A router or one of its adapters emitted each log.

    Returns:
        A table with the schema `schemas.EVENTS`, one row per log.
    """
    parts = [schemas.EVENTS.empty_table()]
    for source in rows.select(["chain_id", "router"]).group_by(["chain_id", "router"]).aggregate([]).to_pylist():
        chain_id, router = source["chain_id"], source["router"]
        chosen = rows.filter(pc.and_(pc.equal(rows["chain_id"], chain_id), pc.equal(rows["router"], router)))
        adapters = frozenset(pc.unique(chosen["address"]).to_pylist()) - {router}
        parts.append(events_table(logs_of_rows(chosen), Emitters(chain_id, router, adapters)))
    return pa.concat_tables(parts)


def registered_adapters(logs: RawLogs, router: bytes) -> dict[bytes, int]:
    """Maps each adapter (20 bytes) that the router registered in these logs to the first block of its registration."""
    topics = np.ascontiguousarray(logs.topics[:, 0]).view("V32").ravel()
    registers = np.zeros(len(logs), bool)
    for event in REGISTRATIONS:
        registers |= topics == np.frombuffer(event, "V32")[0]
    registers &= (logs.topic_count > 2) & (logs.address == np.frombuffer(router, np.uint8)).all(axis=1)
    taken: dict[bytes, int] = {}
    for row in np.flatnonzero(registers).tolist():
        adapter, block = logs.topics[row, 2, 12:].tobytes(), int(logs.block_number[row])
        taken[adapter] = min(block, taken.get(adapter, block))
    return taken


def _by_topic(logs: RawLogs) -> Iterable[tuple[Integers, EventSignature | None]]:
    """Groups rows by topic 0, with the event's signature."""
    topics = np.ascontiguousarray(logs.topics[:, 0]).view("V32").ravel()
    known = np.zeros(len(logs), bool)
    for topic, signature in SIGNATURES.items():
        rows = (topics == np.frombuffer(topic, "V32")[0]) & (logs.topic_count > 0)
        known |= rows
        if rows.any():
            yield np.flatnonzero(rows), signature
    if not known.all():
        yield np.flatnonzero(~known), None


def _rows_of_one_topic(logs: RawLogs, emitters: Emitters, rows: Integers, signature: EventSignature | None) -> pa.Table:
    columns = _place(logs, emitters, rows)
    if signature is None:
        return _table(columns, len(rows))
    work = abi.Rows(logs.data, logs.data_offsets[rows], np.diff(logs.data_offsets)[rows])
    columns["event"] = pa.array([signature.name] * len(rows), pa.string())
    decoded = columns | _decode(work, logs, emitters, rows, signature)
    bad = np.flatnonzero(work.errors != "")
    if not len(bad):
        return _table(decoded, len(rows))
    good = pa.array(work.errors == "")
    quarantined = {name: column.take(pa.array(bad)) for name, column in columns.items()}
    quarantined |= {"error": pa.array(work.errors[bad].tolist(), pa.string())}
    return pa.concat_tables([_table(decoded, len(rows)).filter(good), _table(quarantined, len(bad))])


def _place(logs: RawLogs, emitters: Emitters, rows: Integers) -> dict[str, pa.Array]:
    return {
        "chain_id": pa.array(np.full(len(rows), emitters.chain_id, np.int64)),
        "block_number": pa.array(logs.block_number[rows]),
        "log_index": pa.array(logs.log_index[rows]),
        "block_hash": abi.fixed_column(logs.block_hash[rows]),
        "block_time": pa.array(logs.block_time[rows]),
        "transaction_hash": abi.fixed_column(logs.transaction_hash[rows]),
        "router": abi.fixed_column(_repeated(emitters.router, len(rows))),
        "address": abi.fixed_column(logs.address[rows]),
        "topics": abi.binary_column(logs.topics.reshape(-1), rows * 32 * MAX_TOPICS, logs.topic_count[rows] * 32),
        "data": abi.binary_column(logs.data, logs.data_offsets[rows], np.diff(logs.data_offsets)[rows]),
    }


def _table(columns: Mapping[str, pa.Array], length: int) -> pa.Table:
    return pa.table(
        [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(length, field.type)
            for field in schemas.EVENTS
        ],
        schema=schemas.EVENTS,
    )


def _decode(
    work: abi.Rows, logs: RawLogs, emitters: Emitters, rows: Integers, signature: EventSignature
) -> dict[str, pa.Array]:
    """Decodes the columns of one kind of event. Records the errors of malformed rows in `work`."""
    _check_emitter(work, logs.address[rows], emitters, signature)
    work.refuse(logs.topic_count[rows] != len(signature.indexed) + 1, "the number of topics is wrong")
    head_length = 32 * len(signature.unindexed)
    words = {
        name: (kind, logs.topics[rows, position]) for position, (name, kind) in enumerate(signature.indexed, start=1)
    }
    words |= {
        name: (kind, work.words(np.full(len(rows), 32 * position, np.int64)))
        for position, (name, kind) in enumerate(signature.unindexed)
    }
    columns: dict[str, pa.Array] = {}
    for name, (kind, word) in words.items():
        if kind == "bytes":
            starts, lengths = abi.dynamic_bytes(work, word, head_length, name)
            columns[name] = abi.binary_column(work.data, starts, lengths)
            if signature.name in _WITH_ENVELOPE:
                columns |= _routed_columns(work, starts, lengths, words, emitters)
        else:
            columns[name] = _static_column(work, word, kind, name)
    named = {_COLUMN_OF.get(name, name): column for name, column in columns.items()}
    return {name: _fitting(work, name, column) for name, column in named.items()}


def _check_emitter(work: abi.Rows, addresses: Bytes, emitters: Emitters, signature: EventSignature) -> None:
    allowed = emitters.adapters if signature.name == DuplicateAbsorbed.__name__ else {emitters.router}
    emitted = np.zeros(len(addresses), bool)
    for address in allowed:
        emitted |= (addresses == np.frombuffer(address, np.uint8)).all(axis=1)
    role = "one of Waybill's adapters" if signature.name == DuplicateAbsorbed.__name__ else "Waybill's router"
    work.refuse(~emitted, f"the emitter is not {role}")


def _static_column(work: abi.Rows, words: Bytes, kind: str, name: str) -> pa.Array:
    if kind == "bytes32":
        return abi.fixed_column(words)
    if kind == "address":
        return abi.fixed_column(abi.address(work, words, name))
    if kind == "bool":
        return pa.array(abi.boolean(work, words, name))
    values = abi.unsigned(work, words, int(kind.removeprefix("uint")), name)
    if name == "gmp":
        work.refuse((values == 0) | (values > _HIGHEST_GMP), f"gmp is not 1…{_HIGHEST_GMP}")
    return pa.array(values)


def _routed_columns(
    work: abi.Rows,
    starts: Integers,
    lengths: Integers,
    words: Mapping[str, tuple[str, Bytes]],
    emitters: Emitters,
) -> dict[str, pa.Array]:
    """Decodes the envelope. Fields that the log repeats must match."""
    count = len(starts)
    expected = {
        "message_id": words["message_id"][1],
        "destination_chain": words["destination_chain"][1],
        "source_chain": _repeated(emitters.chain_id.to_bytes(32, "big"), count),
        "source_router": _repeated(emitters.router.rjust(32, b"\0"), count),
    }
    columns = envelope_columns(work, starts, lengths, expected)
    return columns | {
        "source_chain": pa.array(np.full(count, emitters.chain_id, np.int64)),
        "source_router": abi.fixed_column(expected["source_router"]),
    }


def _repeated(word: bytes, count: int) -> Bytes:
    return np.tile(np.frombuffer(word, np.uint8), (count, 1))


@cache
def _column_type(name: str) -> pa.DataType:
    return schemas.EVENTS.field(name).type


def _fitting(work: abi.Rows, name: str, column: pa.Array) -> pa.Array:
    """Converts a column to its type in the table. A uint64 that does not fit is an error."""
    if not pa.types.is_unsigned_integer(column.type) or _column_type(name) == schemas.UINT64:
        return column
    values = column.to_numpy()
    limit = np.uint64(np.iinfo(_column_type(name).to_pandas_dtype()).max)
    work.refuse(values > limit, f"{name} is larger than {limit}")
    return pa.array(np.minimum(values, limit))


def envelope_columns(
    rows: Rows, starts: Integers, lengths: Integers, expected: dict[str, Bytes]
) -> dict[str, pa.Array]:
    """Decodes envelopes. A malformed envelope is recorded as an error of its row.

    Args:
        rows: logs that contain the envelopes.
        starts: start offset of each envelope in the flat data.
        lengths: length of each envelope in bytes.
        expected: fields that the log contains as well; the envelope must have the same values.

    Returns:
        A column for each field that is not in `expected`, and the column `payload_hash`.
    """
    whole = lengths >= HEADER_LENGTH
    rows.refuse(~whole, f"the envelope has fewer than {HEADER_LENGTH} bytes")
    header = gather(rows.data, starts, HEADER_LENGTH, whole)
    fields = {name: header[:, offset : offset + width] for name, (offset, width) in _FIELDS.items()}
    rows.refuse(fields["version"][:, 0] != ENVELOPE_VERSION, f"the envelope's version is not {ENVELOPE_VERSION}")
    rows.refuse(fields["kind"][:, 0] > max(Kind), "the envelope's kind is unknown")
    for name, values in expected.items():
        width = _FIELDS[name][1]
        rows.refuse((fields[name] != values[:, -width:]).any(axis=1), f"the envelope states another {name}")
    columns = {name: pa.array(_integers(fields[name])) for name in _INTEGERS if name not in expected}
    columns |= {name: fixed_column(fields[name]) for name in _WORDS if name not in expected}
    columns["payload_hash"] = _payload_hashes(rows.data, starts, lengths)
    return columns


def _integers(field: Bytes) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    padded = np.zeros((len(field), 8), np.uint8)
    padded[:, 8 - field.shape[1] :] = field
    return to_uint64(padded)


def _payload_hashes(data: Bytes, starts: Integers, lengths: Integers) -> pa.Array:
    """Returns the payloads' hashes; null if the envelope is incomplete."""
    text = data.tobytes()
    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    hashes = [
        keccak(text[start + HEADER_LENGTH : start + length]) if length >= HEADER_LENGTH else None
        for start, length in spans
    ]
    return pa.array(hashes, pa.binary())
