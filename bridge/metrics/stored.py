"""Metrics that are read from the relayer's store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from bridge.evm.ttl_cache import Cached
from bridge.metrics.samples import Samples
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.records.figures import LATENCY_BOUNDS, Counted, SlotSum
from bridge.records.jobs import UNRESOLVED, RetryJob, SyncJob, totals
from bridge.records.outbox import OutboxState, QueueCount
from bridge.records.spending import SpendBounds
from bridge.records.transactions import OPEN_STATES
from bridge.relayer.breaker import BREAKER, BreakerState, breakers
from bridge.service.settings import Settings
from bridge.store import Store
from bridge.store.accusations import Accusations
from bridge.store.counters import Counters
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.figures import Figures
from bridge.store.finality_records import FinalityRecords
from bridge.store.jobs import Jobs
from bridge.store.spending import Spending
from bridge.store.streams import Streams

_UNACKNOWLEDGED: Final = (OutboxState.PENDING, OutboxState.CLAIMED)
_BLOCKED_SECONDS: Final = 900.0  # blocked deliveries are checked more often, so an older record has ended
_OPENNESS: Final = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}


class _Names:
    """Formats chains as label values."""

    def __init__(self, deployment: Deployment) -> None:
        self._names = {chain.chain_id: chain.name for chain in deployment.chains}

    def chain(self, chain_id: int) -> str:
        return self._names.get(chain_id, str(chain_id))

    def lane(self, source: int, destination: int) -> dict[str, str]:
        return {"source": self.chain(source), "destination": self.chain(destination)}

    def queue(self, source: int, destination: int, gmp: int) -> dict[str, str]:
        return {**self.lane(source, destination), "gmp": Gmp(gmp).label}


def add_stored(
    samples: Samples, store: Store, deployment: Deployment, settings: Settings, now: float, *, seen: Cached[int]
) -> Mapping[int, frozenset[str]]:
    """Adds the store's metrics, and returns the accounts that have sent on each chain, by chain id.

    Args:
        samples: the samples to extend.
        store: the relayer's store.
        deployment: the network.
        settings: the relayer's settings.
        now: Unix seconds.
        seen: the number of messages in the deduplication window.
    """
    names, figures = _Names(deployment), store.figures
    _add_outbox(samples, names, store.outbox.counts(), now)
    _add_accusations(samples, names, store.accusations, deployment)
    counted = seen.look()
    assert counted is not None  # `look` without patience waits
    samples.add("waybill_dedup_messages", counted.value)
    samples.add("waybill_dedup_capacity_messages", settings.reliability.dedup_capacity)
    _add_deliveries(samples, names, store.counters)
    _add_counters(samples, store.counters, deployment)
    slots = figures.slots()
    _add_nonces(samples, names, slots, now)
    _add_spending(samples, names, store.spending, settings.bounds(deployment), now)
    _add_breakers(samples, names, figures, now)
    for change in store.lanes.held():
        lane = names.lane(change.lane.source_chain, change.lane.destination_chain)
        samples.add("waybill_lane_held", 1, **lane, state=change.state.value)
    _add_state_changes(samples, names, store.finality_records, store.jobs, now)
    for state, count in totals(store.jobs.counts(RetryJob)).items():
        samples.add("waybill_retry_requests", count, state=state)
    accounts: defaultdict[int, set[str]] = defaultdict(set)
    for slot in slots:
        accounts[slot.chain_id].add(slot.account)
    return {chain_id: frozenset(found) for chain_id, found in accounts.items()}


def add_letters(samples: Samples, log: DeadLetterLog, deployment: Deployment) -> None:
    """Adds the metrics of the dead-letter log, which may be in a different database from the store."""
    names = _Names(deployment)
    for waiting in log.waiting():
        lane = names.lane(waiting.source_chain, waiting.destination_chain)
        samples.add("waybill_dead_letters", waiting.count, **lane, gmp=waiting.gmp)
        samples.add("waybill_dead_letters_entered_total", waiting.entered, **lane, gmp=waiting.gmp)


def add_streams(samples: Samples, streams: Streams, now: float) -> None:
    """Adds the numbers of waiting and published records. Adds nothing if no relayer has ever recorded streams."""
    found = streams.status()
    if not (found.recording or found.waiting or any(found.sent.values())):
        return
    samples.add("waybill_stream_waiting_records", found.waiting)
    samples.add("waybill_stream_oldest_seconds", 0.0 if found.oldest is None else max(0.0, now - found.oldest))
    samples.add("waybill_stream_halted", float(bool(found.halted)))
    for stream, count in found.sent.items():
        samples.add("waybill_stream_records_total", count, stream=stream)


def _add_spending(samples: Samples, names: _Names, spending: Spending, bounds: SpendBounds, now: float) -> None:
    for (spent_on, chain_id), wei in spending.lanes(now).items():
        lane = names.lane(spent_on.source_chain, spent_on.destination_chain)
        samples.add("waybill_spend_reserved_wei", wei, chain=names.chain(chain_id), **lane)
        limit = bounds.lane
        if limit is not None:
            samples.add("waybill_spend_limit_wei", limit, chain=names.chain(chain_id), **lane)
    waiting = Counter((one.lane, one.bound) for one in spending.blocked(since=now - _BLOCKED_SECONDS))
    for (blocked_lane, bound), count in sorted(waiting.items()):
        lane = names.lane(blocked_lane.source_chain, blocked_lane.destination_chain)
        samples.add("waybill_spend_blocked", count, **lane, bound=bound.value)


def _add_state_changes(samples: Samples, names: _Names, records: FinalityRecords, jobs: Jobs, now: float) -> None:
    for lane, progress in records.progress(now).items():
        ends = names.lane(lane.source_chain, lane.destination_chain)
        samples.add("waybill_sync_lag_seconds", progress.lag_seconds, **ends)
    for lane, counts in jobs.counts(SyncJob).items():
        for state in sorted(UNRESOLVED):
            ends = names.lane(lane.source_chain, lane.destination_chain)
            samples.add("waybill_sync_messages", counts.get(state, 0), **ends, state=state.value)


def _add_accusations(samples: Samples, names: _Names, stored: Accusations, deployment: Deployment) -> None:
    looked_at, accusations = stored.looked_at(), stored.all()
    if looked_at is not None:
        samples.add("waybill_tripwire_look_timestamp_seconds", looked_at)
    for chain in deployment.chains:
        here = [one for one in accusations if one.chain_id == chain.chain_id]
        samples.add("waybill_tripwire_accusations", len(here), chain=names.chain(chain.chain_id))


def _add_outbox(samples: Samples, names: _Names, counts: Iterable[QueueCount], now: float) -> None:
    queues: defaultdict[tuple[int, int, str], list[QueueCount]] = defaultdict(list)
    for count in counts:
        queues[count.source_chain, count.destination_chain, count.gmp.label].append(count)
    for (source, destination, gmp), found in queues.items():
        labels = {**names.lane(source, destination), "gmp": gmp}
        by_state = {count.state: count for count in found}
        for state in OutboxState:
            number = by_state[state].count if state in by_state else 0
            samples.add("waybill_outbox_entries", number, **labels, state=state.value)
        waiting = [count for count in found if count.state in _UNACKNOWLEDGED]
        samples.add("waybill_lag_messages", sum(count.count for count in waiting), **labels)
        alive = (count.stuck for count in found if count.state is not OutboxState.DEAD)
        samples.add("waybill_outbox_stuck_entries", sum(alive), **labels)
        if waiting:
            oldest = min(count.oldest for count in waiting)
            samples.add("waybill_outbox_oldest_seconds", max(0.0, now - oldest), **labels)


def _add_deliveries(samples: Samples, names: _Names, counters: Counters) -> None:
    for queue, count in counters.counted(Counted.OBSERVED).items():
        samples.add("waybill_observed_total", count, **names.queue(*queue))
    seconds, delivered = counters.counted(Counted.DELIVERY_SECONDS), counters.counted(Counted.DELIVERED)
    for queue in sorted({labels[:3] for labels in delivered}):
        places = range(len(LATENCY_BOUNDS) + 1)
        *within, count = accumulate(int(delivered.get((*queue, place), 0)) for place in places)
        samples.add("waybill_deliveries_total", count, **names.queue(*queue))
        samples.add_histogram(
            "waybill_delivery_seconds", LATENCY_BOUNDS, within, seconds.get(queue, 0.0), count, **names.queue(*queue)
        )
    for queue, count in counters.counted(Counted.TRIED_AGAIN).items():
        samples.add("waybill_delivery_retries_total", count, **names.queue(*queue))
    for (source, destination, gmp, kind, code), count in counters.counted(Counted.FAILED).items():
        labels = names.queue(source, destination, gmp)
        samples.add("waybill_delivery_failures_total", count, **labels, kind=kind, code=code)


def _add_counters(samples: Samples, counters: Counters, deployment: Deployment) -> None:
    commits = counters.counted(Counted.COMMIT)
    for chain in deployment.chains:
        for result in ("success", "failure"):
            count = commits.get((chain.chain_id, result), 0)
            samples.add("waybill_commits_total", count, destination=chain.name, result=result)
    unrecognised = counters.counted(Counted.UNRECOGNISED)
    for chain in deployment.chains:
        samples.add("waybill_unrecognised_dispatches_total", unrecognised.get((chain.chain_id,), 0), chain=chain.name)


def _add_nonces(samples: Samples, names: _Names, slots: Iterable[SlotSum], now: float) -> None:
    oldest: dict[tuple[int, str], float] = {}
    for slot in slots:
        if slot.state in OPEN_STATES:
            key = (slot.chain_id, slot.account)
            oldest[key] = min(slot.oldest, oldest.get(key, slot.oldest))
    for (chain_id, account), since in oldest.items():
        age = max(0.0, now - since)
        samples.add("waybill_nonce_oldest_open_seconds", age, chain=names.chain(chain_id), account=account)


def _add_breakers(samples: Samples, names: _Names, figures: Figures, now: float) -> None:
    found = breakers(figures.recent(now - BREAKER.memory))
    for (gmp, destination), breaker in found.items():
        labels = {"gmp": gmp.label, "destination": names.chain(destination)}
        samples.add("waybill_breaker_open", _OPENNESS[breaker.state(now)], **labels)
