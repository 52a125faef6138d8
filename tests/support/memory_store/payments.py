"""What was paid through vaults, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from bridge.domain.jobs import ExecutionJob, ExecutionState
from bridge.domain.lanes import Lane
from bridge.domain.outbox import OutboxState
from bridge.domain.payments import MARGIN, Account, Economy, VaultAct, VaultEvent
from bridge.domain.spending import GWEI, NOTHING, Bound, TotalKey, balance_keys
from tests.support.memory_store.jobs import MemoryJobs
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.spending import MemorySpending

_Place = tuple[int, int, int | None]


class MemoryPayments:
    """See `bridge.domain.payments.Payments`."""

    def __init__(self, spending: MemorySpending, outbox: MemoryOutbox, jobs: MemoryJobs) -> None:
        self._spending = spending
        self._outbox = outbox
        self._jobs = jobs
        self._events: dict[tuple[bytes, int], VaultEvent] = {}
        self._counts: dict[tuple[bytes, int], int] = {}  # gwei of the destination that a payment still stands for
        self._open: set[tuple[bytes, int]] = set()  # payments that have not expired

    def record(self, events: Sequence[VaultEvent], now: float) -> None:
        """Notes events; for observations."""
        paid_for = set()
        for event in events:
            key = (event.transaction_hash, event.log_index)
            if key in self._events:
                continue
            self._events[key] = event
            if event.act is VaultAct.PAID:
                paid_for.add(event.message_id)
                self._counts[key] = event.covers
                self._open.add(key)
                self._spending.add(_keys(event), -event.covers)
                continue
            for other in self._open:
                known = self._events[other]
                if _account(known) == _account(event) and known.refundable_at > event.refundable_at:
                    self._events[other] = replace(known, refundable_at=event.refundable_at)
        if events:
            self.expire(now)
        self._resume(paid_for, now)

    def rewind(self, chain_id: int, last_good: int) -> None:
        """Takes back what fell; for observations."""
        for key, event in list(self._events.items()):
            if event.source_chain == chain_id and event.block_number > last_good:
                if event.act is VaultAct.PAID:
                    self._spending.add(_keys(event), self._counts[key])
                del self._events[key]
                self._open.discard(key)

    def expire(self, now: float) -> int:
        due = [key for key in self._events if key in self._open and self._events[key].refundable_at <= now + MARGIN]
        for key in due:
            event = self._events[key]
            unspent = min(self._counts[key], max(0, -self._balance(event)))
            self._counts[key] -= unspent
            self._open.discard(key)
            self._spending.add(_keys(event), unspent)
        return len(due)

    def accounts(self, message_id: bytes | None = None, *, source_chain: int | None = None) -> list[Account]:
        groups: defaultdict[tuple[bytes, int, str, int], list[tuple[bytes, int]]] = defaultdict(list)
        for key, event in self._events.items():
            if message_id in (None, event.message_id) and source_chain in (None, event.source_chain):
                groups[*_account(event), event.source_chain].append(key)
        found = []
        for (of, gmp, payer, source), keys in groups.items():
            events = [self._events[key] for key in keys]
            sums = {act: sum(event.wei // GWEI for event in events if event.act is act) for act in VaultAct}
            to = max(event.destination_chain for event in events)
            same = [key for key, event in self._events.items() if (event.message_id, event.gmp) == (of, gmp)]
            covers = sum(self._counts.get(key, 0) for key in same)
            last = balance_keys(to, of, gmp)[-1]
            balance = self._spending.totals([last]).get(last, NOTHING).gwei
            account = Account(
                message_id=of,
                gmp=gmp,
                payer=payer,
                source_chain=source,
                destination_chain=to,
                paid=sums[VaultAct.PAID],
                earned=sums[VaultAct.EARNED],
                refunded=sums[VaultAct.REFUNDED],
                covers=sum(self._counts.get(key, 0) for key in keys),
                spent=balance + covers,
            )
            found.append((min(event.refundable_at for event in events), of, gmp, payer, account))
        return [account for *_, account in sorted(found, key=lambda one: one[:4])]

    def economies(self) -> Sequence[Economy]:
        brought: defaultdict[_Place, list[int]] = defaultdict(lambda: [0, 0, 0])
        for account in self.accounts():
            sums = brought[account.source_chain, account.destination_chain, account.gmp]
            for index, gwei in enumerate((account.paid, account.earned, account.refunded)):
                sums[index] += gwei * GWEI
        spent: defaultdict[_Place, defaultdict[tuple[int, str], int]] = defaultdict(lambda: defaultdict(int))
        for who, chain_id, gwei in self._spending.costs():
            if who is not None:
                place = (who.lane.source_chain, who.lane.destination_chain, who.gmp)
                spent[place][chain_id, who.payer] += gwei * GWEI
        places = sorted(brought.keys() | spent.keys(), key=lambda one: (*one[:2], -1 if one[2] is None else one[2]))
        found = []
        for place in places:
            paid, earned, refunded = brought[place]
            found.append(Economy(Lane(*place[:2]), place[2], paid, earned, refunded, dict(spent[place])))
        return found

    def _balance(self, event: VaultEvent) -> int:
        last = _keys(event)[-1]
        return self._spending.totals([last]).get(last, NOTHING).gwei

    def _resume(self, message_ids: set[bytes], now: float) -> None:
        for message_id in message_ids:
            unpaid = {
                blocked.subject for blocked in self._spending.blocked(message_id) if blocked.bound is Bound.PAYMENT
            }
            for entry in self._outbox.entries(message_id):
                if entry.event_id in unpaid and entry.state is OutboxState.PENDING:
                    self._outbox.put(replace(entry, available_at=now))
            for job in self._jobs.of_message(ExecutionJob, message_id):
                if job.state is ExecutionState.BLOCKED and job.finished_at is None:
                    self._jobs.put(replace(job, available_at=now))


def _account(event: VaultEvent) -> tuple[bytes, int, str]:
    return event.message_id, event.gmp, event.payer


def _keys(event: VaultEvent) -> tuple[TotalKey, ...]:
    return balance_keys(event.destination_chain, event.message_id, event.gmp)
