"""The logs of one `eth_getLogs` answer as columns: scanned from its bytes if they are regular, else parsed as JSON.

Endpoints write every log of an answer in the same way, so that only the hexadecimal in it differs. The scanner parses one log
of each layout as JSON to learn where values stand. Then it checks byte by byte that the others are the same text but for
digits. If anything is unexpected, it gives no result, and the answer is parsed as JSON.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from indexer.decode.hexadecimal import (
    Bytes,
    Flags,
    HexError,
    Integers,
    fixed_width,
    quantities,
    quantity,
    variable_width,
)

MAX_TOPICS: Final = 4
_NO_TOPIC: Final = "0x" + "00" * 32

Slices = NDArray[np.void]
"""Slices of a text, all of one width."""

_OPENING: Final = ord("{")
_COMMA: Final = ord(",")
_QUOTE: Final = ord('"')
_X: Final = ord("x")
_PREFIX: Final = b"0x"
_MOST_LAYOUTS: Final = 16  # in one answer; logs differ in how many topics they have, and little else
_MOST_WIDTHS: Final = 64  # of data in one answer; an event of fixed length has one
_WINDOW: Final = (
    16  # characters in which a quantity and what bounds it are looked for: 15 digits fit into 63 bits for certain
)
_WORDS: Final = ("blockHash", "transactionHash")
_NUMBERS: Final = ("blockNumber", "logIndex", "blockTimestamp")
_NEEDED: Final = frozenset({"address", "data", "blockNumber", "logIndex", *_WORDS})
_READ: Final = frozenset({*_NEEDED, *_NUMBERS})
_WIDTHS: Final = {"address": 40, "topics": 64, **dict.fromkeys(_WORDS, 64)}  # digits
_MISSING: Final = ord("-")
_ZERO: Final = np.uint8(ord("0"))
_LAST: Final = (
    np.arange(_WINDOW) >= _WINDOW - np.arange(_WINDOW)[:, None]
)  # which of a window's characters are the n last
_DIGITS: Final = b"0123456789abcdefABCDEF"


class MalformedLogsError(ValueError):
    """An endpoint's answer that holds something that is no log. It says nothing about the chain: ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLogs:
    """Logs as columns; every array has one row per log, except `data`."""

    block_number: Integers
    block_hash: Bytes  # (logs, 32)
    block_time: Integers  # Unix seconds; -1 where the endpoint does not say
    transaction_hash: Bytes  # (logs, 32)
    log_index: Integers
    address: Bytes  # (logs, 20)
    topics: Bytes  # (logs, 4, 32); zeros beyond `topic_count`
    topic_count: Integers
    data: Bytes  # of all logs, one after another
    data_offsets: Integers  # (logs + 1)

    def __len__(self) -> int:
        return len(self.block_number)

    def emitted_by(self, address: bytes) -> Flags:
        """Which logs a contract, 20 bytes, has emitted."""
        return np.asarray(np.ascontiguousarray(self.address).view("V20").ravel() == np.frombuffer(address, "V20")[0])

    def only(self, chosen: Flags) -> RawLogs:
        """Some of the logs."""
        lengths = np.diff(self.data_offsets)
        arrays = {name: getattr(self, name)[chosen] for name in _PER_LOG}
        offsets = np.zeros(int(chosen.sum()) + 1, np.int64)
        np.cumsum(lengths[chosen], out=offsets[1:])
        return RawLogs(**arrays, data=self.data[np.repeat(chosen, lengths)], data_offsets=offsets)


_PER_LOG: Final = tuple(field.name for field in fields(RawLogs) if not field.name.startswith("data"))


def logs_of_rows(rows: pa.Table) -> RawLogs:
    """Raw logs from the lake's rows.

    Args:
        rows: `schemas.LOGS`, of one chain.
    """
    topics, topic_offsets = _flat(rows["topics"])
    data, data_offsets = _flat(rows["data"])
    lengths = np.diff(topic_offsets)
    padded = np.zeros((len(rows), MAX_TOPICS * 32), np.uint8)
    padded[np.arange(MAX_TOPICS * 32) < lengths[:, None]] = topics
    return RawLogs(
        block_number=rows["block_number"].to_numpy(),
        block_hash=_flat(rows["block_hash"])[0].reshape(-1, 32),
        block_time=rows["block_time"].to_numpy(),
        transaction_hash=_flat(rows["transaction_hash"])[0].reshape(-1, 32),
        log_index=rows["log_index"].to_numpy(),
        address=_flat(rows["address"])[0].reshape(-1, 20),
        topics=padded.reshape(-1, MAX_TOPICS, 32),
        topic_count=lengths // 32,
        data=data,
        data_offsets=data_offsets,
    )


