"""What redundancy brought and took, and the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.analytics import Delivery, alternatives, gmp_shares, percentile, stages
from indexer.jobs.page import report_page
from indexer.jobs.report import make_report
from indexer.reading import IndexReader
from indexer.sinks.store import Store
from tests.unit.index_logs import ALPHA, BETA
from tests.unit.index_world import START, absorbed, apply, executed, new_world, received, routed, sent_message

LANE = (ALPHA, BETA)


def delivery(number: int, gmp: int, seconds: int, **changes: Any) -> Delivery:
    values: dict[str, Any] = {
        "message_id": bytes([number]) * 32,
        "lane": LANE,
        "gmp": gmp,
        "dispatched": frozenset({1, 2, 3}),
        "quorum": 2,
        "source_time": START,
        "received_time": START + seconds,
        "executed_time": None,
        "was_late": False,
    }
    return Delivery(**(values | changes))


THREE = [
    delivery(1, 1, 10, executed_time=START + 20),
    delivery(1, 2, 20, executed_time=START + 20),
    delivery(1, 3, 50, executed_time=START + 20, was_late=True),
    delivery(2, 3, 5),
    delivery(2, 2, 9),
    delivery(3, 1, 100),
]


def test_shares_say_who_was_first_by_how_much_and_who_in_vain() -> None:
    shares = {share.gmp: share for share in gmp_shares(THREE)}
    assert {gmp: (one.receipts, one.first, one.lead_p50, one.late) for gmp, one in shares.items()} == {
        1: (2, 2, 10, 0),
        2: (2, 0, None, 0),
        3: (2, 1, 4, 1),
    }
    assert (shares[1].latency_p50, shares[1].latency_p95) == (10, 100)


def test_stages_are_first_receipt_quorum_and_execution() -> None:
    found = {stage.stage: stage for stage in stages(THREE)}
    assert {name: (one.messages, one.p50, one.p95) for name, one in found.items()} == {
        "delivered": (3, 10, 100),
        "quorum": (2, 9, 20),
        "executed": (1, 20, 20),
    }


def test_a_smaller_set_shows_what_it_would_have_cost_and_gained() -> None:
    found = {(one.gmps, one.quorum): one for one in alternatives(THREE)}
    two_three = found[(2, 3), 2]
    assert (two_three.messages, two_three.reached, two_three.deliveries, two_three.saved) == (3, 2, 4, 2)
    assert (two_three.latency_p50, two_three.latency_p95) == (9, 50)
    everything = found[(1, 2, 3), 2]
    assert (everything.reached, everything.saved) == (2, 0)
    assert ((1,), 2) not in found


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 100)), max_size=24, unique_by=lambda one: one[:2]
    ),
    st.integers(1, 3),
)
def test_no_set_reaches_more_or_sooner_than_the_sets_that_hold_it(found: list[Any], quorum: int) -> None:
    deliveries = [delivery(*one, quorum=quorum, dispatched=frozenset({1, 2, 3, 4})) for one in found]
    sets = {frozenset(one.gmps): one for one in alternatives(deliveries)}
    for smaller, one in sets.items():
        for larger, other in sets.items():
            if smaller < larger:
                assert one.reached <= other.reached
                assert one.deliveries + one.saved == other.deliveries + other.saved


@given(st.lists(st.integers(), min_size=1), st.floats(0, 1))
def test_a_percentile_is_one_of_the_values_with_at_least_that_share_not_above_it(
    values: list[int], share: float
) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[IndexReader]:
    url = f"sqlite:///{tmp_path / 'index.db'}"
    store = Store(url)
    alpha, beta = new_world()
    sent = [sent_message(nonce, quorum=1, payload=b"<script>alert(1)</script>") for nonce in (1, 2)]
    alpha.mine(*[routed(one, gmps=0b011) for one in sent], time=START)
    beta.mine(received(sent[0], 1), executed(sent[0]), time=START + 5)
    beta.mine(received(sent[0], 2), absorbed(sent[0], 2), absorbed(sent[0], 2), time=START + 9)
    beta.mine(executed(sent[0]), time=START + 10)
    for chain in (alpha, beta):
        apply(store, chain)
    with IndexReader(url, clock=lambda: START) as opened:
        yield opened
    store.close()


def test_the_report_holds_what_its_deliveries_add_up_to(reader: IndexReader) -> None:
    report = make_report(reader)
    assert [(share.gmp, share.receipts, share.late) for share in report.shares] == [(1, 1, 0), (2, 1, 1)]
    assert report.duplicates_by_day == {(2, LANE, "1970-01-12"): 2}


def test_the_page_asks_for_nothing_from_anywhere_and_shows_what_the_report_says(reader: IndexReader) -> None:
    names = {ALPHA: "alpha<b>", BETA: "beta"}
    page = report_page(make_report(reader), lambda chain: names[chain], START)
    assert not re.search(r"(\bsrc=|href|url\(|@import|<script|<link|<img)", page)
    assert "alpha&lt;b&gt; → beta" in page
    assert "alpha<b>" not in page
    assert page.count("<svg") == 2
    assert "EXECUTED_TWICE" in page
    assert "1970-01-12" in page
