"""Decodes hexadecimal text to bytes and integers, a column at a time."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class HexError(ValueError):
    """Malformed hexadecimal text."""


def _unhex(digits: bytes) -> Bytes:
    try:
        return np.frombuffer(binascii.unhexlify(digits), np.uint8)
    except binascii.Error:
        wrong = re.search(rb"[^0-9a-fA-F]", digits)
        raise HexError(f"{wrong.group().decode()!r} is not a hexadecimal digit" if wrong else "odd length") from None


def fixed_width(values: Sequence[str], width: int) -> Bytes:
    """Decodes a column such as hashes or addresses.

    Args:
        values: hexadecimal strings ``0x…`` of `width` bytes each.
        width: bytes per value.

    Returns:
        An array of shape (len(values), width).

    Raises:
        HexError: a value has the wrong length, lacks ``0x``, or contains a character that is not a hexadecimal digit.
    """
    joined = "".join(values)
    length = 2 + 2 * width
    if set(map(len, values)) - {length}:
        wrong = next(value for value in values if len(value) != length)
        raise HexError(f"{wrong[:20]!r} has {len(wrong)} characters; expected 0x followed by {2 * width} hex digits")
    try:
        characters = np.frombuffer(joined.encode("ascii"), np.uint8).reshape(-1, length)
    except UnicodeEncodeError as error:
        raise HexError(f"{joined[error.start]!r} is not a hexadecimal digit") from None
    if not ((characters[:, 0] == ord("0")) & (characters[:, 1] == ord("x"))).all():
        wrong = next(value for value in values if not value.startswith("0x"))
        raise HexError(f"{wrong[:20]!r} does not begin with 0x")
    return _unhex(characters[:, 2:].tobytes()).reshape(-1, width)


def variable_width(values: Sequence[str]) -> tuple[Bytes, Integers]:
    """Decodes a column such as logs' data.

    Returns:
        The concatenated bytes of all values, and len(values) + 1 offsets into them.

    Raises:
        HexError: as for `fixed_width`, or a value has an odd number of digits.
    """
    lengths = np.fromiter(map(len, values), np.int64, len(values)) - 2
    if (lengths < 0).any() or (lengths % 2).any():
        wrong = next(value for value in values if len(value) < 2 or len(value) % 2)
        raise HexError(
            f"{wrong[:20]!r} has {len(wrong)} characters; expected 0x followed by an even number of hex digits"
        )
    if {value[:2] for value in values} - {"0x"}:
        wrong = next(value for value in values if not value.startswith("0x"))
        raise HexError(f"{wrong[:20]!r} does not begin with 0x")
    joined = "".join([value[2:] for value in values])
    try:
        digits = joined.encode("ascii")
    except UnicodeEncodeError as error:
        raise HexError(f"{joined[error.start]!r} is not a hexadecimal digit") from None
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths // 2, out=offsets[1:])
    return _unhex(digits), offsets


def quantity(value: object) -> int:
    """Decodes a JSON-RPC quantity, such as ``0x1a``.

    Raises:
        HexError: `value` is not a quantity, or does not fit into 63 bits.
    """
    if not isinstance(value, str) or not value.startswith("0x"):
        raise HexError(f"{value!r} is not a quantity")
    try:
        number = int(value, 16)
    except ValueError:
        raise HexError(f"{value!r} is not a quantity") from None
    if number >= 1 << 63:
        raise HexError(f"{value!r} does not fit into 63 bits")
    return number


def quantities(values: Sequence[str]) -> Integers:
    """Decodes a column of JSON-RPC quantities.

    Raises:
        HexError: a value is not a quantity, or does not fit into 63 bits.
    """
    try:
        if {value[:2] for value in values} <= {"0x"}:
            return np.fromiter(map(int, values, repeat(16)), np.int64, len(values))
    except (OverflowError, TypeError, ValueError):
        pass  # the next line says which value is wrong
    return np.fromiter(map(quantity, values), np.int64, len(values))
