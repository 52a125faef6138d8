"""Sums over the store in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from bridge.domain.figures import (
    LATENCY_BOUNDS,
    DeliverySum,
    FailureSum,
    SlotSum,
    TransactionOutcome,
    TransactionSum,
    Tried,
)
from bridge.domain.outbox import OutboxEntry, OutboxState
from bridge.domain.transactions import Slot, SlotState
from bridge.protocol.gmps import Gmp
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.transactions import MemoryTransactionLedger


class MemoryFigures:
    """See `bridge.domain.figures.Figures`."""

    def __init__(self, outbox: MemoryOutbox, transactions: MemoryTransactionLedger) -> None:
        self._outbox = outbox
        self._transactions = transactions

    def deliveries(self) -> list[DeliverySum]:
        took = defaultdict(list)
        for entry in self._outbox.all():
            if entry.state is OutboxState.DELIVERED and entry.delivered_at is not None:
                took[_queue(entry)].append(entry.delivered_at - entry.created_at)
        return [
            DeliverySum(
                source_chain=source,
                destination_chain=destination,
                gmp=gmp,
                count=len(times),
                within=tuple(sum(time <= bound for time in times) for bound in LATENCY_BOUNDS),
                seconds=sum(times),
            )
            for (source, destination, gmp), times in sorted(took.items())
        ]

    def failures(self) -> list[FailureSum]:
        counts = Counter(
            (*_queue(entry), recorded.failure.kind, recorded.failure.code)
            for entry in self._outbox.all()
            for recorded in self._outbox.failures(entry.event_id)
        )
        return [
            FailureSum(source_chain=source, destination_chain=destination, gmp=gmp, kind=kind, code=code, count=count)
            for (source, destination, gmp, kind, code), count in sorted(counts.items())
        ]

    def slots(self) -> list[SlotSum]:
        groups = defaultdict(list)
        for slot in self._transactions.all():
            groups[slot.chain_id, slot.account, slot.state].append(slot.reserved_at)
        return [
            SlotSum(chain_id=chain_id, account=account, state=state, count=len(times), oldest=min(times))
            for (chain_id, account, state), times in sorted(groups.items())
        ]

    def transactions(self) -> list[TransactionSum]:
        counts = Counter(
            (slot.chain_id, slot.account, outcome)
            for slot in self._transactions.all()
            if (outcome := _outcome(slot)) is not None
        )
        return [
            TransactionSum(chain_id=chain_id, account=account, outcome=outcome, count=count)
            for (chain_id, account, outcome), count in sorted(counts.items())
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


def _queue(entry: OutboxEntry) -> tuple[int, int, Gmp]:
    return (entry.lane.source_chain, entry.lane.destination_chain, entry.dispatch.gmp)


def _outcome(slot: Slot) -> TransactionOutcome | None:
    if slot.state is SlotState.USED_EXTERNALLY:
        return TransactionOutcome.USED_EXTERNALLY
    if slot.included is None:
        return None
    if slot.ended_as_noop:
        return TransactionOutcome.NOOP
    return TransactionOutcome.SUCCEEDED if slot.included.succeeded else TransactionOutcome.REVERTED
