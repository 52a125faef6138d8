"""What the relayer spends, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bridge.domain.spending import NOTHING, Blocked, LaneSpent, SpentFor, Total, TotalKey, TotalKeys, gwei_of, lane_of
from bridge.domain.transactions import Slot, costs_of, failures_of


class MemorySpending:
    """See `bridge.domain.spending.Spending`."""

    def __init__(self) -> None:
        self._totals: dict[TotalKey, Total] = {}
        self._costs: dict[int, list[tuple[SpentFor | None, int, int, int]]] = {}
        """By slot: for whom, gwei, those for data, failures."""
        self._chains: dict[int, int] = {}  # by slot
        self._blocked: dict[str, Blocked] = {}

    def totals(self, keys: Sequence[TotalKey]) -> Mapping[TotalKey, Total]:
        return {key: self._totals[key] for key in keys if key in self._totals}

    def lanes(self, now: float) -> list[LaneSpent]:
        day = TotalKeys.of(0, None, now).chain.day
        found = [(lane_of(key.of), key, total) for key, total in self._totals.items() if key.day == day]
        return [LaneSpent.of(lane, key.chain_id, total.gwei) for lane, key, total in found if lane is not None]

    def note_blocked(self, blocked: Blocked) -> float:
        known = self._blocked.get(blocked.subject)
        since = blocked.since if known is None else known.since
        self._blocked[blocked.subject] = replace(blocked, since=since)
        return since

    def release(self, subject: str) -> None:
        self._blocked.pop(subject, None)

    def blocked(self, message_id: bytes | None = None, *, since: float = 0) -> list[Blocked]:
        found = [one for one in self._blocked.values() if one.at >= since and message_id in (None, one.message_id)]
        return sorted(found, key=lambda one: one.subject)

    def is_blocked(self, subject: str) -> bool:
        """Whether something waits; for the outbox."""
        return subject in self._blocked

    def add(self, keys: Sequence[TotalKey], gwei: int) -> None:
        """Changes totals by that much."""
        for key in keys:
            self._totals[key] = self._totals.get(key, NOTHING).plus(gwei)

    def costs(self) -> list[tuple[SpentFor | None, int, int]]:
        """Whom every transaction is paid for, on which chain, and its gwei."""
        chains = self._chains
        return [(who, chains[slot_id], gwei) for slot_id, parts in self._costs.items() for who, gwei, _, _ in parts]

    def reserved(self, slot: Slot, parts: Sequence[tuple[SpentFor | None, int, int]]) -> None:
        """Notes what a new slot may cost, in wei and for data in gwei, and for whom; for the nonce ledger."""
        self._chains[slot.slot_id] = slot.chain_id
        self._costs[slot.slot_id] = [(who, 0, data, 0) for who, _, data in parts]
        self._change(slot, [wei for _, wei, _ in parts])

    def settle(self, slot: Slot) -> None:
        """Notes what a slot costs by now; for the nonce ledger."""
        costs = costs_of(slot)
        if costs is not None and slot.slot_id in self._costs:
            self._change(slot, costs)

    def spent_for(self, slot_id: int) -> list[tuple[SpentFor | None, int]]:
        """What each transaction_key of a slot is paid for, and what its gas and value cost, in gwei; for the nonce ledger."""
        return [(who, gwei - data) for who, gwei, data, _ in self._costs[slot_id]]

    def _change(self, slot: Slot, costs: Sequence[int]) -> None:
        changed = []
        for (who, gwei, data, failed), wei in zip(self._costs[slot.slot_id], costs, strict=True):
            failures, now = failures_of(slot, who), gwei_of(wei) + data
            for key in TotalKeys.of(slot.chain_id, who, slot.reserved_at).all:
                known = self._totals.get(key, NOTHING)
                self._totals[key] = known.plus(now - gwei, failures - failed)
            changed.append((who, now, data, failures))
        self._costs[slot.slot_id] = changed
