"""What an observer looks for on its chain: whose events, and how deep they must lie."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.ports import Adapter, Block, Chain, Watch
from bridge.protocol.deployment import FinalityTag
from bridge.relay.reading import ROUTER_TOPICS

_REMEMBERED: Final = 16  # looks
_LONGEST_PAUSE: Final = 15.0  # seconds


@dataclass(frozen=True, slots=True)
class Depth:
    """Down from which block a chain's blocks are acted on.

    Attributes:
        confirmations: blocks that must lie on top of one.
        tag: what the chain itself must call it besides.
    """

    confirmations: int
    tag: FinalityTag | None = None

    async def tagged(self, chain: Chain) -> int | None:
        """The height that the chain's tag is at; None without a tag."""
        return None if self.tag is None else await chain.height_of(self.tag)

    def last(self, head: Block, tagged: int | None) -> int:
        """The last block that is acted on; what counts as final anywhere in the relayer follows the cursor, which goes so far."""
        deep = head.number - self.confirmations
        return deep if tagged is None else min(deep, tagged)


class BlockTime:
    """How long a chain's blocks take, by their timestamps: as often as they come, a chain is looked at."""

    def __init__(self) -> None:
        self._head: Block | None = None
        self._seconds = deque[float](maxlen=_REMEMBERED)  # per block, between looks that found new ones

    def saw(self, head: Block) -> None:
        """Takes a newest block into account."""
        before, self._head = self._head, head
        if before is not None and head.number > before.number:
            self._seconds.append((head.timestamp - before.timestamp) / (head.number - before.number))

    def pause(self, poll: float) -> float:
        """Seconds until a look may find another block.

        The shortest that was seen counts, since chains skip blocks, and a devnet may make none for long. Timestamps are in whole
        seconds, so that blocks of a second or less can't be told apart.
        """
        shortest = min(self._seconds, default=0.0)
        return poll if shortest <= 1 else max(poll, min(shortest, _LONGEST_PAUSE))


class Watching:
    """The contracts and topics of one router, and of the GMPs that its messages may take."""

    def __init__(self, chain_id: int, router: str, adapters: Iterable[Adapter]) -> None:
        self.adapters: list[tuple[Adapter, Watch]] = [(adapter, adapter.watch(chain_id)) for adapter in adapters]
        self.addresses = sorted({router, *(a for _, watch in self.adapters for a in watch.addresses)})
        self.topics = sorted({*ROUTER_TOPICS, *(t for _, watch in self.adapters for t in watch.topics)})
        text = "\n".join([*(address.lower() for address in self.addresses), *(topic.hex() for topic in self.topics)])
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]  # another one for other contracts or topics
