"""The index page by page: every message once, whatever is asked for, and never more than a bounded look."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import BindParameter, bindparam, text

from bench.filled_index import CHAINS, fill
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import MessageFilter, MessageRecord, Position
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from indexer.store.browser import IndexBrowser
from indexer.store.store import Store
from tests.unit.indexer.world import (
    START,
    absorbed,
    apply,
    executed,
    new_world,
    received,
    reported,
    retried,
    routed,
    sent_message,
)

NOW = 1_800_000_000
COUNT = 3_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexBrowser]:
    url = f"sqlite:///{tmp_path_factory.mktemp('index') / 'index.db'}"
    fill(url, COUNT, NOW)
    with IndexBrowser(url, clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture(scope="module")
def everything(browser: IndexBrowser) -> list[MessageRecord]:
    return browser.messages(limit=COUNT)


def walk(browser: IndexBrowser, wanted: MessageFilter, limit: int) -> list[MessageRecord]:
    found: list[MessageRecord] = []
    after: Position | None = None
    for _ in range(COUNT):
        page = browser.page(wanted, after=after, limit=limit)
        assert len(page.messages) <= limit
        found += page.messages
        if page.next is None:
            return found
        after = page.next
    raise AssertionError("the pages never end")


def is_wanted(record: MessageRecord, wanted: MessageFilter) -> bool:
    return (
        (wanted.status is None or record.status is wanted.status)
        and (wanted.source_chain is None or record.source_chain == wanted.source_chain)
        and (wanted.destination_chain is None or record.destination_chain == wanted.destination_chain)
        and (wanted.gmp is None or wanted.gmp in record.dispatched | record.received)
        and (wanted.kind is None or record.kind is wanted.kind)
        and (wanted.account is None or wanted.account in (record.sender, record.recipient))
    )


chosen = st.builds(
    MessageFilter,
    status=st.sampled_from([None, *(status for status in Status if status is not Status.ORPHANED)]),
    source_chain=st.sampled_from([None, *CHAINS]),
    destination_chain=st.sampled_from([None, *CHAINS]),
    gmp=st.sampled_from([None, *Gmp]),
    kind=st.sampled_from([None, Kind.PLAIN, Kind.QUERY, Kind.REPORT]),
    account=st.sampled_from([None, (10_007).to_bytes(32, "big"), (20_007).to_bytes(32, "big")]),
)


@settings(max_examples=8, deadline=None)
@given(wanted=chosen, limit=st.sampled_from([7, 50, 400]))
def test_pages_hold_every_wanted_message_once(
    browser: IndexBrowser, everything: list[MessageRecord], wanted: MessageFilter, limit: int
) -> None:
    found = walk(browser, wanted, limit)
    expected = [record for record in everything if is_wanted(record, wanted)]
    assert {record.message_id for record in found} == {record.message_id for record in expected}
    assert len(found) == len(expected)
    assert [record.source_time for record in found] == sorted(
        (record.source_time or 0 for record in found), reverse=True
    )


def test_tallies_have_each_message_of_the_time_once(browser: IndexBrowser, everything: list[MessageRecord]) -> None:
    since, until = NOW - 450, NOW - 150
    found = browser.tallies(since, until)
    expected: dict[tuple[int, int], list[MessageRecord]] = {}
    for record in everything:
        if record.source_time is None or record.destination_chain is None or not since <= record.source_time < until:
            continue
        expected.setdefault((record.source_chain, record.destination_chain), []).append(record)
    lanes = {one.lane: one for one in found if one.lane is not None}
    assert len(expected) > 1
    assert lanes.keys() == expected.keys()
    for lane, records in expected.items():
        seconds = sorted(
            one.executed_time - one.source_time for one in records if one.executed_time and one.source_time
        )
        assert (lanes[lane].messages, lanes[lane].arrived) == (len(records), tuple(seconds))
    taken = Counter(gmp for records in expected.values() for record in records for gmp in record.dispatched)
    gmps = [one for one in found if one.gmp is not None]
    assert {one.gmp: one.messages for one in gmps} == taken
    assert 0 < sum(len(one.arrived) for one in gmps) < taken.total()


def test_gmp_of_a_retry_counts_from_the_retry(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
    alpha, beta = new_world()
    sent = sent_message(quorum=1)
    alpha.mine(routed(sent, gmps=0b110), time=START)
    alpha.mine(retried(sent, 1, gmps=0b11), time=START + 12)
    beta.mine(received(sent, 1), executed(sent), time=START + 14)
    beta.mine(received(sent, 2, receipts=2), time=START + 15)
    for chain in (alpha, beta):
        apply(store, chain)
    store.close()
    with IndexBrowser(f"sqlite:///{tmp_path / 'index.db'}", clock=lambda: START) as browser:
        arrived = {one.gmp: (one.arrived, one.overtaken) for one in browser.tallies(START, START + 1)}
    assert arrived == {None: ((14,), 0), 1: ((2,), 0), 2: ((15,), 0), 3: ((), 1)}


def plan_of(browser: IndexBrowser, ask: Callable[[IndexBrowser], object]) -> list[str]:
    """The steps that the database takes for what is asked."""
    plans: list[str] = []
    rows = browser._rows

    def explained(statement: str, **arguments: object) -> list[object]:
        policy = {"now": NOW, "stall_after": 900, "max_lag": 120, "silence_after": 0}
        with browser._engine.connect() as connection:
            lists: Iterator[BindParameter[object]] = (
                bindparam(name, expanding=True) for name, value in arguments.items() if isinstance(value, list)
            )
            asked = text(f"explain query plan {statement}").bindparams(*lists)
            plan = [row["detail"] for row in connection.execute(asked, policy | arguments).mappings()]
            # The messages of a page and their receipts were chosen before, and are called m and r as the tables are.
            chosen = {"SCAN m", "SCAN r"} if "MATERIALIZE among" in plan else set()
            plans.extend(step for step in plan if step not in chosen)
        return rows(statement, **arguments)  # type: ignore[return-value]  # only looked at

    browser._rows = explained  # type: ignore[method-assign,assignment]  # listens in
    try:
        ask(browser)
    finally:
        browser._rows = rows  # type: ignore[method-assign]  # as it was
    return plans


_AFTER = Position(NOW - 100, bytes(32))


@pytest.mark.parametrize(
    "ask",
    [
        lambda browser: browser.page(MessageFilter(), after=_AFTER),
        lambda browser: browser.page(MessageFilter(status=Status.EXECUTED), after=_AFTER),
        lambda browser: browser.page(MessageFilter(kind=Kind.QUERY, gmp=Gmp.AXELAR), after=_AFTER),
        lambda browser: browser.page(MessageFilter(source_chain=CHAINS[0], destination_chain=CHAINS[1]), after=_AFTER),
        lambda browser: browser.page(MessageFilter(account=(10_007).to_bytes(32, "big")), after=_AFTER),
        lambda browser: browser.tallies(NOW - 900, NOW),
        lambda browser: browser.message(bytes(32)),
        lambda browser: browser.divergences_of(bytes(32)),
        lambda browser: browser.events(bytes(32)) or browser.receipts(bytes(32)),
        lambda browser: browser.of_transaction(bytes(32)) or browser.duplicates(limit=50),
    ],
)
def test_no_page_sorts_or_scans_a_whole_table(browser: IndexBrowser, ask: Callable[[IndexBrowser], object]) -> None:
    plans = plan_of(browser, ask)
    assert plans
    on_tables = [step for step in plans if re.search(r" (messages|events|receipts)\b", step)]
    assert all("USING" in step for step in on_tables), plans
    assert not [step for step in plans if step.endswith("(source_chain=?)")], plans  # all messages of a chain
    # What the tables are called in joins; a part of messages that was chosen before is called m too.
    whole = {"SCAN r", "SCAN e"} if {"CO-ROUTINE m", "MATERIALIZE m"} & set(plans) else {"SCAN r", "SCAN e", "SCAN m"}
    assert not whole & set(plans), plans
    scanned = [step for step in on_tables if step.startswith("SCAN")]
    bounded = ("messages_seen", "messages_reported", "events_absorbed")
    assert all(any(f"USING INDEX {name}" in step for name in bounded) for step in scanned), plans


def test_a_transaction_on_either_chain_leads_to_its_messages(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
    alpha, beta = new_world()
    sent = sent_message(quorum=1)
    alpha.mine(routed(sent))
    beta.mine(received(sent, 1), executed(sent))
    beta.mine(absorbed(sent, 1))
    for chain in (alpha, beta):
        apply(store, chain)
    store.close()
    with IndexBrowser(f"sqlite:///{tmp_path / 'index.db'}", clock=lambda: START) as browser:
        events = browser.events(sent.id)
        assert [event.event for event in events] == [
            "MessageRouted",
            "MessageReceived",
            "MessageExecuted",
            "DuplicateAbsorbed",
        ]
        assert all(browser.of_transaction(event.transaction_hash) == [sent.id] for event in events)
        assert browser.of_transaction(bytes(32)) == []


def test_counts_by_state_are_those_of_the_messages_themselves(
    browser: IndexBrowser, everything: list[MessageRecord]
) -> None:
    counted = browser.counts_by_status()
    assert counted == {
        status: sum(record.status is status for record in everything) for status in {r.status for r in everything}
    }
    assert counted[Status.STALLED] > 0


@pytest.mark.parametrize(("outcome", "status"), [(1, Status.EXECUTED), (2, Status.EXPIRED), (3, Status.CANCELLED)])
@pytest.mark.parametrize("received_first", [False, True])
def test_message_ended_by_report_is_in_its_list(
    tmp_path: Path, outcome: int, status: Status, received_first: bool
) -> None:
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
    alpha, beta = new_world()
    sent = sent_message(quorum=2, ttl=500)
    alpha.mine(routed(sent))
    if received_first:
        beta.mine(received(sent, 1))
    alpha.mine(reported(sent, outcome))
    for chain in (alpha, beta):
        apply(store, chain)
    store.close()
    with IndexBrowser(f"sqlite:///{tmp_path / 'index.db'}", clock=lambda: START) as browser:
        assert browser.by_status() == {status: 1}
        for other in (None, *Status):
            listed = [record.message_id for record in walk(browser, MessageFilter(status=other), limit=3)]
            assert listed == ([sent.id] if other in (None, status) else []), other
