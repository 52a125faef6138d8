"""Decides which blocks the relayer treats as final.

A block is final once it has the number of confirmations in the deployments file and, if a tag is configured,
the chain's tag has reached it.

The index has its own rule; see `indexer.sources.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.protocol.deployment import ChainDeployment, FinalityTag
from bridge.protocol.ports import Block, Chain


@dataclass(frozen=True, slots=True)
class FinalityRule:
    """The condition under which the relayer acts on a chain's blocks.

    Attributes:
        confirmations: Number of blocks required on top of the block.
        tag: Block tag that must have reached the block as well, or None.
    """

    confirmations: int
    tag: FinalityTag | None = None

    @classmethod
    def of(cls, deployed: ChainDeployment) -> FinalityRule:
        """Returns a chain's rule from the deployments file."""
        return cls(deployed.confirmations, deployed.finality)

    async def tagged(self, chain: Chain) -> int | None:
        """Returns the height of the rule's tag on the chain, or None if the rule has no tag."""
        return None if self.tag is None else await chain.height_of(self.tag)

    def last(self, head: Block, tagged: int | None) -> int:
        """Returns the number of the last block to act on.

        The observation cursor stops there, and the relayer derives all finality from the cursor.
        """
        deep = head.number - self.confirmations
        return deep if tagged is None else min(deep, tagged)
