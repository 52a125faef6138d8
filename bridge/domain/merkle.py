"""A Merkle tree over records that are archived: one signed root vouches for each of them, for ever. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eth_utils import keccak

_LEAF: Final = b"\x00"  # leaves and nodes are hashed apart, so that no node passes for a leaf
_NODE: Final = b"\x01"


@dataclass(frozen=True, slots=True)
class InclusionProof:
    """The way from a leaf to the root."""

    position: int
    count: int
    path: tuple[bytes, ...]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves in their order; a node without a sibling goes up as it is.

    Raises:
        ValueError: there is no leaf.
    """
    if not leaves:
        raise ValueError("a tree has at least one leaf")
    level = [keccak(_LEAF + leaf) for leaf in leaves]
    while len(level) > 1:
        level = _above(level)
    return level[0]


def prove(leaves: Sequence[bytes], position: int) -> InclusionProof:
    """The proof that the leaf at a position is one of them."""
    level, index, path = [keccak(_LEAF + leaf) for leaf in leaves], position, []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level, index = _above(level), index // 2
    return InclusionProof(position, len(leaves), tuple(path))


def verifies(leaf: bytes, proof: InclusionProof, root: bytes) -> bool:
    """Whether the leaf is in its place below that root."""
    if not 0 <= proof.position < proof.count:
        return False
    node, index, width, rest = keccak(_LEAF + leaf), proof.position, proof.count, list(proof.path)
    while width > 1:
        if index ^ 1 < width:
            if not rest:
                return False
            sibling = rest.pop(0)
            node = keccak(_NODE + (sibling + node if index % 2 else node + sibling))
        index, width = index // 2, (width + 1) // 2
    return node == root and not rest


def _above(level: list[bytes]) -> list[bytes]:
    pairs = [level[start : start + 2] for start in range(0, len(level), 2)]
    return [keccak(_NODE + pair[0] + pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
