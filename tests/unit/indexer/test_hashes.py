"""Hashes of many slices at once: those of the library, whichever way they are made."""

from __future__ import annotations

import numpy as np
from eth_utils import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.decode.hashes import RATE, keccak256


def hashed(contents: list[bytes]) -> list[bytes]:
    """Hashes of contents that stand one after another."""
    lengths = np.array([len(content) for content in contents], np.int64)
    data = np.frombuffer(b"".join(contents), np.uint8)
    return [row.tobytes() for row in keccak256(data, np.cumsum(lengths) - lengths, lengths)]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 2 * RATE), st.sampled_from((0, 1, 7, 149, 150, 400, 2_100)))
def test_hashes_are_those_of_the_library_however_many_and_however_long(seed: int, longest: int, count: int) -> None:
    random = np.random.default_rng(seed)
    contents = [random.bytes(length) for length in random.integers(0, longest, count)]
    assert hashed(contents) == [keccak(content) for content in contents]


def test_every_length_around_what_one_permutation_takes_is_padded_as_it_must_be() -> None:
    contents = [bytes([255]) * length for length in range(2 * RATE + 2)]
    assert hashed(contents) == [keccak(content) for content in contents]
