"""Sums over the store in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from typing import Any

from bridge.domain.failures import FailureKind
from bridge.domain.figures import (
    LATENCY_BOUNDS,
    Counted,
    DeliverySum,
    FailureSum,
    QueueSum,
    SlotSum,
    TransactionOutcome,
    TransactionSum,
    Tried,
)
from bridge.domain.transactions import SlotState
from bridge.protocol.gmps import Gmp
from tests.support.memory_store.counters import MemoryCounters
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.spending import MemorySpending
from tests.support.memory_store.transactions import MemoryTransactionLedger


class MemoryFigures:
    """See `bridge.domain.figures.Figures`."""

    def __init__(
        self,
        outbox: MemoryOutbox,
        transactions: MemoryTransactionLedger,
        counters: MemoryCounters,
        spending: MemorySpending,
    ) -> None:
        self._counters = counters
        self._outbox = outbox
        self._transactions = transactions
        self._spending = spending

    def observed(self) -> list[QueueSum]:
        return self._by_queue(Counted.OBSERVED)

    def deliveries(self) -> list[DeliverySum]:
        seconds, places = dict(self._counted(Counted.DELIVERY_SECONDS)), range(len(LATENCY_BOUNDS) + 1)
        counts = Counter(dict(self._counted(Counted.DELIVERED)))
        return [
            DeliverySum(
                source_chain=source,
                destination_chain=destination,
                gmp=Gmp(gmp),
                count=int(sum(counts[source, destination, gmp, place] for place in places)),
                within=tuple(
                    int(sum(counts[source, destination, gmp, place] for place in places[: bound + 1]))
                    for bound in places[:-1]
                ),
                seconds=seconds[source, destination, gmp],
            )
            for source, destination, gmp in sorted(seconds)
        ]

    def failures(self) -> list[FailureSum]:
        return [
            FailureSum(
                source_chain=source,
                destination_chain=destination,
                gmp=Gmp(gmp),
                kind=FailureKind(kind),
                code=code,
                count=int(count),
            )
            for (source, destination, gmp, kind, code), count in self._counted(Counted.FAILED)
        ]

    def tried_again(self) -> list[QueueSum]:
        return self._by_queue(Counted.TRIED_AGAIN)

    def _by_queue(self, what: Counted) -> list[QueueSum]:
        return [
            QueueSum(source_chain=source, destination_chain=destination, gmp=Gmp(gmp), count=int(count))
            for (source, destination, gmp), count in self._counted(what)
        ]

    def _counted(self, what: Counted) -> list[tuple[Any, float]]:
        return sorted(self._counters.counted(what).items())

    def slots(self) -> list[SlotSum]:
        groups = defaultdict(list)
        for slot in self._transactions.all():
            groups[slot.chain_id, slot.account, slot.state].append(slot.reserved_at)
        return [
            SlotSum(chain_id=chain_id, account=account, state=state, count=len(times), oldest=min(times))
            for (chain_id, account, state), times in sorted(groups.items())
        ]

    def transactions(self) -> list[TransactionSum]:
        return [
            TransactionSum(chain_id=chain_id, account=account, outcome=TransactionOutcome(outcome), count=int(count))
            for (chain_id, account, outcome), count in self._counted(Counted.TRANSACTION)
        ]

    def recent(self, since: float) -> list[Tried]:
        tried: list[Tried] = []
        for entry in self._outbox.all():
            ends: list[tuple[float, str | None]] = [
                (one.failure.at, one.failure.code) for one in self._outbox.failures(entry.event_id)
            ]
            if entry.delivered_at is not None:
                ends.append((entry.delivered_at, None))
            tried += (
                Tried(
                    gmp=entry.dispatch.gmp,
                    destination_chain=entry.dispatch.destination_chain,
                    message_id=entry.dispatch.message_id,
                    at=at,
                    code=code,
                )
                for at, code in ends
                if at > since
            )
        return sorted(tried, key=lambda one: one.at)

    def attested(self, message_ids: Collection[bytes]) -> dict[tuple[bytes, Gmp], float]:
        first: dict[tuple[bytes, Gmp], float] = {}
        for slot in self._transactions.all():
            for transaction_key in (slot.transaction_key, *(part.transaction_key for part in slot.parts)):
                entry = self._outbox.entry(transaction_key)
                if entry is not None and entry.dispatch.message_id in message_ids:
                    key = (entry.dispatch.message_id, entry.dispatch.gmp)
                    first[key] = min(first.get(key, slot.reserved_at), slot.reserved_at)
        return first

    def paid(self) -> dict[tuple[bytes, Gmp], int]:
        found: Counter[tuple[bytes, Gmp]] = Counter()
        for slot in self._transactions.all():
            if slot.state not in (SlotState.INCLUDED, SlotState.FINAL):
                continue
            keys = [part.transaction_key for part in slot.parts] or [slot.transaction_key]
            for key, (_, gwei) in zip(keys, self._spending.spent_for(slot.slot_id), strict=True):
                if (entry := self._outbox.entry(key)) is not None:
                    found[entry.dispatch.message_id, entry.dispatch.gmp] += gwei
        return dict(found)
