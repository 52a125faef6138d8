"""The nonce ledger in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from bridge.domain.figures import Counted, outcome_of
from bridge.domain.observations import BlockRef
from bridge.domain.spending import UNBOUNDED, SpendBounds, gwei_of
from bridge.domain.transactions import (
    SENT_STATES,
    CallBatch,
    Inclusion,
    Packing,
    SignedVersion,
    Slot,
    SlotRequest,
    SlotState,
    SpendCheck,
    one_by_one,
    require_room,
)
from tests.support.memory_store.counters import MemoryCounters
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.spending import MemorySpending


class MemoryTransactionLedger:
    """See `bridge.domain.transactions.TransactionLedger`."""

    def __init__(self, outbox: MemoryOutbox, spending: MemorySpending, counters: MemoryCounters) -> None:
        self._counters = counters
        self._outbox = outbox
        self._spending = spending
        self._slots: dict[int, Slot] = {}

    def reserve(
        self,
        chain_id: int,
        account: str,
        requests: Sequence[SlotRequest],
        *,
        first_nonce: int,
        now: float,
        pack: Packing = one_by_one,
        check: SpendCheck | None = None,
    ) -> list[Slot | None]:
        check = check or SpendCheck()
        first = max([first_nonce, *(slot.nonce + 1 for slot in self._of(chain_id, account))])
        good = [self._claim_is_good(request) for request in requests]
        known = {
            transaction_key: slot
            for slot in self.open_slots(chain_id, account)
            for transaction_key in slot.transaction_keys
        }
        pairs = zip(requests, good, strict=True)
        wanted = {one.transaction_key: one for one, is_good in pairs if is_good and one.transaction_key not in known}
        totals = self._spending.totals(check.keys(wanted.values(), chain_id, now))
        batches = check.admitted(list(wanted.values()), pack, totals, chain_id=chain_id, now=now)
        for nonce, batch in enumerate(batches, first):
            slot = self._new(chain_id, account, nonce, batch, now)
            costs = []
            for part in batch.parts:
                data = gwei_of(check.data_fee(batch, part, chain_id))
                costs.append((check.spent_for.get(part.transaction_key), check.cost(batch, part), data))
            self._spending.reserved(slot, costs)
            known.update(dict.fromkeys(slot.transaction_keys, slot))
        return [
            known.get(one.transaction_key) if is_good else None for one, is_good in zip(requests, good, strict=True)
        ]

    def fill(self, chain_id: int, account: str, nonce: int, now: float) -> Slot:
        for slot in self._of(chain_id, account):
            if slot.nonce == nonce:
                return slot
        slot = self._new(chain_id, account, nonce, None, now)
        self._spending.reserved(slot, [(None, 0, 0)])
        return slot

    def sign(
        self, slot_id: int, version: SignedVersion, *, replaces: bytes | None, bounds: SpendBounds = UNBOUNDED
    ) -> bool:
        slot = self._slots[slot_id]
        latest = slot.latest and slot.latest.hash
        if latest != replaces or not (slot.is_open or slot.state is SlotState.USED_EXTERNALLY):
            return False
        signed = slot.signed(version)
        require_room(signed, bounds, self._spending.spent_for(slot_id), self._spending.totals)
        self._slots[slot_id] = signed
        self._spending.settle(signed)
        return True

    def sign_all(self, versions: Sequence[tuple[int, SignedVersion]]) -> set[int]:
        taken = {key for key, _ in versions if self._slots[key].state is SlotState.RESERVED}
        for key, version in versions:
            if key in taken:
                self._slots[key] = self._slots[key].signed(version)
        return taken

    def broadcast(self, slot_ids: Collection[int], now: float) -> None:
        for slot_id in slot_ids:
            slot = self._slots[slot_id]
            if slot.state in SENT_STATES:
                self._slots[slot_id] = slot.broadcast(now)

    def include(self, inclusions: Sequence[tuple[int, Inclusion]]) -> list[Slot]:
        changed = {slot_id: self._slots[slot_id].in_block(inclusion) for slot_id, inclusion in inclusions}
        self._slots.update(changed)
        for slot in changed.values():
            self._spending.settle(slot)
            self._count(slot)
        return list(changed.values())

    def orphan(self, slot_id: int) -> None:
        self._slots[slot_id] = self._slots[slot_id].orphaned()
        self._spending.settle(self._slots[slot_id])

    def finalise(self, slot_ids: Collection[int]) -> None:
        for slot_id in slot_ids:
            slot = self._slots[slot_id]
            if slot.state is SlotState.INCLUDED:
                self._slots[slot_id] = slot.became(SlotState.FINAL)

    def take(self, slot_id: int) -> None:
        self._slots[slot_id] = self._slots[slot_id].became(SlotState.USED_EXTERNALLY)
        self._count(self._slots[slot_id])
        self._spending.settle(self._slots[slot_id])

    def _count(self, slot: Slot) -> None:
        outcome = outcome_of(slot)
        assert outcome is not None
        self._counters.add({(Counted.TRANSACTION, (slot.chain_id, slot.account, outcome.value)): 1})

    def slot(self, slot_id: int) -> Slot:
        return self._slots[slot_id]

    def open_slot(self, chain_id: int, account: str, transaction_key: str) -> Slot | None:
        return next(
            (slot for slot in self.open_slots(chain_id, account) if transaction_key in slot.transaction_keys), None
        )

    def open_slots(self, chain_id: int, account: str) -> list[Slot]:
        return [slot for slot in self._of(chain_id, account) if slot.is_open]

    def included_slots(self, chain_id: int, account: str) -> dict[BlockRef, list[int]]:
        by_block: defaultdict[BlockRef, list[int]] = defaultdict(list)
        for slot in self._of(chain_id, account):
            if slot.state is SlotState.INCLUDED and slot.included is not None:
                by_block[slot.included.block].append(slot.slot_id)
        return {block: by_block[block] for block in sorted(by_block, key=lambda block: block.number)}

    def slots(self, chain_id: int, account: str) -> list[Slot]:
        return self._of(chain_id, account)

    def slots_for(self, transaction_key: str) -> list[Slot]:
        found = [slot for slot in self._slots.values() if transaction_key in slot.transaction_keys]
        return sorted(found, key=lambda slot: (slot.chain_id, slot.account, slot.nonce))

    def all(self) -> Iterable[Slot]:
        """Every slot; for the figures, which count these."""
        return self._slots.values()

    def unfinalise(self, chain_id: int, last_good: int) -> None:
        """Takes back the finality of transactions above a block; for the observations."""
        for slot in list(self._slots.values()):
            is_above = slot.included is not None and slot.included.block.number > last_good
            if slot.chain_id == chain_id and slot.state is SlotState.FINAL and is_above:
                self._slots[slot.slot_id] = slot.became(SlotState.INCLUDED)

    def _of(self, chain_id: int, account: str) -> list[Slot]:
        found = [slot for slot in self._slots.values() if slot.chain_id == chain_id and slot.account == account]
        return sorted(found, key=lambda slot: slot.nonce)

    def _new(self, chain_id: int, account: str, nonce: int, batch: CallBatch | None, now: float) -> Slot:
        slot = Slot.reserved(chain_id, account, nonce, batch, now)
        slot = replace(slot, slot_id=len(self._slots) + 1)
        self._slots[slot.slot_id] = slot
        return slot

    def _claim_is_good(self, request: SlotRequest) -> bool:
        if request.claim is None:
            return True
        entry = self._outbox.entry(request.claim.event_id)
        return entry is not None and entry.is_claimed_by(request.claim) and entry.orphaned_at is None
