"""A year of traffic: with retention, neither tables nor the cost of queries grow after the first month."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, func, select

from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Fees
from bridge.records.jobs import ExecutionJob
from bridge.records.observations import BlockRef
from bridge.records.outbox import Delivered, ObservedDelivery
from bridge.records.spending import SpendBounds, SpentFor
from bridge.records.transactions import Inclusion, SignedVersion, SlotRequest, SpendCheck
from bridge.store import Store
from bridge.store.tables import METADATA, messages
from tests.builders import ALPHA, BETA, message, observed_range, word
from tests.support.simulation import RELAYER
from tests.support.stores import memory_store

DAY = 86_400.0
A_DAY = 120  # messages; one a minute, 1,440 a day, takes most of an hour and leaves twelve times the rows
RETENTION = 30  # days
YEAR = 365  # days
BEGIN = 1_700_000_000.0
AT_ONCE = 200  # rows deleted at once, as the relayer does

# One short row for each message: the completeness check counts them, and a retry needs to know of its first attempt.
# The cursor's former places have a limit of their own.
KEPT = {"messages", "attempts", "cursor_ancestors"}

GROWING = (
    "outbox",
    "outbox_failures",
    "messages",
    "attempts",
    "slots",
    "signed_versions",
    "spending",
    "spending_totals",
    "jobs",
)


def height(day: int) -> BlockRef:
    return BlockRef(10 * (day + 1), word(f"block of day {day}"))


def live(store: Store, day: int, count: int) -> None:
    """A day of messages: observed, claimed, sent, included, delivered and final."""
    now = BEGIN + day * DAY
    sent = [message(day * count + number + 1) for number in range(count)]
    previous = height(day - 1) if day else None
    store.observations.record(observed_range(*sent, previous=previous, position=height(day), now=now))
    claimed = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=count, now=now + 1, lease=60)
    assert len(claimed) == count
    call = Call(to=RELAYER.address, data=bytes(400), gas=200_000)
    spent = {one.id: SpentFor.of(one) for one in sent}
    requests = [
        SlotRequest(one.event_id, call, one.current_claim, spent_for=spent[one.dispatch.message_id]) for one in claimed
    ]
    given = store.transactions.reserve(
        BETA, RELAYER.address, requests, first_nonce=0, now=now + 2, check=SpendCheck(10, SpendBounds())
    )
    slots = [slot for slot in given if slot is not None]
    versions = [
        SignedVersion(hash=word(one.event_id), raw=bytes(600), fees=Fees(10, 1), signed_at=now + 2, is_noop=False)
        for one in claimed
    ]
    store.transactions.sign_all([(slot.slot_id, one) for slot, one in zip(slots, versions, strict=True)])
    store.transactions.broadcast([slot.slot_id for slot in slots], now + 3)
    places = [Inclusion(one.hash, height(day), succeeded=True, gas_used=100_000) for one in versions]
    store.transactions.include([(slot.slot_id, one) for slot, one in zip(slots, places, strict=True)])
    store.transactions.finalise([slot.slot_id for slot in slots])
    ends = [
        Delivered(one.current_claim, ObservedDelivery(height(day), place.transaction_hash), executed=True)
        for one, place in zip(claimed, places, strict=True)
    ]
    assert store.outbox.finish(ends, now + 4) == set()
    store.outbox.confirm([one.event_id for one in claimed], now + 5)


def forget(store: Store, day: int) -> None:
    """What the relayer's retention does."""
    before = BEGIN + (day - RETENTION) * DAY
    for step in (
        store.outbox.forget,
        store.transactions.forget,
        store.jobs.forget_retries,
        store.observations.forget_envelopes,
    ):
        while step(before, AT_ONCE) == AT_ONCE:
            pass
    store.spending.forget(before)


def rows_of(store: Store) -> dict[str, int]:
    counts = {
        table.name: int(store._database.scalar(select(func.count()).select_from(table)))
        for table in METADATA.sorted_tables
        if table.name not in KEPT
    }
    with_payload = select(func.count()).select_from(messages).where(messages.c.envelope.is_not(None))
    return counts | {"messages with their payload": int(store._database.scalar(with_payload))}


@contextmanager
def plans(store: Store) -> Iterator[list[str]]:
    """The plans of all queries meanwhile: what each of them scans instead of searching."""
    scanned = list[str]()
    engine = store._database.engine

    def explain(connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, is_many: bool) -> None:
        if is_many or not statement.startswith(("SELECT", "UPDATE", "DELETE")):
            return
        plan = connection.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
        steps = [str(row[3]) for row in plan]
        scanned.extend(f"{step}: {statement}" for step in steps if step in {f"SCAN {name}" for name in GROWING})

    event.listen(engine, "before_cursor_execute", explain)
    try:
        yield scanned
    finally:
        event.remove(engine, "before_cursor_execute", explain)


def hot_queries(store: Store, day: int) -> None:
    """What the relayer asks all the time."""
    now = BEGIN + day * DAY
    store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=100, now=now, lease=60)
    store.outbox.unconfirmed(BETA)
    store.outbox.failing(ALPHA, BETA)
    store.jobs.due(ExecutionJob, now, 100)
    store.transactions.open_slots(BETA, RELAYER.address)
    store.transactions.has_unsettled(BETA, RELAYER.address)
    store.transactions.included_slots(BETA, RELAYER.address)
    store.observations.cursor(ALPHA)
    store.observations.created_on(ALPHA, BETA)
    store.observations.ancestors(ALPHA)
    store.figures.recent(now - 600)
    store.spending.blocked(since=now)


@pytest.mark.long
def test_year_of_traffic_leaves_a_store_of_one_size() -> None:
    store, days = memory_store(), random.Random(41).sample(range(RETENTION + 2, YEAR), 3)
    settled: dict[str, int] | None = None
    for day in range(YEAR):
        live(store, day, A_DAY)
        forget(store, day)
        if day == RETENTION + 1:
            settled = rows_of(store)
        if day in days or day == YEAR - 1:
            assert rows_of(store) == settled, f"on day {day}"
    assert settled is not None
    assert settled["outbox"] <= (RETENTION + 2) * A_DAY
    assert settled["messages with their payload"] <= (RETENTION + 2) * A_DAY
    with plans(store) as scanned:
        hot_queries(store, YEAR)
        forget(store, YEAR - RETENTION)
    assert scanned == []