def _flat(column: pa.ChunkedArray) -> tuple[Bytes, Integers]:
    """The bytes of all values of a binary column, one after another, and where each begins."""
    whole = pa.concat_arrays(
        [chunk.cast(pa.large_binary()) for chunk in column.chunks] or [pa.array([], pa.large_binary())]
    )
    _, offsets_buffer, data_buffer = whole.buffers()
    offsets = np.frombuffer(offsets_buffer or bytes(8), np.int64)[whole.offset : whole.offset + len(whole) + 1]
    flat = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    return flat, offsets - offsets[0]


def raw_logs(logs: Sequence[Mapping[str, Any]]) -> RawLogs:
    """The logs of an answer's `result`.

    Raises:
        MalformedLogsError: one of them lacks a field, or has a wrong one.
    """
    try:
        topics = [log["topics"] for log in logs]
        if any(len(row) > MAX_TOPICS for row in topics):
            raise MalformedLogsError(f"a log has more than {MAX_TOPICS} topics")
        padded = [topic for row in topics for topic in (*row, *[_NO_TOPIC] * (MAX_TOPICS - len(row)))]
        data, data_offsets = variable_width([log["data"] for log in logs])
        return RawLogs(
            block_number=quantities([log["blockNumber"] for log in logs]),
            block_hash=fixed_width([log["blockHash"] for log in logs], 32),
            block_time=quantities_or(-1, [log.get("blockTimestamp") for log in logs]),
            transaction_hash=fixed_width([log["transactionHash"] for log in logs], 32),
            log_index=quantities([log["logIndex"] for log in logs]),
            address=fixed_width([log["address"] for log in logs], 20),
            topics=fixed_width(padded, 32).reshape(len(logs), MAX_TOPICS, 32),
            topic_count=np.fromiter((len(row) for row in topics), np.int64, len(logs)),
            data=data,
            data_offsets=data_offsets,
        )
    except (HexError, KeyError, TypeError, AttributeError) as error:
        raise MalformedLogsError(f"a log has a missing or wrong field: {error}") from error


def quantities_or(default: int, values: Sequence[str | None]) -> Integers:
    """Quantities of which some may be missing."""
    return np.fromiter((default if value is None else quantity(value) for value in values), np.int64, len(values))


class _DoubtError(Exception):
    """The answer is not what the scanner understands."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The logs of an answer, and the answer as it would be without them: with an empty list in their place."""

    logs: RawLogs
    rest: bytes


@dataclass(frozen=True, slots=True)
class _Run:
    """A piece of a log that is equally long in all logs of a layout, and the same but for the digits of its values.

    Attributes:
        constants: texts, and how far from the beginning each stands.
        values: by field, how far from the beginning its digits stand, and how many they are.
        length: characters.
    """

    constants: list[tuple[int, bytes]]
    values: dict[str, tuple[int, int]]
    length: int

    def stands_in(self, slices: Slices) -> Flags:
        """Which slices of its length have its texts."""
        there = np.ones(len(slices), bool)
        for offset, text in self.constants:
            there &= _part(slices, offset, len(text)) == np.frombuffer(text, f"V{len(text)}")[0]
        return there


@dataclass(frozen=True, slots=True)
class _Layout:
    """How an endpoint writes a log: runs, and between each two a value whose digits may be more or fewer.

    Attributes:
        runs: in their order; one more than `between`.
        between: fields, ``data`` among them.
        topics: how many topics there are; they are called ``topics 0`` and so on.
    """

    runs: list[_Run]
    between: list[str]
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
        return Scanned(_Text(body, start + 1, end + 1).logs(), rest)
    except _DoubtError:
        return None


