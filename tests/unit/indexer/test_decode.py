"""Decoding logs to columns, against eth_abi and `bridge.protocol` as the plain way to do it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol.events import EventDecodingError
from bridge.protocol.message import Kind
from indexer.decode import abi
from indexer.decode.events import events_table
from indexer.decode.logs import MalformedLogsError, raw_logs
from indexer.model import schemas
from tests.cases import for_each_case
from tests.unit.indexer.logs import (
    ADAPTERS,
    ALPHA,
    BETA,
    EMITTERS,
    ROUTERS,
    SIGNATURE_OF,
    LogBook,
    message,
    topics_and_data,
)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes32": st.binary(min_size=32, max_size=32),
    "address": st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex()),
    "bool": st.booleans(),
    "uint8": st.integers(0, 2**8 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint48": st.integers(0, 2**48 - 1),
    "uint64": st.integers(0, 2**63 - 1),
    "bytes": st.binary(max_size=100),
}


@st.composite
def messages(draw: st.DrawFn) -> Any:
    word = st.binary(min_size=32, max_size=32)
    return message(
        nonce=draw(st.integers(1, 2**63 - 1)),
        sender=draw(word),
        recipient=draw(word),
        gas_limit=draw(st.integers(0, 2**64 - 1)),
        sent_at=draw(st.integers(0, 2**63 - 1)),
        ttl=draw(st.integers(0, 2**32 - 1)),
        kind=draw(st.sampled_from(Kind)),
        quorum=draw(st.integers(0, 255)),
        replaces=draw(word),
        payload=draw(st.binary(max_size=100)),
    )


@st.composite
def genuine_logs(draw: st.DrawFn) -> tuple[str, list[bytes], bytes]:
    name = draw(st.sampled_from(sorted(SIGNATURE_OF)))
    if name in ("MessageRouted", "MessageUnfunded"):
        sent = draw(messages())
        values = {
            "message_id": sent.id,
            "destination_chain": BETA,
            "retriable": draw(st.booleans()),
            "gmps": draw(VALUES["uint16"]),
            "envelope": sent.encode(),
        }
    else:
        signature = SIGNATURE_OF[name]
        values = {field: draw(VALUES[kind]) for field, kind in (*signature.indexed, *signature.unindexed)}
        if "gmp" in values:
            values["gmp"] = draw(st.integers(1, 16))
    return name, *topics_and_data(name, **values)


def rows_of(book: LogBook) -> list[dict[str, Any]]:
    table = events_table(raw_logs(book.logs), EMITTERS[book.chain])
    assert table.schema == schemas.EVENTS
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def as_columns(values: dict[str, Any]) -> dict[str, Any]:
    """A decoded event's values as the table has them: addresses are 32 bytes, and the same fact has one name."""
    columns = {"state": "outcome", "first": "outcome", "second": "second_outcome", "floor": "quorum"}
    return {
        columns.get(name, name): bytes.fromhex(value[2:]).rjust(32, b"\0") if isinstance(value, str) else value
        for name, value in values.items()
    }


@settings(deadline=None)
@given(logs=st.lists(genuine_logs(), max_size=12))
def test_columns_equal_what_eth_abi_decodes_log_by_log(logs: list[tuple[str, list[bytes], bytes]]) -> None:
    book = LogBook()
    for position, (name, topics, data) in enumerate(logs):
        book.add(position // 3, topics, data, address=ADAPTERS[ALPHA] if name == "DuplicateAbsorbed" else None)
    rows = rows_of(book)
    assert [row["log_index"] for row in rows] == list(range(len(logs)))
    for row, (name, topics, data) in zip(rows, logs, strict=True):
        assert row["event"] == name
        assert row["error"] is None
        assert (row["topics"], row["data"]) == (b"".join(topics), data)
        for column, value in as_columns(SIGNATURE_OF[name].values(topics, data)).items():
            assert row[column] == value, column


@given(sent=messages(), retriable=st.booleans())
def test_envelope_fields_equal_the_message_that_was_encoded(*, sent: Any, retriable: bool) -> None:
    book = LogBook()
    book.event(
        7,
        "MessageRouted",
        message_id=sent.id,
        destination_chain=BETA,
        retriable=retriable,
        gmps=5,
        envelope=sent.encode(),
    )
    (row,) = rows_of(book)
    fields = asdict(sent)
    payload = fields.pop("payload")
    assert row["error"] is None
    for name, value in fields.items():
        assert row[name] == value, name
    assert row["payload_hash"] == keccak(payload)
    assert row["envelope"] == sent.encode()
    assert (row["block_number"], row["block_time"], row["chain_id"]) == (7, 1_000_007, ALPHA)


@settings(max_examples=60)
@given(log=genuine_logs(), position=st.integers(0, 10_000), value=st.integers(0, 255), cut=st.integers(-40, 40))
def test_undecodable_log_is_quarantined_with_its_reason(
    log: tuple[str, list[bytes], bytes], position: int, value: int, cut: int
) -> None:
    name, topics, data = log
    mutable = bytearray(data)
    if mutable:
        mutable[position % len(mutable)] = value
    data = bytes(mutable[:cut]) if cut < 0 else bytes(mutable) + bytes(cut)
    book = LogBook()
    book.add(1, topics, data, address=ADAPTERS[ALPHA] if name == "DuplicateAbsorbed" else None)
    (row,) = rows_of(book)
    try:
        decoded = as_columns(SIGNATURE_OF[name].values(topics, data))
    except EventDecodingError:
        assert row["error"]
    else:
        if row["error"] is None:
            assert {column: row[column] for column in decoded} == decoded
    if row["error"]:
        assert row["event"] == name
        assert row["topics"] == b"".join(topics)
        assert row["data"] == data
        assert row["message_id"] is None


def decoded_by_columns(kinds: list[str], blobs: list[bytes]) -> tuple[list[list[Any]], list[str]]:
    """Per parameter its values in all rows, and per row its error."""
    lengths = np.array([len(blob) for blob in blobs], np.int64)
    flat = np.frombuffer(b"".join(blobs), np.uint8)
    rows = abi.Rows(flat, np.cumsum(lengths) - lengths, lengths)
    columns: list[list[Any]] = []
    for position, kind in enumerate(kinds):
        words = rows.words(np.full(len(blobs), 32 * position, np.int64))
        if kind == "bytes":
            starts, sizes = abi.dynamic_bytes(rows, words, 32 * len(kinds), "it")
            columns.append(abi.binary_column(flat, starts, sizes).to_pylist())
        elif kind == "bool":
            columns.append(abi.boolean(rows, words, "it").tolist())
        elif kind == "address":
            columns.append(["0x" + word[12:].tobytes().hex() for word in abi.address(rows, words, "it")])
        elif kind == "bytes32":
            columns.append([word.tobytes() for word in words])
        else:
            columns.append(abi.unsigned(rows, words, int(kind.removeprefix("uint")), "it").tolist())
    return columns, rows.errors.tolist()


@settings(max_examples=30, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=8),
    data=st.data(),
    damage=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 255), st.integers(-40, 40)) | st.none(), max_size=4
    ),
)
def test_any_signature_decodes_like_eth_abi(
    kinds: list[str], data: st.DataObject, damage: list[tuple[int, int, int] | None]
) -> None:
    blobs = []
    for harm in (None, *damage):
        blob = bytearray(encode(kinds, [data.draw(VALUES[kind]) for kind in kinds]))
        if harm is not None:
            position, value, cut = harm
            blob[position % len(blob)] = value
            blob = blob[:cut] if cut < 0 else blob + bytearray(cut)
        blobs.append(bytes(blob))
    columns, errors = decoded_by_columns(kinds, blobs)
    assert not errors[0]
    for row, encoded in enumerate(blobs):
        try:
            expected = list(decode(kinds, encoded))
        except (DecodingError, OverflowError):  # the latter of a size that no memory has
            assert errors[row]
        else:
            if not errors[row]:
                assert [column[row] for column in columns] == expected


