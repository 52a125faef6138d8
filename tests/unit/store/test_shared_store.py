"""Workers that share one database: nobody waits without need, nothing is given out twice, a dead worker's work goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TypeVar

import pytest
from sqlalchemy import text

from bridge.protocol.errors import CursorMovedError, StoreBusyError
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call
from bridge.records.jobs import RetryJob
from bridge.records.outbox import Claim, Delivered, ObservedDelivery, OutboxEntry, OutboxState
from bridge.records.transactions import SlotRequest
from bridge.store import Store
from bridge.store.outbox import _ENTRIES
from bridge.store.tables import outbox
from tests.builders import ALPHA, BETA, block, message, observed_range, retry_request, word
from tests.postgresql import Server, running_postgresql
from tests.waiting import PATIENCE, eventually

WORKERS = 4
MESSAGES = 60

_Result = TypeVar("_Result")


@pytest.fixture
def stores(url: str) -> Iterator[list[Store]]:
    """As many connections to one database as there are workers, opened at the same moment."""
    with ThreadPoolExecutor(WORKERS) as threads:
        opened = list(threads.map(lambda _: Store(url), range(WORKERS)))
    yield opened
    for store in opened:
        store.close()


def at_once(stores: list[Store], work: Callable[[Store, str], _Result]) -> list[_Result]:
    """What each worker gets when all do it at the same moment."""
    line = threading.Barrier(len(stores))

    def one(numbered: tuple[int, Store]) -> _Result:
        line.wait()
        return work(numbered[1], f"worker {numbered[0]}")

    with ThreadPoolExecutor(len(stores)) as threads:
        return list(threads.map(one, enumerate(stores)))


def claim(store: Store, worker: str, *, limit: int = 5, now: float = 200, lease: float = 30) -> list[OutboxEntry]:
    return store.outbox.claim(worker=worker, destination_chain=BETA, gmps=set(Gmp), limit=limit, now=now, lease=lease)


def finish(store: Store, entries: list[OutboxEntry], now: float = 201) -> set[Claim]:
    delivery = ObservedDelivery(block(5, "beta"), word("tx"))
    return store.outbox.finish([Delivered(entry.current_claim, delivery) for entry in entries], now)


def test_concurrent_claims_share_the_entries(stores: list[Store]) -> None:
    stores[0].observations.record(observed_range(*(message(nonce) for nonce in range(1, MESSAGES + 1))))

    def work(store: Store, worker: str) -> list[str]:
        done: list[str] = []
        while claimed := claim(store, worker):
            assert finish(store, claimed) == set()
            done += (entry.event_id for entry in claimed)
        return done

    shares = at_once(stores, work)
    together = [event_id for share in shares for event_id in share]
    # A worker may end early, when the others hold all that is left; no entry is given out twice, none is left.
    assert sorted(together) == sorted({entry.event_id for entry in stores[0].outbox.listed(limit=999)})
    assert {entry.state for entry in stores[0].outbox.listed(limit=999)} == {OutboxState.DELIVERED}
    assert {entry.fence for entry in stores[0].outbox.listed(limit=999)} == {1}


def test_nonces_given_out_at_once_are_unique_and_without_a_gap(stores: list[Store]) -> None:
    def work(store: Store, worker: str) -> list[int]:
        nonces = []
        for number in range(5):
            requests = [SlotRequest(f"{worker} {number} {part}", Call(to="0x1", data=b"", gas=1)) for part in range(3)]
            given = store.transactions.reserve(BETA, "0xabc", requests, first_nonce=7, now=1)
            nonces += [slot.nonce for slot in given if slot is not None]
        return nonces

    nonces = [nonce for share in at_once(stores, work) for nonce in share]
    assert sorted(nonces) == list(range(7, 7 + WORKERS * 15))


def test_one_purpose_asked_for_by_all_at_once_gets_one_nonce(stores: list[Store]) -> None:
    request = SlotRequest("the same", Call(to="0x1", data=b"", gas=1))
    given = at_once(
        stores, lambda store, _: store.transactions.reserve(BETA, "0xabc", [request], first_nonce=0, now=1)[0]
    )
    assert {slot.nonce for slot in given if slot is not None} == {0}


def test_of_many_observers_of_a_range_one_records_it(stores: list[Store]) -> None:
    def work(store: Store, _worker: str) -> int:
        try:
            return len(store.observations.record(observed_range(message(1), message(2))))
        except CursorMovedError:
            return 0

    assert sorted(at_once(stores, work)) == [0] * (WORKERS - 1) + [2]
    at_once(stores, lambda store, _: store.observations.identify(ALPHA, word("genesis")))


def test_of_many_recoveries_of_a_message_one_sends_its_retry(stores: list[Store]) -> None:
    request = retry_request()
    assert sorted(at_once(stores, lambda store, _: store.jobs.copy_requests([request], 1, 10))) == [0] * (
        WORKERS - 1
    ) + [1]
    job = RetryJob.of(request, 10).start(frozenset({Gmp.AXELAR}))
    saved = at_once(stores, lambda store, _: store.jobs.save(job, fence=0))
    assert sorted(saved) == [False] * (WORKERS - 1) + [True]


def test_locked_entries_are_skipped(postgresql: Server) -> None:
    url = postgresql.new_url()
    store, other = Store(url), Store(url)
    store.observations.record(observed_range(message(1), message(2)))
    first = _ENTRIES.order_by(outbox.c.sequence).limit(1).with_for_update(of=outbox)
    with other._database.transaction() as connection:
        held = connection.execute(first).mappings().one()["event_id"]
        claimed = claim(store, "not waiting")
    assert [entry.event_id for entry in claimed] != []
    assert held not in {entry.event_id for entry in claimed}
    store.close()
    other.close()


def test_end_of_a_locked_entry_waits(postgresql: Server) -> None:
    url = postgresql.new_url()
    store, other = Store(url), Store(url)
    store.observations.record(observed_range(message(1)))
    claimed = claim(store, "w")
    with ThreadPoolExecutor(1) as thread:
        with other._database.transaction() as connection:
            connection.execute(_ENTRIES.with_for_update(of=outbox)).all()
            lost = thread.submit(finish, store, claimed)
            locks = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            eventually(lambda: connection.execute(locks).scalar(), "it waits for the lock")
            assert not lost.done()
        assert lost.result(PATIENCE) == set()
    store.close()
    other.close()


def test_workers_continue_after_a_server_crash() -> None:
    with running_postgresql(durable=True) as server:
        url = server.new_url()
        stores = [Store(url) for _ in range(WORKERS)]
        total = 1_000
        stores[0].observations.record(observed_range(*(message(nonce) for nonce in range(1, total + 1))))
        clock, troubles = count(1_000), set[str]()
        is_over = threading.Event()

        def work(store: Store, worker: str) -> None:
            held: list[OutboxEntry] = []
            while not is_over.is_set():
                try:
                    held = held or claim(store, worker, limit=2, now=next(clock), lease=40)
                    finish(store, held, now=next(clock))
                    held = []
                except StoreBusyError:
                    troubles.add(worker)
                    is_over.wait(0.05)

        threads = [threading.Thread(target=work, args=(store, f"w{n}")) for n, store in enumerate(stores)]
        for thread in threads:
            thread.start()
        try:
            for how, share in ((signal.SIGQUIT, 0.1), (signal.SIGINT, 0.5)):
                eventually(partial(_have_delivered, stores[0], share * total))
                server.stop(how)
                troubles.clear()
                eventually(lambda: len(troubles) == WORKERS, "every worker notices that the server is gone")
                server.start()
            eventually(lambda: _delivered(stores[0]) == total, lambda: str(stores[0].outbox.counts()))
        finally:  # or the threads, and with them the run, would never end
            is_over.set()
            for thread in threads:
                thread.join()
        for store in stores:
            store.close()


def _have_delivered(store: Store, count: float) -> bool:
    return _delivered(store) >= count


def _delivered(store: Store) -> int:
    return sum(one.count for one in store.outbox.counts() if one.state is OutboxState.DELIVERED)
