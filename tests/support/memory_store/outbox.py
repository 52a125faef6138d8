"""The outbox in memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from bridge.domain.failures import CONFIRMATION, Failure, RecordedFailure
from bridge.domain.figures import Counted, latency_place
from bridge.domain.jobs import ExecutionJob
from bridge.domain.observations import BlockRef
from bridge.domain.outbox import (
    STUCK_AFTER,
    Claim,
    Delivered,
    LiveTrafficQuota,
    ObservedDelivery,
    OutboxEntry,
    OutboxState,
    Outcome,
    Postponed,
    QueueCount,
    apply_outcome,
    lease_expired,
    shared_out,
)
from bridge.domain.relay_policy import EVERYTHING, RelayPolicy
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import decode_envelope
from tests.support.memory_store.counters import MemoryCounters
from tests.support.memory_store.jobs import MemoryJobs
from tests.support.memory_store.lanes import MemoryLanes
from tests.support.memory_store.spending import MemorySpending


def is_claimable(entry: OutboxEntry, now: float) -> bool:
    """Whether a worker may take it now."""
    return entry.state is OutboxState.PENDING and entry.available_at <= now and entry.orphaned_at is None


def queue_of(entry: OutboxEntry) -> tuple[int, int, int]:
    """The labels that an entry is counted by."""
    return (entry.lane.source_chain, entry.lane.destination_chain, int(entry.dispatch.gmp))


class MemoryOutbox:
    """See `bridge.domain.outbox.Outbox`."""

    def __init__(
        self, lanes: MemoryLanes, jobs: MemoryJobs, spending: MemorySpending, counters: MemoryCounters
    ) -> None:
        self._counters = counters
        self._lanes = lanes
        self._jobs = jobs
        self._spending = spending
        self._entries: dict[str, OutboxEntry] = {}  # in the order of their creation
        self._failures: defaultdict[str, list[RecordedFailure]] = defaultdict(list)

    def claim(
        self,
        *,
        worker: str,
        destination_chain: int,
        gmps: Collection[Gmp],
        accepts: RelayPolicy = EVERYTHING,
        limit: int,
        now: float,
        lease: float,
        in_order: bool = False,
        fresh: LiveTrafficQuota | None = None,
    ) -> list[OutboxEntry]:
        here = [entry for entry in self._entries.values() if entry.dispatch.destination_chain == destination_chain]
        for entry in here:
            if entry.state is OutboxState.CLAIMED and entry.lease_until is not None and entry.lease_until <= now:
                self._finish(entry, lease_expired(entry, now), now)
        held = {change.lane for change in self._lanes.held()}
        due = [
            entry
            for entry in (self._entries[entry.event_id] for entry in here)
            if is_claimable(entry, now)
            and entry.dispatch.gmp in gmps
            and entry.lane not in held
            and accepts.allows(decode_envelope(entry.dispatch.envelope).message)
        ]
        if in_order:
            first = self._first_unfinished()
            due = [entry for entry in due if first[entry.ordering_key] == entry.event_id]
        due.sort(key=lambda entry: entry.available_at)
        new = [] if fresh is None else [entry for entry in due if entry.is_fresh(fresh.since)][: fresh.places]
        claimed = [entry.claimed(worker, now, lease) for entry in shared_out(due, new, limit)]
        for entry in claimed:
            self._entries[entry.event_id] = entry
        return claimed

    def renew(self, claims: Collection[Claim], now: float, lease: float) -> set[Claim]:
        lost = set()
        for claim in claims:
            entry = self._entries.get(claim.event_id)
            if entry is None or not entry.is_claimed_by(claim):
                lost.add(claim)
            else:
                self._entries[claim.event_id] = replace(entry, lease_until=now + lease)
        return lost

    def finish(self, outcomes: Sequence[Outcome], now: float) -> set[Claim]:
        lost = set()
        for outcome in outcomes:
            entry = self._entries.get(outcome.claim.event_id)
            if entry is None or not entry.is_claimed_by(outcome.claim):
                lost.add(outcome.claim)
            else:
                self._finish(entry, outcome, now)
        return lost

    def replay(self, event_id: str, reason: str, now: float) -> OutboxEntry:
        entry = self._entries[event_id].replayed(reason, now)
        self._entries[event_id] = entry
        return entry

    def reopen(self, event_id: str, failure: Failure, now: float) -> OutboxEntry:
        entry = self._entries[event_id].reopened(failure, now)
        self._entries[event_id] = entry
        history = self._failures[event_id]
        history.append(RecordedFailure(len(history) + 1, CONFIRMATION, failure))
        self._count_failure(entry, failure)
        return entry

    def unconfirmed(self, destination_chain: int) -> dict[BlockRef, list[str]]:
        by_block: defaultdict[BlockRef, list[str]] = defaultdict(list)
        for entry in self._entries.values():
            is_delivered = entry.state is OutboxState.DELIVERED and entry.confirmed_at is None
            if entry.dispatch.destination_chain == destination_chain and is_delivered and entry.delivery is not None:
                by_block[entry.delivery.block].append(entry.event_id)
        return {block: by_block[block] for block in sorted(by_block, key=lambda block: block.number)}

    def confirm(self, event_ids: Collection[str], now: float) -> None:
        self._change_delivered(event_ids, lambda entry: replace(entry, confirmed_at=now))

    def repin(self, event_id: str, delivery: ObservedDelivery) -> None:
        self._change_delivered([event_id], lambda entry: replace(entry, delivery=delivery))

    def forget(self, before: float, limit: int) -> int:
        final = [
            entry
            for entry in self._entries.values()
            if entry.state is OutboxState.DELIVERED and entry.confirmed_at is not None and entry.confirmed_at < before
        ]
        oldest = sorted(final, key=lambda entry: entry.confirmed_at or 0)[:limit]
        for entry in oldest:
            del self._entries[entry.event_id]
            self._failures.pop(entry.event_id, None)
        self._jobs.delete(ExecutionJob, {entry.dispatch.message_id for entry in oldest}, finished=True)
        return len(oldest)

    def seen(self) -> int:
        return len({entry.dispatch.message_id for entry in self._entries.values()})

    def entry(self, event_id: str) -> OutboxEntry | None:
        return self._entries.get(event_id)

    def entries(self, message_id: bytes) -> list[OutboxEntry]:
        found = [entry for entry in self._entries.values() if entry.dispatch.message_id == message_id]
        return sorted(found, key=lambda entry: (entry.attempt_number, entry.dispatch.gmp))

    def under_way(self, destination_chain: int, gmp: Gmp) -> list[OutboxEntry]:
        open_states = (OutboxState.PENDING, OutboxState.CLAIMED)
        there = (destination_chain, gmp)
        return [
            entry
            for entry in self._entries.values()
            if (entry.dispatch.destination_chain, entry.dispatch.gmp) == there and entry.state in open_states
        ]

    def listed(
        self, *, state: OutboxState | None = None, since: float = 0, until: float | None = None, limit: int = 100
    ) -> list[OutboxEntry]:
        found = [
            entry
            for entry in reversed(self._entries.values())
            if entry.created_at >= since
            and (until is None or entry.created_at <= until)
            and (state is None or entry.state is state)
        ]
        return sorted(found, key=lambda entry: -entry.created_at)[:limit]

    def failures(self, event_id: str) -> list[RecordedFailure]:
        return list(self._failures[event_id])

    def dead_letters(self) -> dict[str, bool]:
        last = {key: self._failures[key][-1] for key in self._failures if self._failures[key]}
        return {
            key: recorded.failure.letter
            for key, recorded in last.items()
            if recorded.failure.letter is not None and self._entries[key].state is OutboxState.DEAD
        }

    def counts(self) -> list[QueueCount]:
        groups = defaultdict(list)
        for entry in self._entries.values():
            dispatch = entry.dispatch
            groups[dispatch.source_chain, dispatch.destination_chain, dispatch.gmp, entry.state].append(entry)
        return [
            QueueCount(
                source_chain=source,
                destination_chain=destination,
                gmp=gmp,
                state=state,
                count=len(group),
                failing=Counter(entry.failed_tries > 0 for entry in group)[True],
                stuck=Counter(entry.setbacks >= STUCK_AFTER and entry.confirmed_at is None for entry in group)[True],
                oldest=min(entry.created_at for entry in group),
            )
            for (source, destination, gmp, state), group in sorted(groups.items())
        ]

    def all(self) -> Iterable[OutboxEntry]:
        """Every entry; for the figures, which count these."""
        return self._entries.values()

    def new(self, entry: OutboxEntry) -> None:
        """Adds an entry; for the observations."""
        self._entries[entry.event_id] = entry
        self._counters.add({(Counted.OBSERVED, queue_of(entry)): 1})

    def put(self, entry: OutboxEntry) -> None:
        """Writes an entry as it is; for the observations, which share these entries."""
        self._entries[entry.event_id] = entry

    def fallen(self, source_chain: int, last_good: int) -> list[OutboxEntry]:
        """Entries whose dispatch is above a block; for the observations."""
        return [
            entry
            for entry in self._entries.values()
            if entry.dispatch.source_chain == source_chain and entry.dispatch.block_number > last_good
        ]

    def unconfirm(self, destination_chain: int, last_good: int) -> int:
        """Takes back the finality of deliveries above a block; for the observations."""
        undone = [
            entry
            for entry in self._entries.values()
            if entry.dispatch.destination_chain == destination_chain
            and entry.delivery is not None
            and entry.delivery.block.number > last_good
            and entry.confirmed_at is not None
        ]
        for entry in undone:
            self._entries[entry.event_id] = replace(entry, confirmed_at=None)
        return len(undone)

    def drop(self, event_id: str) -> None:
        """Forgets an entry; for the observations."""
        del self._entries[event_id]

    def _first_unfinished(self) -> dict[str, str]:
        """By ordering key: the entry that all others of it wait for."""
        first: dict[str, str] = {}
        for entry in self._entries.values():
            unfinished = entry.state in (OutboxState.PENDING, OutboxState.CLAIMED) and entry.orphaned_at is None
            if unfinished and not self._spending.is_blocked(entry.event_id):
                first.setdefault(entry.ordering_key, entry.event_id)
        return first

    def _finish(self, entry: OutboxEntry, outcome: Outcome, now: float) -> None:
        self._entries[entry.event_id] = apply_outcome(entry, outcome, now)
        if isinstance(outcome, Delivered):
            took, queue = now - entry.created_at, queue_of(entry)
            self._counters.add(
                {(Counted.DELIVERED, (*queue, latency_place(took))): 1, (Counted.DELIVERY_SECONDS, queue): took}
            )
            message_id = entry.dispatch.message_id
            if outcome.executed:
                self._jobs.executed(message_id, now)
            else:
                self._jobs.delivered(message_id, entry.lane, now)
        else:
            if isinstance(outcome, Postponed):
                return
            history = self._failures[entry.event_id]
            history.append(RecordedFailure(len(history) + 1, outcome.claim.worker, outcome.failure))
            self._count_failure(entry, outcome.failure)

    def _count_failure(self, entry: OutboxEntry, failure: Failure) -> None:
        queue = queue_of(entry)
        again = int(failure.letter is None)
        self._counters.add(
            {(Counted.FAILED, (*queue, failure.kind.value, failure.code)): 1, (Counted.TRIED_AGAIN, queue): again}
        )

    def _change_delivered(self, event_ids: Collection[str], change: Callable[[OutboxEntry], OutboxEntry]) -> None:
        for event_id in event_ids:
            entry = self._entries.get(event_id)
            if entry is not None and entry.state is OutboxState.DELIVERED:
                self._entries[event_id] = change(entry)
