"""Sees deliveries through to finality on their destination, and opens again what a reorg there undid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from bridge.ports import Block, Chain, Clock
from bridge.records.observations import BlockRef
from bridge.records.outbox import Delivery, Outbox, OutboxState
from bridge.routers import RouterReader

_log = structlog.get_logger(__name__)

_BLOCKS_AT_ONCE: Final = 50  # they travel together, and what is found in them is written together


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
        by_block = self._outbox.unconfirmed(self._chain.chain_id)
        references = list(by_block)
        for start in range(0, len(references), _BLOCKS_AT_ONCE):
            for reference in await self._confirm(references[start : start + _BLOCKS_AT_ONCE], by_block):
                for event_id in by_block[reference]:
                    await self._look_again(event_id, head)
        self._seen = seen
        return False

    async def _confirm(
        self, references: Sequence[BlockRef], by_block: Mapping[BlockRef, Sequence[str]]
    ) -> list[BlockRef]:
        """Confirms what is in those blocks that are deep enough; returns those that fell."""
        blocks = await asyncio.gather(*(self._chain.block(reference.number) for reference in references))
        final = self._final_height()  # as it is after the blocks were seen: a reorg meanwhile has lowered it
        found = list(zip(references, blocks, strict=True))
        standing = {reference for reference, block in found if block is not None and block.hash == reference.hash}
        deep = [event_id for one in standing if one.number <= final for event_id in by_block[one]]
        if deep:
            self._outbox.confirm(deep, self._clock.now())
        return [reference for reference in references if reference not in standing]

    async def _look_again(self, event_id: str, head: Block) -> None:
        entry = self._outbox.entry(event_id)
        if entry is None or entry.state is not OutboxState.DELIVERED or entry.delivery is None:
            return  # another worker did it meanwhile
        dispatch, delivery = entry.dispatch, entry.delivery
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
