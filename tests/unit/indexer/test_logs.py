"""The scanner of answers: the same columns as the plain path, or none at all."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.decode.logs import RawLogs, raw_logs, scan
from tests.cases import for_each_case

WORDS = st.binary(min_size=32, max_size=32)


def hexadecimal(value: bytes) -> str:
    return "0x" + value.hex()


@st.composite
def answers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Logs as one endpoint writes them: any of them, but all with the same fields in the same order."""
    order = draw(st.permutations(range(10)))
    timestamps, capitals, more = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    logs = []
    for _ in range(draw(st.integers(1, 6))):
        data = draw(st.binary(max_size=100)).hex()
        fields = [
            ("address", hexadecimal(draw(st.binary(min_size=20, max_size=20)))),
            ("topics", [hexadecimal(topic) for topic in draw(st.lists(WORDS, max_size=4))]),
            ("data", "0x" + (data.upper() if capitals else data)),
            ("blockNumber", hex(draw(st.integers(0, 2**60 - 1)))),
            ("blockHash", hexadecimal(draw(WORDS))),
            ("transactionHash", hexadecimal(draw(WORDS))),
            ("transactionIndex", hex(draw(st.integers(0, 300)))),
            ("logIndex", hex(draw(st.integers(0, 70_000)))),
            ("removed", False),
            ("blockTimestamp", hex(draw(st.integers(0, 2**33))) if timestamps else None),
        ]
        logs.append(dict(fields[place] for place in order) | ({"l1Block": "0x"} if more else {}))
    return logs


def body_of(logs: list[dict[str, Any]]) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 7, "result": logs})


def assert_same(found: RawLogs, expected: RawLogs) -> None:
    for name in RawLogs.__dataclass_fields__:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize("widths", [1, 64])
