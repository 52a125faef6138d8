"""Decides which blocks the relayer treats as final.

Those with enough confirmations for the deployments file, up to the chain's own tag.

The index has its own rule, see `indexer.sources.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.protocol.deployment import ChainDeployment, FinalityTag
from bridge.protocol.ports import Block, Chain


@dataclass(frozen=True, slots=True)
class FinalityRule:
    """The condition under which the relayer acts on a chain's blocks.

    Attributes:
        confirmations: Number of blocks required on top.
        tag: Block tag that must also have reached the block.
    """

    confirmations: int
    tag: FinalityTag | None = None

    @classmethod
    def of(cls, deployed: ChainDeployment) -> FinalityRule:
        """Returns a chain's rule from the deployments file."""
        return cls(deployed.confirmations, deployed.finality)

    async def tagged(self, chain: Chain) -> int | None:
        """Returns the height of the chain's tag, or None without a tag."""
        return None if self.tag is None else await chain.height_of(self.tag)

    def last(self, head: Block, tagged: int | None) -> int:
        """Returns the number of the last block to act on.

        The observation cursor stops there, and the relayer derives all finality from the cursor.
        """
        deep = head.number - self.confirmations
        return deep if tagged is None else min(deep, tagged)
