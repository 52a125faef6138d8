"""What an observer looks for on its chain: whose events, and how deep they must lie."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from bridge.ports import Adapter, Block, Chain, Watch
from bridge.protocol.deployment import FinalityTag
from bridge.relay.reading import ROUTER_TOPICS


@dataclass(frozen=True, slots=True)
class Depth:
    """Down from which block a chain's blocks are acted on.

    Attributes:
        confirmations: blocks that must lie on top of one.
        tag: what the chain itself must call it besides.
    """

    confirmations: int
    tag: FinalityTag | None = None

    async def last(self, chain: Chain, head: Block) -> int:
        """The last block that is acted on; what counts as final anywhere in the relayer follows the cursor, which goes so far."""
        deep = head.number - self.confirmations
        return deep if self.tag is None else min(deep, await chain.height_of(self.tag))


class Watching:
    """The contracts and topics of one router, and of the GMPs that its messages may take."""

    def __init__(self, chain_id: int, router: str, adapters: Iterable[Adapter]) -> None:
        self.adapters: list[tuple[Adapter, Watch]] = [(adapter, adapter.watch(chain_id)) for adapter in adapters]
        self.addresses = sorted({router, *(a for _, watch in self.adapters for a in watch.addresses)})
        self.topics = sorted({*ROUTER_TOPICS, *(t for _, watch in self.adapters for t in watch.topics)})
        text = "\n".join([*(address.lower() for address in self.addresses), *(topic.hex() for topic in self.topics)])
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]  # another one for other contracts or topics
