"""Up to where a chain is final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bridge.records.observations import BlockRef, Observations


class Finality(Protocol):
    """What counts as final on one chain.

    Whoever calls something final because of a block that it saw takes the final block before it asks the chain, and calls final
    what is at most as high, and only if that block `holds` when it writes: else a reorg that somebody has dealt with meanwhile would be
    noticed by nobody again.
    """

    def height(self) -> int:
        """The highest final block; −1 without one."""

    def block(self) -> BlockRef | None:
        """That block."""

    def holds(self, block: BlockRef) -> bool:
        """Whether a block that was the highest final one still is final: nothing was taken back since."""


@dataclass(frozen=True, slots=True)
class ObservedFinality:
    """The cursor of a chain's observation, which keeps its distance to the head, is at the highest final block."""

    observations: Observations
    chain_id: int

    def height(self) -> int:
        """See `Finality.height`."""
        return self.observations.final_height(self.chain_id)

    def block(self) -> BlockRef | None:
        """See `Finality.block`."""
        return self.observations.final_block(self.chain_id)

    def holds(self, block: BlockRef) -> bool:
        """See `Finality.holds`."""
        return self.observations.has_passed(self.chain_id, block)