class _Text:
    """The logs in the body of an answer, which stand between two places of it."""

    def __init__(self, body: bytes, start: int, end: int) -> None:
        self._body = body
        characters = np.frombuffer(body, np.uint8)
        self._starts = np.flatnonzero(characters[start:end] == _OPENING) + start
        self._ends = np.append(self._starts[1:] - 1, end)
        _expect(bool((characters[self._ends[:-1]] == _COMMA).all()))
        self._count = len(self._starts)
        self._topic_count = np.zeros(self._count, np.int64)
        self._digits: dict[str, Slices] = {}  # by field
        self._data = np.zeros((2, self._count), np.int64)  # where it begins and ends

    def logs(self) -> RawLogs:
        self._find_values()
        topics = np.zeros((self._count, MAX_TOPICS, 32), np.uint8)
        for position in range(int(self._topic_count.max())):
            rows = self._topic_count > position
            topics[rows, position] = _unhex(self._digits[f"topics {position}"][rows]).reshape(-1, 32)
        words = {name: _unhex(self._digits[name]).reshape(-1, 32) for name in _WORDS}
        numbers = {name: self._numbers(name) for name in _NUMBERS}
        data, offsets = self._contents()
        return RawLogs(
            block_number=numbers["blockNumber"],
            block_hash=words["blockHash"],
            block_time=numbers["blockTimestamp"],
            transaction_hash=words["transactionHash"],
            log_index=numbers["logIndex"],
            address=_unhex(self._digits["address"]).reshape(-1, 20),
            topics=topics,
            topic_count=self._topic_count,
            data=data,
            data_offsets=offsets,
        )

    def _find_values(self) -> None:
        """Takes the first log that is left for the layout of all that are left, until each has one."""
        rows = np.arange(self._count)
        for _ in range(_MOST_LAYOUTS):
            layout = _layout_of(self._body[self._starts[rows[0]] : self._ends[rows[0]]])
            found = self._laid_out(layout, rows)
            _expect(bool(found.alike.any()))
            alike = found.rows[found.alike]
            self._topic_count[alike] = layout.topics
            self._data[:, alike] = found.data[:, found.alike]
            for name, digits in found.digits.items():
                self._keep(name, alike, digits if len(alike) == len(digits) else digits[found.alike])
            rows = np.setdiff1d(rows, alike, assume_unique=True)
            if not len(rows):
                return
        raise _DoubtError

    def _keep(self, name: str, rows: Integers, digits: Slices) -> None:
        """Keeps a field's values; of those that nobody reads, looks whether they are hexadecimal."""
        if name in _READ or name.startswith("topics "):
            if name not in self._digits:
                missing = np.frombuffer(bytes([_MISSING]) * digits.itemsize, digits.dtype)[0]
                self._digits[name] = np.full(self._count, missing)
            self._digits[name][rows] = digits
        else:
            _expect(not _characters(digits).tobytes().translate(None, _DIGITS))

    def _laid_out(self, layout: _Layout, rows: Integers) -> _Found:
        """Looks for a layout in logs, from the beginning of each to its data, and back from its end to there.

        The data has all that is between. A log of another layout has other text where a run must stand, mostly the first.
        """
        first = self._slices(self._starts[rows], layout.runs[0].length)
        begun = layout.runs[0].stands_in(first)
        found = _Found(rows[begun])
        found.take(layout.runs[0], first[begun])
        middle = layout.between.index("data")
        place = self._starts[found.rows] + layout.runs[0].length
        for name, run in zip(layout.between[:middle], layout.runs[1 : middle + 1], strict=True):
            lengths = (_characters(self._slices(place, _WINDOW)) == _QUOTE).argmax(axis=1)
            place = place + lengths
            found.take_quantity(name, self._slices(place - _WINDOW, _WINDOW), lengths)
            found.take(run, self._slices(place, run.length))
            place = place + run.length
        end = self._ends[found.rows]
        for name, run in zip(reversed(layout.between), reversed(layout.runs), strict=False):
            end = end - run.length
            found.take(run, self._slices(end, run.length))
            if name == "data":
                break
            window = self._slices(end - _WINDOW, _WINDOW)
            lengths = (_characters(window)[:, ::-1] == _X).argmax(axis=1)
            found.take_quantity(name, window, lengths)
            end = end - lengths
        found.alike &= place <= end
        found.data[:] = place, end
        return found

    def _slices(self, begins: Integers, width: int) -> Slices:
        """Slices of one width; places beyond the text are moved into it."""
        # As one value of `width` bytes each, numpy copies and compares them whole; as rows of bytes, byte by byte.
        count = len(self._body) - width + 1
        windows = np.ndarray((count,), f"V{width}", self._body, strides=(1,))
        return windows[np.clip(begins, 0, count - 1)]

    def _numbers(self, name: str) -> Integers:
        """Quantities; -1 where there are none."""
        numbers = np.full(self._count, -1, np.int64)
        if name in self._digits:
            there = _characters(self._digits[name])[:, 0] != _MISSING
            numbers[there] = _unhex(self._digits[name][there]).view(">u8").astype(np.int64)
        return numbers

    def _contents(self) -> tuple[Bytes, Integers]:
        """The data of all logs as bytes, and where that of each begins; data of one width is copied side by side."""
        begins, ends = self._data
        lengths = ends - begins
        _expect(not (lengths % 2).any())
        offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(lengths // 2, out=offsets[1:])
        different = np.unique(lengths[lengths > 0]).tolist()
        if len(different) > _MOST_WIDTHS:
            texts = [self._body[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
            return _unhex(b"".join(texts)), offsets
        found = np.empty(int(offsets[-1]), np.uint8)
        for length in different:
            rows = np.flatnonzero(lengths == length)
            width = length // 2
            windows = np.ndarray((len(found) - width + 1,), f"V{width}", found, strides=(1,))
            windows[offsets[rows]] = _unhex(self._slices(begins[rows], length)).view(f"V{width}")
        return found, offsets


class _Found:
    """What looking for a layout finds in some logs.

    Attributes:
        rows: which logs they are.
        alike: which of them have the layout.
        digits: by field, the digits of its values; of quantities 16, zeros first.
        data: where the data of each begins and ends.
    """

    def __init__(self, rows: Integers) -> None:
        self.rows = rows
        self.alike = np.ones(len(rows), bool)
        self.digits: dict[str, Slices] = {}
        self.data = np.zeros((2, len(rows)), np.int64)

    def take(self, run: _Run, slices: Slices) -> None:
        """Takes what stands where a run must stand."""
        self.alike &= run.stands_in(slices)
        for name, (offset, width) in run.values.items():
            self.digits[name] = _part(slices, offset, width)

    def take_quantity(self, name: str, windows: Slices, lengths: Integers) -> None:
        """Takes the so many last characters of each window."""
        if name in _NUMBERS:
            self.alike &= lengths > 0
        digits = np.where(_LAST[lengths], _characters(windows), _ZERO)
        self.digits[name] = digits.view(f"V{_WINDOW}").ravel()


def _characters(slices: Slices) -> Bytes:
    return slices.view(np.uint8).reshape(len(slices), -1)


def _part(slices: Slices, offset: int, width: int) -> Slices:
    return np.ndarray((len(slices),), f"V{width}", slices, offset, slices.strides)


def _layout_of(text: bytes) -> _Layout:
    """How a log is written."""
    try:
        log = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise _DoubtError from None
    _expect(not log.get("removed") and isinstance(log.get("topics"), list) and len(log["topics"]) <= MAX_TOPICS)
    quotes = [match.start() for match in re.finditer(b'"', text)]
    spans = list(zip(quotes[::2], quotes[1::2], strict=True))  # of all strings, names included
    places: dict[str, int] = {}
    expected: list[bytes] = []
    for name, value in log.items():
        _expect(" " not in name)  # or it could be called as a topic is
        expected.append(name.encode())
        for position, one in enumerate(_strings_in(name, value)):
            places[f"{name} {position}" if isinstance(value, list) else name] = len(expected)
            expected.append(one.encode())
    _expect([text[begin + 1 : end] for begin, end in spans] == expected and places.keys() >= _NEEDED)
    digits = {name: (spans[place][0] + 1 + len(_PREFIX), spans[place][1]) for name, place in places.items()}
    return _runs(text, digits, len(log["topics"]))


def _runs(text: bytes, digits: dict[str, tuple[int, int]], topics: int) -> _Layout:
    """The layout of a log, given where the digits of its values begin and end."""
    runs, between = [], []
    constants, values, start, behind = list[tuple[int, bytes]](), dict[str, tuple[int, int]](), 0, 0
    for name, (begin, end) in [*digits.items(), ("", (len(text), len(text)))]:
        constants.append((behind - start, text[behind:begin]))
        width = _WIDTHS.get(name.partition(" ")[0])
        _expect(width is None or end - begin == width)
        _expect(name not in _NUMBERS or end - begin < _WINDOW)
        if name == "data" or end - begin < _WINDOW:
            runs.append(_Run(constants, values, begin - start))
            between.append(name)
            constants, values, start = [], {}, end
        else:
            values[name] = begin - start, end - begin
        behind = end
    return _Layout(runs, between[:-1], topics)


def _strings_in(name: str, value: Any) -> list[str]:
    """The strings that a field's value is, each with 0x before it; any other value is a part of the layout."""
    if value is None or isinstance(value, bool):
        return []
    values = value if isinstance(value, list) and name == "topics" else [value]
    _expect(all(isinstance(one, str) and one.startswith("0x") for one in values))
    return values


def _unhex(digits: bytes | Slices) -> Bytes:
    try:
        return np.frombuffer(binascii.unhexlify(digits if isinstance(digits, bytes) else digits.data), np.uint8)
    except binascii.Error:
        raise _DoubtError from None


def _expect(true: bool) -> None:  # noqa: FBT001  the one thing it is about
    if not true:
        raise _DoubtError
