"""Sees deliveries through to finality on their destination, and opens again what a reorg there undid."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import structlog

from bridge.ports import Block, Chain, Clock
from bridge.records.observations import BlockRef
from bridge.records.outbox import Delivery, Outbox, OutboxEntry
from bridge.routers import RouterReader

_log = structlog.get_logger(__name__)


class Confirmation:
    """One destination chain."""

    def __init__(
        self, chain: Chain, router: str, outbox: Outbox, clock: Clock, final_height: Callable[[], int]
    ) -> None:
        """`final_height` says up to which block the chain is final."""
        self._chain = chain
        self._router = RouterReader(chain, router)
        self._outbox = outbox
        self._clock = clock
        self._final_height = final_height
        self._seen: tuple[bytes, int] | None = None

    async def step(self) -> bool:
        """Confirms deliveries in blocks that are deep enough, and looks again for those whose block fell."""
        head = await self._chain.head()
        seen = (head.hash, self._final_height())
        if seen == self._seen:
            return False
        for reference, group in groupby(self._outbox.unconfirmed(self._chain.chain_id), key=_block_of):
            entries = list(group)
            block = await self._chain.block(reference.number)
            if block is None or block.hash != reference.hash:
                for entry in entries:
                    await self._look_again(entry, head)
            elif reference.number <= self._final_height():
                self._outbox.confirm([entry.event_id for entry in entries], self._clock.now())
        self._seen = seen
        return False

    async def _look_again(self, entry: OutboxEntry, head: Block) -> None:
        dispatch, delivery = entry.dispatch, entry.delivery
        assert delivery is not None
        if await self._router.has_received(dispatch.message_id, dispatch.gmp):
            receipt = delivery.transaction_hash and await self._chain.receipt(delivery.transaction_hash)
            if receipt:
                block = BlockRef(receipt.block_number, receipt.block_hash)
                self._outbox.repin(entry.event_id, Delivery(block, receipt.transaction_hash))
            else:
                self._outbox.repin(entry.event_id, Delivery(BlockRef.of(head), None))
            return
        self._outbox.replay(entry.event_id, "the block of its delivery was reorged away", self._clock.now())
        _log.warning(
            "delivery reorged away, opened again",
            message=f"0x{dispatch.message_id.hex()}",
            gmp=dispatch.gmp.label,
            block=delivery.block.number,
        )


def _block_of(entry: OutboxEntry) -> BlockRef:
    assert entry.delivery is not None
    return entry.delivery.block
