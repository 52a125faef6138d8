"""How far a chain has been read, with enough recent block hashes to notice when it changes its mind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

HASH_PREFIX: Final = 16
"""Bytes kept of each block's hash: 128 bits are out of reach for an attacker who wants two blocks to look alike."""


@dataclass(frozen=True, slots=True)
class Header:
    """A block's header, as far as the index needs it."""

    number: int
    hash: bytes
    parent_hash: bytes
    time: int  # Unix seconds
    bloom: bytes = b""  # of its logs' addresses and topics, 256 bytes; empty if the endpoint gave none


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """Everything up to `block` has been read; it is what Spark calls an offset.

    Attributes:
        block: the last block read.
        hashes: prefixes of the hashes of the last blocks, the last of them that of `block`; empty before the first block.
        final_block: the last block read that the chain calls final.
        final_hash: its whole hash; empty if none of the blocks read is final.
        halted: why the chain is read no further, or None.
    """

    block: int
    hashes: bytes = b""
    final_block: int
    final_hash: bytes = b""
    halted: str | None = None

    @classmethod
    def before(cls, start_block: int) -> ChainPosition:
        """Where reading begins if the first block to read is `start_block`."""
        return cls(block=start_block - 1, final_block=start_block - 1)

    @property
    def first_remembered(self) -> int:
        """The lowest block whose hash is remembered; `block` + 1 if none is."""
        return self.block + 1 - len(self.hashes) // HASH_PREFIX

    def hash_at(self, number: int) -> bytes | None:
        """The prefix of that block's hash, or None if it is not remembered."""
        if not self.first_remembered <= number <= self.block:
            return None
        start = (number - self.first_remembered) * HASH_PREFIX
        return self.hashes[start : start + HASH_PREFIX]

    def known_hash(self, number: int) -> bytes | None:
        """The prefix of that block's hash if it is remembered, or if it is the last final block; else None."""
        if self.final_hash and number == self.final_block:
            return self.final_hash[:HASH_PREFIX]
        return self.hash_at(number)

    def has(self, header: Header) -> bool:
        """Whether that block was read."""
        return self.hash_at(header.number) == header.hash[:HASH_PREFIX]

    def back_to(self, fork: int) -> ChainPosition:
        """The position as it was at an earlier block."""
        kept = max(0, fork + 1 - self.first_remembered) * HASH_PREFIX
        return replace(self, block=fork, hashes=self.hashes[:kept])

    def extended(self, headers: Sequence[Header], window: int) -> ChainPosition:
        """The position after reading up to the last of `headers`, which follow one another."""
        last = headers[-1].number
        follows = headers[0].number == self.block + 1
        hashes = (self.hashes if follows else b"") + b"".join(header.hash[:HASH_PREFIX] for header in headers)
        return replace(self, block=last, hashes=hashes[-window * HASH_PREFIX :])

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it in its checkpoint."""
        return {
            "block": self.block,
            "hashes": self.hashes.hex(),
            "finalBlock": self.final_block,
            "finalHash": self.final_hash.hex(),
            "halted": self.halted,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ChainPosition:
        """What `to_json` wrote."""
        return cls(
            block=document["block"],
            hashes=bytes.fromhex(document["hashes"]),
            final_block=document["finalBlock"],
            final_hash=bytes.fromhex(document["finalHash"]),
            halted=document["halted"],
        )
