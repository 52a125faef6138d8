"""The final block of a chain, as far as the store knows."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.records.observations import BlockRef
from bridge.store.observations import Observations


@dataclass(frozen=True, slots=True)
class Finality:
    """The highest final block of a chain: the position of its observation cursor, which keeps its distance to the head.

    A caller that judges by a block reads the final block before it asks the chain. It treats only blocks up to
    that height as final, and only if that block still `holds` when it writes. Otherwise it could miss a reorg
    that another worker has already handled.
    """

    observations: Observations
    chain_id: int

    def height(self) -> int:
        """Returns the height of the highest final block, or −1."""
        return self.observations.final_height(self.chain_id)

    def block(self) -> BlockRef | None:
        """Returns the highest final block, or None."""
        return self.observations.final_block(self.chain_id)

    def holds(self, block: BlockRef) -> bool:
        """Whether a block that was the highest final one still is final: no reorg rolled it back since."""
        return self.observations.has_passed(self.chain_id, block)
