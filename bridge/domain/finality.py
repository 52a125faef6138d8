"""Up to where a chain is final for the bridge: as deep as the deployments file asks, and no higher than the chain's own tag.

The index has a rule of its own, see `indexer.sources.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from bridge.domain.observations import BlockRef, Observations
from bridge.domain.ports import Block, Chain
from bridge.protocol.deployment import ChainDeployment, FinalityTag


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


class Finality(Protocol):
    """What counts as final on one chain.

    A caller that judges by a block that it saw reads the final block before it asks the chain. It calls final only blocks of at
    most that height, and only if that block `holds` when it writes. Otherwise a reorg that another worker has already handled
    would go unnoticed.
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
