"""Keccak-256 of many slices at once: short ones side by side in numpy, since a call for each costs more than its hash."""

from __future__ import annotations

from typing import Final

import numpy as np
from eth_utils import keccak
from numpy.typing import NDArray

from indexer.decode.abi import slices
from indexer.decode.hexadecimal import Bytes, Integers

RATE: Final = 136  # bytes that one permutation takes in
_LANES: Final = RATE // 8
_FEWEST: Final = 150  # slices from which on they are faster side by side
_AT_ONCE: Final = 2_000  # whose states fit into a core's cache

_States = NDArray[np.uint64]  # (5 columns, 5 rows, slices)


def keccak256(data: Bytes, starts: Integers, lengths: Integers) -> Bytes:
    """The hashes of slices.

    Args:
        data: flat.
        starts: where each slice begins in it.
        lengths: bytes of each.

    Returns:
        Shape (slices, 32).
    """
    hashes = np.empty((len(starts), 32), np.uint8)
    short = np.flatnonzero(lengths < RATE)
    if len(short) < _FEWEST:
        short = short[:0]
    for begin in range(0, len(short), _AT_ONCE):
        rows = short[begin : begin + _AT_ONCE]
        hashes[rows] = _side_by_side(_padded(data, starts[rows], lengths[rows]))
    alone = np.ones(len(starts), bool)
    alone[short] = False
    for row in np.flatnonzero(alone).tolist():
        content = data[starts[row] : starts[row] + lengths[row]].tobytes()
        hashes[row] = np.frombuffer(keccak(content), np.uint8)
    return hashes


def _padded(data: Bytes, starts: Integers, lengths: Integers) -> Bytes:
    """Each slice as the one block that it fits into, shape (slices, RATE)."""
    blocks = np.zeros((len(starts), RATE), np.uint8)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        blocks[rows, :length] = slices(data, starts[rows], length)
    blocks[np.arange(len(starts)), lengths] = 1
    blocks[:, -1] |= 0x80
    return blocks


def _side_by_side(blocks: Bytes) -> Bytes:
    states = np.zeros((5, 5, len(blocks)), np.uint64)
    words = blocks.view("<u8")
    for lane in range(_LANES):
        states[lane % 5, lane // 5] = words[:, lane]
    _permute(states)
    return np.stack([states[lane, 0] for lane in range(4)], axis=1).astype("<u8").view(np.uint8)


def _round_constants() -> list[np.uint64]:
    """FIPS 202, algorithm 5: bits of a shift register, at the places 2^j - 1."""
    constants, register = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            constant |= (register & 1) << ((1 << power) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(np.uint64(constant))
    return constants


def _rotations_and_places() -> tuple[_States, list[int]]:
    """FIPS 202, algorithms 2 and 3: by how much each lane is rotated, and which lane comes to each place."""
    rotations, places = np.zeros((5, 5, 1), np.uint64), [0] * 25
    x, y = 1, 0
    for step in range(24):
        rotations[x, y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    for x in range(5):
        for y in range(5):
            places[5 * y + (2 * x + 3 * y) % 5] = 5 * x + y
    return rotations, places


_CONSTANTS: Final = _round_constants()
_LEFT, _PLACES = _rotations_and_places()
_RIGHT: Final = 64 - _LEFT  # numpy shifts everything out by 64


def _permute(a: _States) -> None:
    """Keccak-f[1600] on every state, in place."""
    columns, turned, parity = (np.empty((5, a.shape[2]), np.uint64) for _ in range(3))
    left, b = np.empty_like(a), np.empty_like(a)
    for constant in _CONSTANTS:
        np.bitwise_xor.reduce(a, axis=1, out=columns)
        np.bitwise_or(columns << np.uint64(1), columns >> np.uint64(63), out=turned)
        for x in range(5):
            np.bitwise_xor(columns[x - 1], turned[(x + 1) % 5], out=parity[x])
        a ^= parity[:, None]
        np.left_shift(a, _LEFT, out=left)
        left |= np.right_shift(a, _RIGHT, out=b)
        np.take(left.reshape(25, -1), _PLACES, axis=0, out=b.reshape(25, -1), mode="clip")
        for x in range(5):
            np.invert(b[(x + 1) % 5], out=turned)
            turned &= b[(x + 2) % 5]
            np.bitwise_xor(b[x], turned, out=a[x])
        a[0, 0] ^= constant
