"""Monitors pending transactions until each nonce is used in a final block."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from bridge.evm.account import Account, NonceLostError
from bridge.protocol.ports import Receipt, TransientError
from bridge.records.observations import BlockRef
from bridge.records.transactions import Inclusion, Slot, SlotState
from bridge.store.observations import Finality

_log = structlog.get_logger(__name__)

_BLOCKS_AT_ONCE: Final = 50  # blocks per batch of requests and per store transaction
_SETTLED: Final = (SlotState.INCLUDED, SlotState.FINAL, SlotState.USED_EXTERNALLY)


class TransactionMonitor:
    """Moves slots from signing to finality. Every step is idempotent, since it reads the ledger and the chain again."""

    def __init__(self, account: Account, finality: Finality) -> None:
        self._account = account
        self._ledger = account.ledger
        self._chain = account.chain
        self._finality = finality
        self._count: int | None = None  # number of the account's included transactions, as last read
        self._seen: tuple[bytes, BlockRef | None] | None = None  # the last head, and the final block at that time
        self._checked_at = 0.0  # time of the last check
        self._foreign_since: dict[int, float] = {}  # by slot: time since which another transaction has its nonce
        self._gap_since: float | None = None
        self._counted_since: float | None = (
            None  # time since which the chain has reported that count without interruption
        )
        self._block_gas: int | None = None

    async def first_nonce(self) -> int:
        """Returns the lowest nonce that the chain accepts.

        While transactions are pending, the nonce is known. An idle account may have been used elsewhere, so the
        chain is queried.
        """
        if self._count is None or not self._account.awaited:
            return await self._read_count()
        return self._count

    async def _read_count(self) -> int:
        """Reads the number of the account's included transactions, which is the next nonce."""
        before, self._count = self._count, await self._chain.transaction_count(self._account.address)
        if self._counted_since is None or before != self._count:
            self._counted_since = self._account.clock.now()
        return self._count

    def next_for(self, slot: Slot) -> float:
        """Returns the number of seconds for which a slot's nonce has been the account's next.

        The result is 0 while lower nonces are pending or the chain does not respond.
        """
        if self._counted_since is None or slot.nonce != self._count:
            return 0.0
        return self._account.clock.now() - max(self._counted_since, slot.reserved_at)

    async def block_gas(self) -> int:
        """Returns the block gas limit as last read, or 0 if the chain does not report it.

        Raises:
            TransientError: the chain did not respond.
        """
        if self._block_gas is None:
            self._block_gas = (await self._chain.head()).gas_limit
        return self._block_gas

    async def tick(self) -> None:
        """Records inclusions, rebroadcasts lost transactions, and closes nonces that will never be used.

        Raises:
            TransientError: the chain did not respond; completed steps are kept.
        """
        try:
            await self._step()
        except TransientError:
            self._counted_since = None
            raise

    async def _step(self) -> None:
        key = self._account.key
        if not self._account.awaited and not self._ledger.has_unsettled(*key):
            return
        checked_at = self._account.clock.now()
        head = await self._chain.head()
        self._block_gas = head.gas_limit
        seen = (head.hash, self._finality.block())
        if seen != self._seen:
            await self._check_included()
            await self._read_count()
        awaited, slots = self._account.awaited, self._ledger.open_slots(*key)
        if slots:
            assert self._count is not None
            await self._settle_used([slot for slot in slots if slot.nonce < self._count])
        await self._settle_elsewhere(awaited - {slot.slot_id for slot in slots})
        if slots:
            assert self._count is not None
            # Read again: a node may have accepted them while we waited for receipts.
            waiting = [slot for slot in self._ledger.open_slots(*key) if slot.nonce >= self._count]
            await self._push(waiting, seen[0])
            await self._fill_gap(waiting)
        self._seen, self._checked_at = seen, checked_at

    async def _settle_used(self, slots: Sequence[Slot]) -> None:
        """Determines which version, or which other transaction, used each nonce."""
        receipts = await asyncio.gather(*(self._receipt(slot) for slot in slots))
        by_slot = {slot.slot_id: receipt for slot, receipt in zip(slots, receipts, strict=True) if receipt is not None}
        if by_slot:
            for slot in self._ledger.include([(slot_id, _inclusion(receipt)) for slot_id, receipt in by_slot.items()]):
                self._foreign_since.pop(slot.slot_id, None)
                self._settle(slot, by_slot[slot.slot_id])
        for slot in slots:
            if slot.slot_id not in by_slot:
                self._suspect_foreign(slot)

    async def _receipt(self, slot: Slot) -> Receipt | None:
        for version in reversed(slot.versions):
            receipt = await self._chain.receipt(version.hash)
            if receipt is not None:
                return receipt
        return None

    def _suspect_foreign(self, slot: Slot) -> None:
        """Marks a used nonce without a receipt as taken, but only after a while, since some nodes lag behind others."""
        now = self._account.clock.now()
        since = self._foreign_since.setdefault(slot.slot_id, now)
        if now - since < self._account.settings.FOREIGN:
            return
        del self._foreign_since[slot.slot_id]
        self._ledger.take(slot.slot_id)
        _log.warning("nonce used by another signer", chain=slot.chain_id, account=slot.account, nonce=slot.nonce)
        self._settle(self._ledger.slot(slot.slot_id), None)

    def _settle(self, slot: Slot, receipt: Receipt | None) -> None:
        if receipt is None:
            error = NonceLostError(f"nonce {slot.nonce} of {slot.account} was used by a transaction signed elsewhere")
            self._account.settle(slot, error)
        elif slot.ended_as_noop:
            self._account.settle(slot, NonceLostError(f"nonce {slot.nonce} of {slot.account} was closed by a no-op"))
        else:
            self._account.settle(slot, receipt)

    async def _push(self, slots: Sequence[Slot], head: bytes) -> None:
        """Rebroadcasts, in one batch, all transactions with unused nonces that need it."""
        settings, now = self._account.settings, self._account.clock.now()
        stuck: Slot | None = None
        again = []
        for slot in slots:
            if slot.latest is None:
                continue
            if slot.nonce == self._count and now - slot.latest.signed_at >= settings.fee_bump_after:
                stuck = slot
            elif self._needs_rebroadcast(slot, head):
                again.append(slot)
        await self._account.broadcast(again)
        if stuck is not None:
            if await self._raise_fees(stuck):
                _log.info("fees raised", chain=stuck.chain_id, transaction_key=stuck.named_keys, nonce=stuck.nonce)
            elif self._needs_rebroadcast(stuck, head):
                await self._account.broadcast([stuck])
        for slot in slots:
            if slot.latest is None and now - slot.reserved_at >= settings.RESERVATION:
                await self._sign_abandoned(slot)

    async def _sign_abandoned(self, slot: Slot) -> None:
        """Signs a transaction for a nonce whose worker is gone. The next send with the same key joins it."""
        if not await self._account.replace(slot, is_noop=slot.call is None):
            await self._account.close(slot)  # for example, the signer rejects the call

    async def _raise_fees(self, slot: Slot) -> bool:
        if await self._account.lacks_funds(slot):
            return False
        return await self._account.replace(slot, is_noop=slot.latest is not None and slot.latest.is_noop)

    def _needs_rebroadcast(self, slot: Slot, head: bytes) -> bool:
        """Returns whether to rebroadcast.

        It does so immediately after a restart, soon if nodes rejected or dropped the transaction, and otherwise
        periodically.
        """
        settings = self._account.settings
        last = self._account.last_sent.get(slot.slot_id)
        is_missing = slot.state is SlotState.SIGNED or self._was_passed_over(slot, head)
        patience = settings.poll_interval if is_missing else settings.rebroadcast_after
        return last is None or self._account.clock.now() - last >= patience

    def _was_passed_over(self, slot: Slot, head: bytes) -> bool:
        """Returns whether a block omitted the account's next transaction although a node had accepted it.

        Later transactions wait for that one.
        """
        if slot.nonce != self._count or slot.broadcast_at is None or self._seen is None:
            return False
        return slot.broadcast_at <= self._checked_at and head != self._seen[0]

    async def _fill_gap(self, waiting: Sequence[Slot]) -> None:
        """Closes nonce gaps below the first open slot. They arise when another signer's transaction is reorged away."""
        now = self._account.clock.now()
        if not waiting or self._count is None or waiting[0].nonce == self._count:
            self._gap_since = None
            return
        self._gap_since = self._gap_since if self._gap_since is not None else now
        if now - self._gap_since < self._account.settings.FOREIGN:
            return
        for nonce in range(self._count, waiting[0].nonce):
            slot = self._ledger.fill(*self._account.key, nonce, now)
            if slot.state in (SlotState.RESERVED, SlotState.USED_EXTERNALLY):
                await self._account.close(slot)

    async def _check_included(self) -> None:
        """Reopens slots whose block was reorged away, and marks slots in final blocks as final."""
        by_block = self._ledger.included_slots(*self._account.key)
        references = list(by_block)
        for start in range(0, len(references), _BLOCKS_AT_ONCE):
            for reference in await self._finalise(references[start : start + _BLOCKS_AT_ONCE], by_block):
                for slot_id in by_block[reference]:
                    await self._reopen(self._ledger.slot(slot_id))

    async def _finalise(
        self, references: Sequence[BlockRef], by_block: Mapping[BlockRef, Sequence[int]]
    ) -> list[BlockRef]:
        """Marks slots in final blocks as final, and returns the blocks that were reorged away."""
        final = self._finality.block()
        blocks = await asyncio.gather(*(self._chain.block(reference.number) for reference in references))
        pairs = zip(references, blocks, strict=True)
        standing = {reference for reference, block in pairs if block is not None and block.hash == reference.hash}
        if final is not None:
            deep = [slot_id for block in standing if block.number <= final.number for slot_id in by_block[block]]
            if deep and self._finality.holds(final):
                self._ledger.finalise(deep)
        return [reference for reference in references if reference not in standing]

    async def _reopen(self, slot: Slot) -> None:
        if slot.state is not SlotState.INCLUDED:
            return  # another worker has done it
        receipt = await self._receipt(slot)
        if receipt is not None:
            self._ledger.include([(slot.slot_id, _inclusion(receipt))])
            return
        self._ledger.orphan(slot.slot_id)
        _log.info(
            "transaction reorged away, rebroadcast",
            chain=slot.chain_id,
            transaction_key=slot.named_keys,
            nonce=slot.nonce,
        )
        await self._account.broadcast([self._ledger.slot(slot.slot_id)])

    async def _settle_elsewhere(self, ended: set[int]) -> None:
        """Resolves the waiters of transactions that another process on the same store has settled."""
        for slot_id in ended & self._account.awaited:
            slot = self._ledger.slot(slot_id)
            if slot.state not in _SETTLED:
                continue
            receipt = None if slot.included is None else await self._chain.receipt(slot.included.transaction_hash)
            if receipt is not None or slot.state is SlotState.USED_EXTERNALLY:
                self._settle(slot, receipt)


def _inclusion(receipt: Receipt) -> Inclusion:
    block = BlockRef(receipt.block_number, receipt.block_hash)
    return Inclusion(receipt.transaction_hash, block, receipt.succeeded, receipt.gas_used)
