"""What a block's header says of its logs, so that blocks without any of ours cost no request for logs.

Bloom filters of logs: Ethereum yellow paper, section 4.4.1. Some chains leave them empty, so a chain's filters count only
once one of them has named logs that were read, and never again after one that left such logs out.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from eth_utils.crypto import keccak

from indexer.sources.position import Header

_BITS: Final = 2048


class Blooms:
    """The filters of one chain, and whether they can be relied on."""

    def __init__(self) -> None:
        """Relies on none yet."""
        self._hold: bool | None = None

    def rule_out(self, header: Header, addresses: Iterable[bytes]) -> bool:
        """Whether a block has no log of any of these contracts, 20 bytes each."""
        return bool(self._hold) and bool(header.bloom) and not any(_has(header.bloom, one) for one in addresses)

    def compare(self, header: Header, emitted: Iterable[bytes]) -> None:
        """Take note of a block whose logs were read: `emitted` are the addresses that they are of."""
        found = [bool(header.bloom) and _has(header.bloom, address) for address in emitted]
        if found:
            self._hold = all(found) and self._hold is not False


def _has(bloom: bytes, address: bytes) -> bool:
    return all(bloom[place] & bit for place, bit in _bits(address))


@functools.lru_cache(maxsize=1024)
def _bits(address: bytes) -> tuple[tuple[int, int], ...]:
    """The three bits that stand for an address: where in the filter, and which of that byte's."""
    digest = keccak(address)
    numbers = [int.from_bytes(digest[start : start + 2]) % _BITS for start in (0, 2, 4)]
    return tuple(((_BITS - 1 - number) // 8, 1 << number % 8) for number in numbers)
