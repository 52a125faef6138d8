"""What redundancy brought and took, and the page that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.cli.report import ActionCounts, report_facts
from indexer.jobs.report import make_report
from indexer.store.analytics import GmpReceipt, alternatives, gmps_in_sets, percentile
from indexer.store.costs import Costs, TransactionCost, fees_paid, gmp_costs, paid_for
from indexer.store.ranking import NEWEST, Dispatch, gmp_health
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import START, absorbed, apply, executed, new_world, received, routed, sent_message

LANE = (ALPHA, BETA)


def delivery(number: int, gmp: int, seconds: int, **changes: Any) -> GmpReceipt:
    values: dict[str, Any] = {
        "message_id": bytes([number]) * 32,
        "lane": LANE,
        "gmp": gmp,
        "dispatched": frozenset({1, 2, 3}),
        "quorum": 2,
        "source_time": START,
        "dispatched_time": START,
        "received_time": START + seconds,
        "executed_time": None,
        "final_time": None,
        "was_late": False,
        "transaction": bytes([number, gmp]) * 16,
        "source_transaction": bytes([number]) * 32,
        "retried": False,
    }
    return GmpReceipt(**(values | changes))


THREE = [
    delivery(1, 1, 10, executed_time=START + 20),
    delivery(1, 2, 20, executed_time=START + 20),
    delivery(1, 3, 50, executed_time=START + 20, was_late=True),
    delivery(2, 3, 5),
    delivery(2, 2, 9),
    delivery(3, 1, 100),
]


def test_a_gmp_that_was_asked_first_in_a_retry_is_not_blamed_for_the_wait_before_it() -> None:
    late = delivery(7, 1, 14, dispatched_time=START + 12, dispatched=frozenset({1, 2}), quorum=1)
    (alone,) = [one for one in alternatives([late]) if one.gmps == (1,)]
    assert alone.latency_p50 == 2


def test_a_smaller_set_shows_what_it_would_have_cost_and_gained() -> None:
    found = {(one.gmps, one.quorum): one for one in alternatives(THREE)}
    two_three = found[(2, 3), 2]
    assert (two_three.messages, two_three.reached, two_three.deliveries, two_three.saved) == (3, 2, 4, 2)
    assert (two_three.latency_p50, two_three.latency_p95) == (9, 50)
    everything = found[(1, 2, 3), 2]
    assert (everything.reached, everything.saved) == (2, 0)
    assert ((1,), 2) not in found


def test_with_more_gmps_than_sets_are_made_of_the_most_used_count_and_the_others_are_named() -> None:
    six = [delivery(1, gmp, gmp, dispatched=frozenset(range(1, 7))) for gmp in range(1, 7)]
    six += [delivery(2, 6, 1, dispatched=frozenset({2, 3, 4, 5, 6}))]
    assert gmps_in_sets(six) == ((2, 3, 4, 5, 6), (1,))
    assert {gmp for one in alternatives(six) for gmp in one.gmps} == {2, 3, 4, 5, 6}
    assert gmps_in_sets(THREE) == ((1, 2, 3), ())


ALL_COST = {
    **{(BETA, one.transaction): TransactionCost(gas=100 * one.gmp, gas_paid=1_000 * one.gmp, value=0) for one in THREE},
    **{(ALPHA, bytes([number]) * 32): TransactionCost(gas=1, gas_paid=1, value=70 + number) for number in (1, 2, 3)},
}


def test_costs_say_what_each_gmp_took_and_how_much_of_it_for_deliveries_that_came_late() -> None:
    found = {cost.gmp: cost for cost in gmp_costs(THREE, ALL_COST)}
    assert {gmp: (one.lane, one.deliveries, one.gas_p50, one.gas_paid) for gmp, one in found.items()} == {
        1: (LANE, 2, 100, 2_000),
        2: (LANE, 2, 200, 4_000),
        3: (LANE, 2, 300, 6_000),
    }
    assert {gmp: (one.late, one.late_gas_paid) for gmp, one in found.items()} == {1: (0, 0), 2: (0, 0), 3: (1, 3_000)}


def test_deliveries_of_one_transaction_share_its_cost_and_those_of_an_unknown_one_have_none() -> None:
    together = [replace(THREE[0], transaction=bytes(32)), replace(THREE[3], transaction=bytes(32)), THREE[5]]
    costs = {(BETA, bytes(32)): TransactionCost(gas=500, gas_paid=800, value=0)}
    assert paid_for(together, costs) == {(THREE[0].message_id, 1): (250, 400), (THREE[3].message_id, 3): (250, 400)}
    assert [(cost.gmp, cost.deliveries) for cost in gmp_costs(together, costs)] == [(1, 1), (3, 1)]


def test_a_delivery_pays_its_part_of_a_transaction_though_others_in_it_are_too_old_to_be_counted() -> None:
    costs = {(BETA, THREE[0].transaction): TransactionCost(gas=2_000, gas_paid=4_000, value=0, deliveries=20)}
    assert paid_for([THREE[0]], costs) == {(THREE[0].message_id, 1): (100, 200)}


def test_fees_are_per_set_of_gmps_and_leave_out_messages_that_were_retried() -> None:
    others = [
        replace(delivery(4, 1, 10, dispatched=frozenset({1})), source_transaction=b"\x02" * 32),
        delivery(3, 2, 30, retried=True),
        delivery(3, 1, 30, retried=True),
    ]
    found = fees_paid([*THREE[:5], *others], ALL_COST)
    assert [(fee.lane, fee.gmps, fee.messages, fee.fees_p50, fee.fees) for fee in found] == [
        (LANE, (1,), 1, 36, 36),
        (LANE, (1, 2, 3), 2, 36, 107),
    ]


def test_a_smaller_set_shows_what_its_gas_would_have_been_and_what_it_would_have_saved() -> None:
    paid = {key: wei for key, (_, wei) in paid_for(THREE, ALL_COST).items()}
    found = {(one.gmps, one.quorum): one for one in alternatives(THREE, paid)}
    assert (found[(2, 3), 2].gas_paid, found[(2, 3), 2].gas_saved) == (10_000, 2_000)
    assert (found[(1, 2, 3), 2].gas_paid, found[(1, 2, 3), 2].gas_saved) == (12_000, 0)
    assert {one.gas_paid for one in alternatives(THREE)} == {None}


def test_the_healthiest_gmp_is_the_one_that_delivered_most_of_its_newest_messages_and_then_soonest() -> None:
    dispatches = [
        *(
            Dispatch(lane=LANE, gmp=gmp, seconds=seconds)
            for gmp, seconds in ((1, 9), (1, None), (2, 5), (3, 7), (4, None))
        ),
        *(Dispatch(lane=LANE, gmp=2, seconds=5) for _ in range(NEWEST)),
        Dispatch(lane=LANE, gmp=2, seconds=None),  # too long ago to count
        Dispatch(lane=(BETA, ALPHA), gmp=1, seconds=1),
    ]
    assert [(one.lane, one.gmp, one.dispatched, one.delivered, one.latency_p50) for one in gmp_health(dispatches)] == [
        (LANE, 2, NEWEST, NEWEST, 5),
        (LANE, 3, 1, 1, 7),
        (LANE, 1, 2, 1, 9),
        (LANE, 4, 1, 0, None),
        ((BETA, ALPHA), 1, 1, 1, 1),
    ]


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
    # The second message is not overdue yet, so that nobody can be blamed for it.
    assert [(one.gmp, one.dispatched, one.delivered) for one in report.health] == [(1, 1, 1), (2, 1, 1)]
    assert report.duplicates_by_day == {(2, LANE, "1970-01-12"): 2}


def test_the_report_asks_for_the_transactions_of_its_deliveries_and_shows_what_they_cost(reader: IndexReader) -> None:
    asked: dict[int, Sequence[bytes]] = {}

    def costs(transactions: Mapping[int, Sequence[bytes]]) -> Costs:
        asked.update(transactions)
        cost = TransactionCost(gas=7, gas_paid=77, value=777)
        return {(chain, transaction): cost for chain, found in transactions.items() for transaction in found}

    report = make_report(reader, costs)
    assert {chain: len(found) for chain, found in asked.items()} == {ALPHA: 1, BETA: 2}
    assert [(cost.gmp, cost.late, cost.gas_paid, cost.late_gas_paid) for cost in report.costs] == [
        (1, 0, 77, 0),
        (2, 1, 77, 77),
    ]
    assert [(fee.gmps, fee.fees_p50) for fee in report.fees] == [((1, 2), 777)]


def test_the_report_says_whose_actions_are_not_counted(reader: IndexReader) -> None:
    counts = ActionCounts(by_state={"COMMITTED": 2, "ABORTED": 1}, silent=["beta"])
    assert (
        report_facts(make_report(reader), counts)["atomic actions"] == "2 COMMITTED, 1 ABORTED; without beta, no answer"
    )
