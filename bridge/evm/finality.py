"""Up to where a chain is final for the bridge: as deep as the deployments file asks, and no higher than the chain's own tag.

The index has a rule of its own, see `indexer.sources.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.protocol.deployment import ChainDeployment, FinalityTag
from bridge.protocol.ports import Block, Chain


@dataclass(frozen=True, slots=True)
class FinalityRule:
    """Down from which block a chain's blocks are acted on.

    Attributes:
        confirmations: blocks that must lie on top of one.
        tag: what the chain itself must call it besides.
    """

    confirmations: int
    tag: FinalityTag | None = None

    @classmethod
    def of(cls, deployed: ChainDeployment) -> FinalityRule:
        """The rule that the deployments file has for a chain."""
        return cls(deployed.confirmations, deployed.finality)

    async def tagged(self, chain: Chain) -> int | None:
        """The height that the chain's tag is at; None without a tag."""
        return None if self.tag is None else await chain.height_of(self.tag)

    def last(self, head: Block, tagged: int | None) -> int:
        """The last block that is acted on; what counts as final anywhere in the relayer follows the cursor, which goes so far."""
        deep = head.number - self.confirmations
        return deep if tagged is None else min(deep, tagged)
