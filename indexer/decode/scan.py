"""The logs of an `eth_getLogs` answer straight from its bytes: columns, and no Python object per value.

Endpoints write every log of an answer in the same way, so that only the hexadecimal in it differs. One log of each layout
is parsed as JSON; that all others are the same text but for digits is checked byte by byte. Whatever is not so, or is
anything else than expected, gives no result, and the answer is parsed as JSON (`indexer.decode.logs`).
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson

from indexer.decode.hexadecimal import Bytes, Integers
from indexer.decode.logs import MAX_TOPICS, RawLogs

_QUOTE: Final = ord('"')
_OPENING: Final = ord("{")
_COMMA: Final = ord(",")
_PREFIX: Final = b'"0x'
_MOST_WIDTHS: Final = 64  # of data in one answer; an event of fixed length has one
_MOST_DIGITS: Final = 15  # of a quantity that fits into 63 bits for certain
_WORDS: Final = ("blockHash", "transactionHash")
_NUMBERS: Final = ("blockNumber", "logIndex", "blockTimestamp")
_NEEDED: Final = frozenset({"address", "data", "blockNumber", "logIndex", *_WORDS})
_DIGITS: Final = b"0123456789abcdefABCDEF"


class _DoubtError(Exception):
    """The answer is not what the scanner understands."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The logs of an answer, and the answer as it would be without them: with an empty list in their place."""

    logs: RawLogs
    rest: bytes


@dataclass(frozen=True, slots=True)
class _Values:
    """Where the values of one field stand in the text, quotes not counted, with their ``0x``."""

    starts: Integers
    ends: Integers

    def lengths(self) -> Integers:
        """Hexadecimal digits of each."""
        return self.ends - self.starts - 2


@dataclass(frozen=True, slots=True)
class _Group:
    """Logs of one layout.

    Attributes:
        rows: which of the answer's logs they are.
        fields: their values, by field; topics by ``topics 0`` and so on.
        topics: how many topics each has.
    """

    rows: Integers
    fields: dict[str, _Values]
    topics: int


def scan(body: bytes) -> Scanned | None:
    """The logs in the body of an answer, or None if it has to be parsed as JSON to tell.

    Args:
        body: of the HTTP response to a single JSON-RPC request.

    Returns:
        The logs. Whether `rest` is the answer to the request is for the caller to see.
    """
    start, end = body.find(b"[{"), body.rfind(b"}]")
    if start < 0 or end < start or b"\\" in body:
        return None
    rest = body[: start + 1] + body[end + 1 :]
    if rest.count(b"[") != 1:
        return None
    try:
        return Scanned(_Text(body[start + 1 : end + 1]).logs(), rest)
    except _DoubtError:
        return None


