"""Confirms deliveries once they are final on their destination, and reopens those that a reorg removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from bridge.evm.routers import RouterReader, shows_delivery
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.ports import Block, Chain, Clock
from bridge.records.observations import BlockRef
from bridge.records.outbox import STUCK_AFTER, ObservedDelivery, OutboxState, delivery_of
from bridge.relayer.lagging import MissingBlocks
from bridge.store.jobs import Jobs
from bridge.store.observations import Finality
from bridge.store.outbox import Outbox

_log = structlog.get_logger(__name__)

_BLOCKS_AT_ONCE: Final = 50  # read in one request and written in one transaction


class Confirmation:
    """Confirms the deliveries of one destination chain."""

    def __init__(
        self,
        chain: Chain,
        router: str,
        outbox: Outbox,
        jobs: Jobs,
        clock: Clock,
        *,
        finality: Finality,
        head: Callable[[], Awaitable[Block]] | None = None,
    ) -> None:
        """Creates the confirmation of deliveries to one router.

        Args:
            chain: Destination chain.
            router: Address of its router.
            outbox: Delivered entries.
            jobs: Execution jobs, since a delivery that moves to a different block may no longer execute its message.
            clock: Source of time.
            finality: Tracks the chain's highest final block.
            head: Returns the newest polled block; if None, the chain is queried.
        """
        self._chain = chain
        self._router = RouterReader(chain, router)
        self._outbox = outbox
        self._jobs = jobs
        self._clock = clock
        self._finality = finality
        self._head = head or chain.head
        self._missing = MissingBlocks(clock)
        self._seen: tuple[bytes, BlockRef | None] | None = None

    async def step(self) -> bool:
        """Confirms deliveries in final blocks, and reopens those whose block was reorged away."""
        head = await self._head()
        seen = (head.hash, self._finality.block())
        if seen == self._seen:
            return False
        by_block = self._outbox.unconfirmed(self._chain.chain_id)
        references = list(by_block)
        missing = set[BlockRef]()
        for start in range(0, len(references), _BLOCKS_AT_ONCE):
            fallen, unknown = await self._confirm(references[start : start + _BLOCKS_AT_ONCE], by_block)
            missing |= unknown
            await self._look_again_at(fallen, by_block, head)
        if self._missing.are_gone(is_missing=bool(missing)):
            await self._look_again_at(list(missing), by_block, head)
        elif missing:
            return False  # the node may be behind
        self._seen = seen
        return False

    async def _look_again_at(
        self, references: Sequence[BlockRef], by_block: Mapping[BlockRef, Sequence[str]], head: Block
    ) -> None:
        for reference in references:
            for event_id in by_block[reference]:
                await self._look_again(event_id, head)

    async def _confirm(
        self, references: Sequence[BlockRef], by_block: Mapping[BlockRef, Sequence[str]]
    ) -> tuple[list[BlockRef], set[BlockRef]]:
        """Confirms the deliveries in those blocks that are final; returns the blocks that were reorged away."""
        final = self._finality.block()
        blocks = await asyncio.gather(*(self._chain.block(reference.number) for reference in references))
        found = list(zip(references, blocks, strict=True))
        standing = {reference for reference, block in found if block is not None and block.hash == reference.hash}
        if final is not None:
            deep = [event_id for one in standing if one.number <= final.number for event_id in by_block[one]]
            if deep:
                await self._finish(deep, final)
        unknown = {reference for reference, block in found if block is None}
        return [reference for reference in references if reference not in standing | unknown], unknown

    async def _finish(self, event_ids: Sequence[str], block: BlockRef) -> None:
        """Marks deliveries final if the router has their receipts.

        A transaction receipt from a single node is not proof enough.
        """
        shown = await asyncio.gather(*(self._router.has_received(*delivery_of(one)) for one in event_ids))
        if not self._finality.holds(block):
            return  # a reorg rolled finality back meanwhile; the next step continues
        refuted = {one for one, is_there in zip(event_ids, shown, strict=True) if not is_there}
        final = [one for one in event_ids if one not in refuted]
        if final:
            self._outbox.confirm(final, self._clock.now())
        for one in sorted(refuted):
            entry = self._outbox.entry(one)
            if entry is None or entry.state is not OutboxState.DELIVERED:
                continue  # another worker was faster
            self._reopen(
                one, FailureKind.TRANSIENT, "the block of the delivery is final, but the router has no receipt for it"
            )
            _log.error(
                "block is final but router has no receipt, delivery reopened", entry=one, chain=self._chain.chain_id
            )

    async def _look_again(self, event_id: str, head: Block) -> None:
        entry = self._outbox.entry(event_id)
        if entry is None or entry.state is not OutboxState.DELIVERED or entry.delivery is None:
            return  # another worker was faster
        dispatch, delivery = entry.dispatch, entry.delivery
        if await self._router.has_received(dispatch.message_id, dispatch.gmp):
            self._jobs.await_execution(dispatch.message_id, self._clock.now())
            receipt = delivery.transaction_hash and await self._chain.receipt(delivery.transaction_hash)
            if receipt and shows_delivery(receipt, self._router.address, dispatch):
                block = BlockRef(receipt.block_number, receipt.block_hash)
                self._outbox.repin(entry.event_id, ObservedDelivery(block, receipt.transaction_hash))
                return
            # A delivery in a later block is recorded at a later head.
            if await self._router.has_received(dispatch.message_id, dispatch.gmp, block=head.number):
                self._outbox.repin(entry.event_id, ObservedDelivery(BlockRef.of(head), None))
            return
        self._reopen(entry.event_id, FailureKind.UNDONE, "the block of the delivery was reorged away")
        _log.warning(
            "delivery reorged away, reopened",
            message=f"0x{dispatch.message_id.hex()}",
            gmp=dispatch.gmp.label,
            block=delivery.block.number,
        )

    def _reopen(self, event_id: str, kind: FailureKind, why: str) -> None:
        now = self._clock.now()
        failure = Failure(at=now, kind=kind, code="DeliveryNotThere", message=why)
        entry = self._outbox.reopen(event_id, failure, now)
        if entry.setbacks == STUCK_AFTER:
            _log.error("delivery makes no progress", entry=event_id, setbacks=entry.setbacks, error=why)
