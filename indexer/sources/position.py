"""The position of a chain: the last block read, with enough recent block hashes to detect a reorg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

HASH_PREFIX: Final = 16
"""Bytes kept of each block's hash: 128 bits are out of reach for an attacker who wants two blocks to look alike."""


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of a block's header that the index uses."""

    number: int
    hash: bytes
    parent_hash: bytes
    time: int  # Unix seconds
    bloom: bytes = b""  # of its logs' addresses and topics, 256 bytes; empty if the endpoint gave none


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """The position of one chain. It is the chain's part of Spark's offset.

    Attributes:
        block: the last block read.
        hashes: hash prefixes of the last blocks, up to and including `block`; empty before the first block.
        final_block: the last final block read.
        final_hash: full hash of `final_block`; empty if no block that was read is final.
        halted: reason why reading has stopped, or None.
    """

    block: int
    hashes: bytes = b""
    final_block: int
    final_hash: bytes = b""
    halted: str | None = None

    @classmethod
    def before(cls, start_block: int) -> ChainPosition:
        """Returns the position before the first block."""
        return cls(block=start_block - 1, final_block=start_block - 1)

    @property
    def first_remembered(self) -> int:
        """Returns the lowest block whose hash is known, or `block` + 1 if none is."""
        return self.block + 1 - len(self.hashes) // HASH_PREFIX

    def hash_at(self, number: int) -> bytes | None:
        """Returns the prefix of a block's hash, or None if it is not known."""
        if not self.first_remembered <= number <= self.block:
            return None
        start = (number - self.first_remembered) * HASH_PREFIX
        return self.hashes[start : start + HASH_PREFIX]

    def known_hash(self, number: int) -> bytes | None:
        """Returns the prefix of a block's hash, including that of the last final block, or None if it is not known."""
        if self.final_hash and number == self.final_block:
            return self.final_hash[:HASH_PREFIX]
        return self.hash_at(number)

    def has(self, header: Header) -> bool:
        """Returns whether the header's block was read."""
        return self.hash_at(header.number) == header.hash[:HASH_PREFIX]

    def back_to(self, fork: int) -> ChainPosition:
        """Returns the position rolled back to an earlier block."""
        kept = max(0, fork + 1 - self.first_remembered) * HASH_PREFIX
        return replace(self, block=fork, hashes=self.hashes[:kept])

    def extended(self, headers: Sequence[Header], window: int) -> ChainPosition:
        """Returns the position after reading consecutive `headers`."""
        last = headers[-1].number
        follows = headers[0].number == self.block + 1
        hashes = (self.hashes if follows else b"") + b"".join(header.hash[:HASH_PREFIX] for header in headers)
        return replace(self, block=last, hashes=hashes[-window * HASH_PREFIX :])

    def to_json(self) -> dict[str, Any]:
        """Converts the position to JSON for Spark's checkpoint."""
        return {
            "block": self.block,
            "hashes": self.hashes.hex(),
            "finalBlock": self.final_block,
            "finalHash": self.final_hash.hex(),
            "halted": self.halted,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ChainPosition:
        """Parses the output of `to_json`."""
        return cls(
            block=document["block"],
            hashes=bytes.fromhex(document["hashes"]),
            final_block=document["finalBlock"],
            final_hash=bytes.fromhex(document["finalHash"]),
            halted=document["halted"],
        )