class _Text:
    """The text of an answer's logs, without the brackets around them."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._characters = np.frombuffer(text, np.uint8)
        self._starts = np.flatnonzero(self._characters == _OPENING)
        self._ends = np.append(self._starts[1:] - 1, len(text))
        _expect(bool((self._characters[self._ends[:-1]] == _COMMA).all()))

    def logs(self) -> RawLogs:
        groups = self._groups()
        count = len(self._starts)
        topics = np.zeros((count, MAX_TOPICS, 32), np.uint8)
        topic_count = np.zeros(count, np.int64)
        for group in groups:
            topic_count[group.rows] = group.topics
            for position in range(group.topics):
                topics[group.rows, position] = self._fixed(group.fields[f"topics {position}"], 32)
        words = {name: self._gathered(groups, name, np.empty((count, 32), np.uint8)) for name in _WORDS}
        address = self._gathered(groups, "address", np.empty((count, 20), np.uint8))
        numbers = {name: self._numbers(groups, name) for name in _NUMBERS}
        data, offsets = self._data(groups)
        return RawLogs(
            block_number=numbers["blockNumber"],
            block_hash=words["blockHash"],
            block_time=numbers["blockTimestamp"],
            transaction_hash=words["transactionHash"],
            log_index=numbers["logIndex"],
            address=address,
            topics=topics,
            topic_count=topic_count,
            data=data,
            data_offsets=offsets,
        )

    def _groups(self) -> list[_Group]:
        """Logs with the same number of quotes must be of the same layout."""
        quotes = np.flatnonzero(self._characters == _QUOTE)
        firsts = np.searchsorted(quotes, self._starts)
        counts = np.diff(np.append(firsts, len(quotes)))
        groups = []
        for count in np.unique(counts).tolist():
            _expect(count % 2 == 0)
            rows = np.flatnonzero(counts == count)
            groups.append(self._group(rows, quotes[firsts[rows][:, None] + np.arange(count)]))
        return groups

    def _group(self, rows: Integers, quotes: Integers) -> _Group:
        """Checks that the logs are the same text but for digits; `quotes` has shape (rows, quotes in a log)."""
        first = self._text[self._starts[rows[0]] : self._ends[rows[0]]]
        strings = [self._text[begin + 1 : end] for begin, end in quotes[0].reshape(-1, 2).tolist()]
        places, topics = _layout(first, strings)
        constant_from = self._starts[rows]
        fields = {}
        for name, place in places.items():
            begin, end = quotes[:, 2 * place], quotes[:, 2 * place + 1]
            self._expect_constant(constant_from, begin + len(_PREFIX))
            fields[name] = _Values(begin + 1, end)
            constant_from = end
        self._expect_constant(constant_from, self._ends[rows])
        for name in fields.keys() - _NEEDED - {"blockTimestamp", *(f"topics {one}" for one in range(topics))}:
            _expect(not b"".join(self._texts(fields[name])).translate(None, _DIGITS))
        return _Group(rows, fields, topics)

    def _expect_constant(self, begins: Integers, ends: Integers) -> None:
        """Checks that the text between two places is the same in all logs."""
        width = int(ends[0] - begins[0])
        _expect(width > 0 and bool((ends - begins == width).all()))
        there = self._slices(begins, width)
        _expect(there == self._text[begins[0] : ends[0]] * len(begins))

    def _slices(self, begins: Integers, width: int) -> bytes:
        """Slices of one width, one after the other."""
        # As one value of `width` bytes each, numpy copies them whole; as rows of bytes, byte by byte.
        windows = np.ndarray((len(self._text) - width + 1,), f"V{width}", self._text, strides=(1,))
        return windows[begins].tobytes()

    def _texts(self, values: _Values) -> list[bytes]:
        """Values of any width, without their 0x."""
        text = self._text
        return [text[begin + 2 : end] for begin, end in zip(values.starts.tolist(), values.ends.tolist(), strict=True)]

    def _fixed(self, values: _Values, width: int) -> Bytes:
        """Values of `width` bytes each, shape (values, width)."""
        _expect(bool((values.lengths() == 2 * width).all()))
        return _unhex(self._slices(values.starts + 2, 2 * width)).reshape(-1, width)

    def _gathered(self, groups: list[_Group], name: str, into: Bytes) -> Bytes:
        for group in groups:
            into[group.rows] = self._fixed(group.fields[name], into.shape[1])
        return into

    def _numbers(self, groups: list[_Group], name: str) -> Integers:
        """Quantities; -1 where there are none."""
        numbers = np.full(len(self._starts), -1, np.int64)
        for group in groups:
            values = group.fields.get(name)
            if values is None:
                continue
            lengths = values.lengths()
            _expect(bool(((lengths > 0) & (lengths <= _MOST_DIGITS)).all()))
            # The 16 characters that end with the quantity, of which those before it become zeros.
            last = np.frombuffer(self._slices(values.ends - 16, 16), np.uint8).reshape(-1, 16)
            digits = np.where(np.arange(16) >= 16 - lengths[:, None], last, ord("0")).astype(np.uint8)
            numbers[group.rows] = _unhex(digits.tobytes()).view(">u8").astype(np.int64)
        return numbers

    def _data(self, groups: list[_Group]) -> tuple[Bytes, Integers]:
        count = len(self._starts)
        begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        for group in groups:
            begins[group.rows], ends[group.rows] = group.fields["data"].starts, group.fields["data"].ends
        values = _Values(begins, ends)
        _expect(not (values.lengths() % 2).any())
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(values.lengths() // 2, out=offsets[1:])
        return self._unhexed_in_place(values, offsets), offsets

    def _unhexed_in_place(self, values: _Values, offsets: Integers) -> Bytes:
        """Values of all widths as bytes, one after the other; those of one width are copied side by side."""
        widths = np.diff(offsets)
        different = np.unique(widths[widths > 0]).tolist()
        if len(different) > _MOST_WIDTHS:
            return _unhex(b"".join(self._texts(values)))
        found = np.empty(int(offsets[-1]), np.uint8)
        for width in different:
            rows = np.flatnonzero(widths == width)
            bytes_ = _unhex(self._slices(values.starts[rows] + 2, 2 * width))
            windows = np.ndarray((len(found) - width + 1,), f"V{width}", found, strides=(1,))
            windows[offsets[rows]] = bytes_.view(f"V{width}")
        return found


def _layout(first: bytes, strings: list[bytes]) -> tuple[dict[str, int], int]:
    """Which of a log's strings is the value of which field, and how many topics it has.

    Args:
        first: the log.
        strings: all strings in it, names included, in order.
    """
    try:
        log = orjson.loads(first)
    except orjson.JSONDecodeError:
        raise _DoubtError from None
    _expect(not log.get("removed") and isinstance(log.get("topics"), list))
    places: dict[str, int] = {}
    expected: list[bytes] = []
    for name, value in log.items():
        expected.append(name.encode())
        for position, one in enumerate(_strings_in(name, value)):
            places[f"{name} {position}" if isinstance(value, list) else name] = len(expected)
            expected.append(one.encode())
    _expect(strings == expected and places.keys() >= _NEEDED and len(log["topics"]) <= MAX_TOPICS)
    return places, len(log["topics"])


def _strings_in(name: str, value: Any) -> list[str]:
    """The strings that a field's value is, each with 0x before it; any other value is a part of the layout."""
    if value is None or isinstance(value, bool):
        return []
    values = value if isinstance(value, list) and name == "topics" else [value]
    _expect(all(isinstance(one, str) and one.startswith("0x") for one in values))
    return values


def _unhex(digits: bytes) -> Bytes:
    try:
        return np.frombuffer(binascii.unhexlify(digits), np.uint8)
    except binascii.Error:
        raise _DoubtError from None


def _expect(true: bool) -> None:  # noqa: FBT001  the one thing it is about
    if not true:
        raise _DoubtError