def test_an_unknown_event_is_kept_raw_and_is_no_error() -> None:
    book = LogBook()
    book.add(1, [b"\x77" * 32, b"\x01" * 32], b"anything")
    book.add(1, [], b"")
    for row, topics, data in zip(rows_of(book), (b"\x77" * 32 + b"\x01" * 32, b""), (b"anything", b""), strict=True):
        assert (row["event"], row["error"], row["topics"], row["data"]) == (None, None, topics, data)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source_chain": BETA}, "another source_chain"),
        ({"source_router": b"\x09" * 32}, "another source_router"),
        ({"destination_chain": ALPHA}, "another destination_chain"),
    ],
)
def test_an_envelope_that_contradicts_its_log_is_quarantined(changes: dict[str, Any], reason: str) -> None:
    sent = message(**changes)
    book = LogBook()
    book.event(
        1, "MessageRouted", message_id=sent.id, destination_chain=BETA, retriable=True, gmps=1, envelope=sent.encode()
    )
    (row,) = rows_of(book)
    assert reason in row["error"]


def test_an_envelope_of_another_message_is_quarantined() -> None:
    book = LogBook()
    book.event(
        1,
        "MessageRouted",
        message_id=message(nonce=2).id,
        destination_chain=BETA,
        retriable=True,
        gmps=1,
        envelope=message().encode(),
    )
    (row,) = rows_of(book)
    assert "another message_id" in row["error"]


def test_routers_events_from_an_adapter_are_quarantined() -> None:
    book = LogBook()
    book.add(
        1,
        *topics_and_data("ExecutionFailed", message_id=b"\1" * 32, source_chain=BETA, reason=b""),
        address=ADAPTERS[ALPHA],
    )
    book.add(1, *topics_and_data("DuplicateAbsorbed", message_id=b"\1" * 32, gmp=1), address=ROUTERS[ALPHA])
    assert [row["error"] for row in rows_of(book)] == [
        "the emitter is not Waybill's router",
        "the emitter is not one of Waybill's adapters",
    ]


def test_oversized_number_is_quarantined() -> None:
    book = LogBook()
    book.event(1, "MessageRetried", message_id=b"\1" * 32, destination_chain=2**63, attempt=1, gmps=1)
    book.event(1, "ExecutionDeferred", message_id=b"\1" * 32, source_chain=BETA, gas_limit=2**64 - 1)
    too_large, fits = rows_of(book)
    assert too_large["error"] == f"destination_chain is larger than {2**63 - 1}"
    assert (fits["error"], fits["gas_limit"]) == (None, 2**64 - 1)


@for_each_case(
    "field, value",
    [
        ("blockHash", "0x12"),
        ("blockHash", None),
        ("data", "0x123"),
        ("data", "0xzz"),
        ("blockNumber", "12"),
        ("logIndex", None),
        ("topics", ["0x" + "11" * 32] * 5),
        ("address", "0x" + "g1" * 20),
        ("transactionHash", 7),
    ],
)
def test_malformed_log_voids_the_answer(field: str, value: Any) -> None:
    book = LogBook()
    book.add(1, [b"\x77" * 32], b"")
    book.logs[0][field] = value
    with pytest.raises(MalformedLogsError):
        raw_logs(book.logs)
