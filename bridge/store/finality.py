"""What counts as final on one chain, as far as the store knows."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.records.observations import BlockRef
from bridge.store.observations import Observations


@dataclass(frozen=True, slots=True)
class Finality:
    """The highest final block of a chain: that of its observation's cursor, which keeps its distance to the head.

    A caller that judges by a block that it saw reads the final block before it asks the chain. It calls final only blocks of at
    most that height, and only if that block `holds` when it writes. Otherwise a reorg that another worker has already handled
    would go unnoticed.
    """

    observations: Observations
    chain_id: int

    def height(self) -> int:
        """The highest final block; −1 without one."""
        return self.observations.final_height(self.chain_id)

    def block(self) -> BlockRef | None:
        """That block."""
        return self.observations.final_block(self.chain_id)

    def holds(self, block: BlockRef) -> bool:
        """Whether a block that was the highest final one still is final: nothing was taken back since."""
        return self.observations.has_passed(self.chain_id, block)