def test_data_of_one_width_and_of_many_is_what_the_plain_path_gives(
    widths: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.decode.logs._MOST_WIDTHS", widths)
    for lengths in ([32, 32], [0, 0], [0, 3, 3, 32, 1, 0, 32, 100]):
        logs = [log_with(bytes(range(length))) for length in lengths]
        found = scan(body_of(logs))
        assert found is not None
        assert_same(found.logs, raw_logs(logs))


def log_with(data: bytes) -> dict[str, Any]:
    word = hexadecimal(b"\xab" * 32)
    log = {"address": hexadecimal(b"\xab" * 20), "topics": [word], "data": hexadecimal(data), "blockNumber": "0x1"}
    return log | {"blockHash": word, "transactionHash": word, "logIndex": "0x2"}


@settings(deadline=None, max_examples=10)
@given(answers())
def test_the_scanner_gives_what_the_plain_path_gives(logs: list[dict[str, Any]]) -> None:
    found = scan(body_of(logs))
    assert found is not None
    assert orjson.loads(found.rest) == {"jsonrpc": "2.0", "id": 7, "result": []}
    assert_same(found.logs, raw_logs(logs))


@pytest.mark.parametrize("layouts", [1, 2, 16])
def test_an_answer_with_logs_of_many_layouts_is_read_or_left_to_the_plain_path(
    layouts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.decode.logs._MOST_LAYOUTS", layouts)
    logs = [LOG | {"topics": LOG["topics"] * count, "data": "0x" + "02" * count} for count in (2, 0, 2, 4, 0, 2)]
    found = scan(body_of(logs))
    assert (found is not None) == (layouts >= 3)
    if found is not None:
        assert_same(found.logs, raw_logs(logs))


def test_logs_with_and_without_a_time_may_be_in_one_answer() -> None:
    logs = [LOG, LOG | {"blockTimestamp": "0x7"}, LOG | {"blockTimestamp": None}]
    found = scan(body_of(logs))
    assert found is not None
    assert found.logs.block_time.tolist() == raw_logs(logs).block_time.tolist() == [-1, 7, -1]


def test_a_log_that_lacks_a_piece_is_left_to_the_plain_path_or_read_as_that_reads_it() -> None:
    chosen = random.Random(7)
    body = body_of([LOG, LOG])
    second = body.rindex(b"{")
    for _ in range(3000):
        begin, end = sorted(chosen.sample(range(second, len(body)), 2))
        damaged = body[:begin] + body[end:]
        found = scan(damaged)
        if found is not None and (rest := loaded(found.rest)) and rest.get("result") == []:
            assert_same(found.logs, raw_logs(orjson.loads(damaged)["result"]))


def loaded(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


LOG: dict[str, Any] = {
    "address": "0x" + "a1" * 20,
    "topics": ["0x" + "01" * 32],
    "data": "0x" + "02" * 64,
    "blockNumber": "0x10",
    "blockHash": "0x" + "03" * 32,
    "transactionHash": "0x" + "04" * 32,
    "transactionIndex": "0x0",
    "logIndex": "0x5",
    "removed": False,
}


def test_an_answer_damaged_at_any_place_is_left_to_the_plain_path_or_read_as_that_reads_it() -> None:
    chosen = random.Random(5)
    body = body_of([LOG, LOG | {"topics": [], "data": "0x"}, LOG | {"logIndex": "0x6"}])
    pieces = [b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b" ", b"g", b"0", b"\0"]
    read = 0
    for place in range(len(body)):
        for piece in chosen.sample(pieces, 2):
            damaged = body[:place] + piece + body[place + chosen.randint(0, 2) :]
            found = scan(damaged)
            if found is None:
                continue
            read += 1
            try:
                rest = orjson.loads(found.rest)
            except orjson.JSONDecodeError:
                with pytest.raises(orjson.JSONDecodeError):
                    orjson.loads(damaged)
                continue
            document = orjson.loads(damaged)
            if rest.get("result") == []:
                assert rest == document | {"result": []}
                assert_same(found.logs, raw_logs(document["result"]))
    assert read > 100


@for_each_case(
    "changes",
    [
        {"removed": True},
        {"removed": "0x0"},
        {"topics": None},
        {"topics": ["0x" + "01" * 32] * 5},
        {"topics": ["0x" + "01" * 31]},
        {"topics": "0x"},
        {"data": "0x123"},
        {"data": "0x0g"},
        {"data": "00"},
        {"data": None},
        {"address": "0x" + "a1" * 32},
        {"blockNumber": "0x" + "f" * 16},
        {"blockNumber": "0x"},
        {"blockNumber": 16},
        {"blockHash": None},
        {"logIndex": None},
        {"transactionIndex": "0x\n"},
        {"more": {"nested": "0x0"}},
        {"more": ["0x0"]},
        {"topics 0": "0x" + "05" * 32},
        {"more": "text"},
        {"more": 1},
    ],
)
@for_each_case("alone", [True, False])
def test_what_the_scanner_is_not_sure_of_it_leaves_to_the_plain_path(changes: dict[str, Any], *, alone: bool) -> None:
    changed = LOG | changes
    assert scan(body_of([LOG, LOG])) is not None
    assert scan(body_of([changed] if alone else [LOG, changed, LOG])) is None
    assert scan(body_of([changed, changed])) is None


def test_an_answer_of_another_shape_is_left_to_the_plain_path() -> None:
    log = orjson.dumps(LOG)
    twice = b'{"data":"0x",' + log[1:]
    for body in (
        b'{"jsonrpc":"2.0","id":7,"result":[]}',
        b'{"jsonrpc":"2.0","id":7,"result":[' + log,
        b'{"jsonrpc":"2.0","id":7,"result":[' + log + b", " + log + b"]}",
        b'{"jsonrpc":"2.0","id":7,"result":[' + twice + b"]}",
        b'{"others":[' + log + b'],"id":7,"result":[]}',
        b'{"id":"\\u0037","result":[' + log + b"]}",
        b"<html>[{}]</html>",
    ):
        assert scan(body) is None, body
