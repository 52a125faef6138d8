"""Decodes the ABI-encoded data of many logs at once, as strictly as `eth_abi`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.decode.hexadecimal import Bytes, Flags, Integers


@dataclass(slots=True)
class Rows:
    """Logs of one event that are being decoded.

    Attributes:
        errors: error message of each row that can't be decoded, by row.
    """

    data: Bytes  # flat
    starts: Integers  # (rows)
    lengths: Integers  # (rows)
    errors: NDArray[np.object_] = field(init=False)

    def __post_init__(self) -> None:
        self.errors = np.full(len(self.starts), "", dtype=object)

    def refuse(self, bad: Flags, why: str) -> None:
        """Records an error for those rows that have no error yet."""
        if bad.any():
            self.errors[bad & (self.errors == "")] = why

    def words(self, positions: Integers) -> Bytes:
        """Returns the 32-byte word at each row's byte position; zeros, with an error, if the data is too short."""
        whole = (positions >= 0) & (positions + 32 <= self.lengths)
        self.refuse(~whole, "the data is too short")
        return gather(self.data, np.where(whole, self.starts + positions, 0), 32, whole)


def gather(data: Bytes, starts: Integers, width: int, valid: Flags) -> Bytes:
    """Returns slices of equal width as an array of shape (rows, width), with zeros for rows that are not `valid`."""
    out = np.zeros((len(starts), width), np.uint8)
    if valid.any():
        out[valid] = slices(data, starts[valid], width)
    return out


def slices(data: Bytes, starts: Integers, width: int) -> Bytes:
    """Returns slices of equal width as an array of shape (rows, width). All slices must lie within the data."""
    # As one value of `width` bytes each, numpy copies them whole; as rows of bytes, byte by byte.
    windows = np.ndarray((len(data) - width + 1,), f"V{width}", data, strides=(1,))
    return windows[starts].view(np.uint8).reshape(-1, width)


def to_uint64(words: Bytes) -> NDArray[np.uint64]:
    """Returns the last eight bytes of each row as a big-endian integer."""
    return np.ascontiguousarray(words[:, -8:]).view(">u8").ravel().astype(np.uint64)


def exceeds(words: Bytes, bits: int) -> Flags:
    """Returns which 32-byte words do not fit into an unsigned integer of `bits` bits, a multiple of eight."""
    # Eight bytes at a time, in the machine's own order: whether any is not zero is the same in each.
    eights = np.ascontiguousarray(words).view(np.uint64)
    whole, more = divmod(32 - bits // 8, 8)
    found = np.zeros(len(words), bool)
    for place in range(whole):
        found |= eights[:, place] != 0
    if more:
        found |= eights[:, whole] & np.frombuffer(b"\xff" * more + bytes(8 - more), np.uint64)[0] != 0
    return found


def unsigned(rows: Rows, words: Bytes, bits: int, name: str) -> NDArray[np.uint64]:
    """Decodes a ``uint8`` … ``uint64`` from each word. Larger values are errors."""
    rows.refuse(exceeds(words, bits), f"{name} is not a uint{bits}")
    return to_uint64(words)


def boolean(rows: Rows, words: Bytes, name: str) -> Flags:
    """Decodes a ``bool`` from each word."""
    rows.refuse(exceeds(words, 8) | (words[:, 31] > 1), f"{name} is not a bool")
    return np.asarray(words[:, 31] == 1)


def address(rows: Rows, words: Bytes, name: str) -> Bytes:
    """Decodes an ``address`` from each word. The result is left-padded to 32 bytes, as in messages."""
    rows.refuse(exceeds(words, 160), f"{name} is not an address")
    return words


def dynamic_bytes(rows: Rows, pointers: Bytes, head_length: int, name: str) -> tuple[Integers, Integers]:
    """Locates ``bytes`` parameters.

    Args:
        rows: the logs.
        pointers: the head words of the parameter.
        head_length: length of the head in bytes; the content follows it.
        name: parameter name, for errors.

    Returns:
        Start offset in the flat data and length of each row's value; both are 0 for rows with an error.
    """
    offsets = _size(rows, pointers, f"the offset of {name}")
    rows.refuse(offsets < head_length, f"the offset of {name} points into the head")
    lengths = _size(rows, rows.words(offsets), f"the length of {name}")
    padded = -(-lengths // 32) * 32
    rows.refuse(offsets + 32 + padded > rows.lengths, f"{name} reaches beyond the data")
    good = rows.errors == ""
    starts = np.where(good, rows.starts + offsets + 32, 0)
    lengths = np.where(good, lengths, 0)
    _check_padding(rows, starts, lengths, name)
    return starts, lengths


def _size(rows: Rows, words: Bytes, name: str) -> Integers:
    """Decodes an offset or a length, of at most 32 bits."""
    rows.refuse(exceeds(words, 32), f"{name} is too large")
    return np.where(rows.errors == "", to_uint64(words) & np.uint64(0xFFFFFFFF), 0).astype(np.int64)


def _check_padding(rows: Rows, starts: Integers, lengths: Integers, name: str) -> None:
    tails = -lengths % 32
    for tail in np.unique(tails[tails > 0]):
        chosen = tails == tail
        padding = gather(rows.data, starts + lengths, int(tail), chosen)
        rows.refuse(chosen & padding.any(axis=1), f"{name} has padding that is not zero")


def binary_column(data: Bytes, starts: Integers, lengths: Integers) -> pa.Array:
    """Returns slices of flat data as a binary column."""
    if len(lengths) and lengths[0] and (lengths == lengths[0]).all():
        return fixed_column(slices(data, starts, int(lengths[0])))
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    moves = starts - offsets[:-1]
    if len(starts) and (moves == moves[0]).all():  # the slices follow one another
        found = data[moves[0] : moves[0] + offsets[-1]]
    else:
        found = data[np.repeat(moves, lengths) + np.arange(offsets[-1])]
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(found.tobytes())])


def fixed_column(values: Bytes) -> pa.Array:
    """Returns an array of shape (rows, width) as a binary column."""
    rows, width = values.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values.tobytes())]
    )
