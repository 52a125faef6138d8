"""Every kind of divergence: a fault of that kind is found, and a world without faults has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from indexer.jobs.lane_totals import Direction, LaneTotal
from indexer.jobs.verify import LaneCheck, Verdict, store_checks
from indexer.model.divergences import MEANINGS
from indexer.model.settings import StallPolicy
from indexer.store.browser import IndexBrowser
from indexer.store.limits import set_limits
from indexer.store.reader import IndexReader
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.unit.indexer.logs import ADAPTERS, ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    Event,
    SimulatedChain,
    absorbed,
    adapter_added,
    adapter_revoked,
    apply,
    cancellation_requested,
    cancelled,
    contradicted,
    deferred,
    executed,
    expired,
    failed,
    floor_set,
    gmp_pause_set,
    lane_pause_set,
    late_receipt,
    new_world,
    policy_set,
    received,
    report_of,
    reported,
    retried,
    routed,
    sent_message,
    unfunded,
)

POLICY = StallPolicy(stall_after=100, max_lag=30, silence_after=1_000)
GAMMA = 31339


@dataclass
class World:
    url: str
    store: Store
    alpha: SimulatedChain
    beta: SimulatedChain

    def found(self) -> list[tuple[str, bytes | None]]:
        for chain in (self.alpha, self.beta):
            apply(self.store, chain, final=chain.head)
        with IndexReader(self.url, POLICY, clock=lambda: START + 5_000) as reader:
            found = reader.divergences()
        assert all(row.severity and row.next_action and row.evidence for row in found)
        return [(row.kind, row.message_id) for row in found]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    url = f"sqlite:///{tmp_path / 'index.db'}"
    store = Store(url)
    yield World(url, store, *new_world())
    store.close()


SENT = sent_message(quorum=1, ttl=500)


def executed_twice(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), executed(SENT), executed(SENT))


def payload_differs(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(("MessageReceived", received(SENT, 1)[1] | {"payload_hash": bytes(32)}))


def executed_without_quorum(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(executed(SENT), received(SENT, 1))


def executed_over_a_voided_receipt(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(adapter_added(1, ADAPTERS[BETA]), adapter_added(2, ADAPTERS[BETA]))
    world.beta.mine(received(sent, 1), adapter_revoked(1, ADAPTERS[BETA]), received(sent, 2, 1), executed(sent))


def executed_over_a_gmp_that_its_recipient_does_not_allow(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(policy_set(SENT.recipient, ALPHA, 0b110, quorum=1))
    world.beta.mine(received(SENT, 1, 0), executed(SENT))


def executed_with_less_than_its_recipient_demands(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(policy_set(SENT.recipient, ALPHA, 0b111, quorum=2))
    world.beta.mine(received(SENT, 1, 1, quorum=2), executed(SENT))


def executed_with_less_than_its_sender_asked_for(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1, 1, quorum=1), executed(sent))


def executed_after_expiry(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), executed(SENT), time=START + 501)


def receipt_without_creation(world: World) -> None:
    world.beta.mine(received(SENT, 1))
    world.alpha.mine(time=START + 1 + POLICY.max_lag + 1)


def receipt_over_unused_gmp(world: World) -> None:
    world.alpha.mine(routed(SENT, gmps=0b001))
    world.beta.mine(received(SENT, 2))
    world.alpha.mine(time=START + 1 + POLICY.max_lag + 1)


def receipt_from_revoked_adapter(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(adapter_added(1, ADAPTERS[BETA]), adapter_revoked(1, ADAPTERS[BETA]))
    world.beta.mine(received(SENT, 1))


def receipt_from_adapter_never_registered(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(adapter_added(1, ADAPTERS[BETA]), received(SENT, 2))


def silent(world: World) -> None:
    world.alpha.mine(routed(sent_message(quorum=1)))
    world.beta.mine(time=START + 1 + POLICY.silence_after + 1)


def outcome_differs(world: World) -> None:
    world.alpha.mine(routed(SENT), reported(SENT, 2))
    world.beta.mine(received(SENT, 1), executed(SENT))


def outcome_contradicted(world: World) -> None:
    world.alpha.mine(routed(SENT), reported(SENT, 2), contradicted(SENT, 2, 1))
    world.beta.mine(expired(SENT), time=START + 501)


OF_A_MESSAGE: dict[Callable[[World], None], str] = {
    executed_twice: "EXECUTED_TWICE",
    payload_differs: "PAYLOAD_DIFFERS",
    executed_without_quorum: "EXECUTED_WITHOUT_QUORUM",
    executed_over_a_voided_receipt: "EXECUTED_WITHOUT_QUORUM",
    executed_over_a_gmp_that_its_recipient_does_not_allow: "EXECUTED_WITHOUT_QUORUM",
    executed_with_less_than_its_recipient_demands: "EXECUTED_WITHOUT_QUORUM",
    executed_after_expiry: "EXECUTED_AFTER_EXPIRY",
    receipt_without_creation: "RECEIPT_WITHOUT_CREATION",
    receipt_over_unused_gmp: "RECEIPT_OVER_UNUSED_GMP",
    receipt_from_revoked_adapter: "RECEIPT_FROM_UNREGISTERED_ADAPTER",
    receipt_from_adapter_never_registered: "RECEIPT_FROM_UNREGISTERED_ADAPTER",
    silent: "SILENT",
    outcome_differs: "OUTCOME_DIFFERS",
    outcome_contradicted: "OUTCOME_DIFFERS",
}


@pytest.mark.parametrize("fault", OF_A_MESSAGE, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_is_found_and_nothing_else(world: World, fault: Callable[[World], None]) -> None:
    fault(world)
    ids = {sent_message(quorum=1).id, sent_message(quorum=2).id, SENT.id}
    ((kind, message_id),) = world.found()
    assert kind == OF_A_MESSAGE[fault]
    assert message_id in ids


@pytest.mark.parametrize("nonces", [(1, 3), (1, 1, 2)])
def test_a_gap_or_a_repeat_in_a_lanes_nonces_is_found(world: World, nonces: tuple[int, ...]) -> None:
    for position, nonce in enumerate(nonces):
        world.alpha.mine(routed(sent_message(nonce, payload=b"%d" % position)))
    assert world.found() == [("NONCE_GAP", None)]


def test_partial_fan_out_is_found(world: World) -> None:
    to_beta = sent_message(1, quorum=1, payload=b"state", kind=Kind.STATE_SYNC, ttl=50)
    to_gamma = sent_message(1, quorum=1, payload=b"state", kind=Kind.STATE_SYNC, ttl=50, destination_chain=GAMMA)
    world.alpha.mine(routed(to_beta), routed(to_gamma))
    for sent in (to_beta, to_gamma):
        world.alpha.transactions[sent.id] = "0x" + "ab" * 32
    world.beta.mine(received(to_beta, 1), executed(to_beta))
    assert world.found() == []
    world.alpha.mine(reported(to_gamma, 2))
    assert world.found() == [("FAN_OUT_DIFFERS", min(to_beta.id, to_gamma.id))]


def test_different_lane_stays_diverged_until_equal(world: World) -> None:
    world.alpha.mine(routed(SENT))
    assert world.found() == []
    for verdict, expected in ((Verdict.DIFFERENT, [("LANE_DIFFERS", None)]), (Verdict.EQUAL, [])):
        check = LaneCheck(
            chain_id=ALPHA,
            direction=Direction.SENT,
            other_chain=BETA,
            block=1,
            block_hash=bytes(32),
            indexed=LaneTotal(1, 7),
            router=LaneTotal(2, 9),
            verdict=verdict,
        )
        store_checks(world.store.engine, [check], 1.0)
        assert world.found() == expected


def test_a_world_without_faults_has_no_divergence(world: World) -> None:
    """Everything that may happen, late and in vain included."""
    world.beta.mine(
        adapter_added(1, ADAPTERS[BETA]), adapter_added(2, ADAPTERS[BETA]), adapter_added(3, ADAPTERS[BETA])
    )
    sent = [sent_message(nonce, quorum=1 + (nonce == 3), ttl=500) for nonce in range(1, 8)]
    world.alpha.mine(*[routed(one, gmps=0b001) for one in sent[:6]], unfunded(sent[6]))
    world.alpha.mine(*[retried(one, 1, gmps=0b110) for one in sent[:4]])
    world.beta.mine(received(sent[0], 1), executed(sent[0]), absorbed(sent[0], 1), received(sent[0], 2))
    world.beta.mine(received(sent[1], 2), received(sent[1], 1), failed(sent[1]), executed(sent[1]))
    world.beta.mine(adapter_revoked(3, ADAPTERS[BETA]), adapter_added(3, ADAPTERS[BETA]), received(sent[2], 3))
    world.beta.mine(gmp_pause_set(2, START + 300), time=START + 100)
    world.beta.mine(received(sent[3], 2), executed(sent[3]), time=START + 490)
    world.beta.mine(
        expired(sent[4]), received(sent[4], 1), late_receipt(sent[4], 1), cancelled(sent[5]), time=START + 800
    )
    world.alpha.mine(cancellation_requested(sent[5]), time=START + 890)
    world.alpha.mine(reported(sent[4], 2), reported(sent[5], 3), reported(sent[0], 1), time=START + 900)
    assert world.found() == []


def test_changed_quorum_is_no_divergence(world: World) -> None:
    recipient = SENT.recipient
    sent = [sent_message(nonce, quorum=1) for nonce in range(1, 6)]
    world.alpha.mine(*[routed(one) for one in sent])
    world.beta.mine(policy_set(recipient, ALPHA, 0b111, quorum=3), *[received(one, 1, 1, quorum=3) for one in sent])
    world.beta.mine(policy_set(recipient, ALPHA, 0b011, quorum=2))
    world.beta.mine(received(sent[0], 2, 2, quorum=2), executed(sent[0]))
    world.beta.mine(received(sent[1], 3, 1, quorum=2))  # of a GMP that is no longer allowed
    world.beta.mine(policy_set(recipient, ALPHA, 0b101, quorum=1), executed(sent[1]))
    world.beta.mine(policy_set(recipient, ALPHA, 0, quorum=0), floor_set(ALPHA, 2))
    world.beta.mine(received(sent[2], 3, 2, quorum=2), executed(sent[2]))
    world.beta.mine(floor_set(ALPHA, 1), executed(sent[3]))
    world.beta.mine(policy_set(recipient, ALPHA, 0b1111, quorum=4), received(sent[4], 2, 2, quorum=4))
    world.beta.mine(received(sent[4], 3, 3, quorum=4), received(sent[4], 4, 4, quorum=4), executed(sent[4]))
    assert world.found() == []


def test_execution_below_a_raised_quorum_is_a_divergence(world: World) -> None:
    sent = sent_message(1, quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(policy_set(sent.recipient, ALPHA, 0b111, quorum=2), received(sent, 1, 1, quorum=2))
    world.beta.mine(policy_set(sent.recipient, ALPHA, 0b111, quorum=3))
    world.beta.mine(received(sent, 2, 2, quorum=2), executed(sent))
    assert world.found() == [("EXECUTED_WITHOUT_QUORUM", sent.id)]


def test_redelivery_after_revocation_counts(world: World) -> None:
    sent = [sent_message(nonce, quorum=2) for nonce in range(1, 3)]
    world.alpha.mine(*[routed(one) for one in sent])
    world.beta.mine(adapter_added(1, ADAPTERS[BETA]), adapter_added(2, ADAPTERS[BETA]))
    world.beta.mine(*[received(one, 1) for one in sent], received(sent[1], 2, 2), executed(sent[1]))
    world.beta.mine(adapter_revoked(1, ADAPTERS[BETA]), received(sent[0], 2, 1), adapter_added(1, ADAPTERS[BETA]))
    world.beta.mine(received(sent[0], 1, 2), executed(sent[0]), received(sent[1], 1, 2))
    assert world.found() == []


def test_message_on_a_lane_that_may_take_longer_is_not_silent(world: World) -> None:
    hurried, patient = sent_message(1, quorum=1), sent_message(2, quorum=1, kind=Kind.STATE_SYNC, ttl=5_000)
    world.alpha.mine(routed(hurried), routed(patient))
    world.beta.mine(time=START + 900)
    assert world.found() == []
    set_limits(world.store.engine, replace(POLICY, by_kind={Kind.STATE_SYNC: 1_200}))
    world.beta.mine(time=START + 1_100)
    assert world.found() == [("SILENT", hurried.id)]
    world.beta.mine(time=START + 1_300)
    assert sorted(world.found()) == sorted([("SILENT", hurried.id), ("SILENT", patient.id)])


MORTAL = sent_message(quorum=1, ttl=500)
LATER = START + 1 + POLICY.max_lag + 1


def executed_as(**changes: Any) -> Event:
    return "MessageExecuted", executed(SENT)[1] | changes


def reported_as_executed_and_nowhere_executed(world: World) -> None:
    world.alpha.mine(routed(SENT), reported(SENT, 1))
    world.beta.mine(received(SENT, 1), time=LATER)


def reported_as_expired_and_still_open(world: World) -> None:
    world.alpha.mine(routed(SENT), reported(SENT, 2))
    world.beta.mine(time=LATER)


def executed_on_another_chain(world: World) -> None:
    away = sent_message(quorum=1, ttl=500, destination_chain=GAMMA)
    world.alpha.mine(routed(away))
    world.beta.mine(received(away, 1), executed(away))


def executed_at_another_recipient(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), executed_as(recipient="0x" + "77" * 20))


def executed_under_another_source(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), executed_as(source_chain=GAMMA))


def cancelled_after_executed(world: World) -> None:
    world.alpha.mine(routed(SENT), cancellation_requested(SENT))
    world.beta.mine(received(SENT, 1), executed(SENT), cancelled(SENT))


def executed_after_cancelled(world: World) -> None:
    world.alpha.mine(routed(SENT), cancellation_requested(SENT))
    world.beta.mine(cancelled(SENT), received(SENT, 1), executed(SENT))


def executed_after_expired_though_it_can_not_expire(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(expired(sent), received(sent, 1), executed(sent))


def expired_and_cancelled(world: World) -> None:
    world.alpha.mine(routed(MORTAL), cancellation_requested(MORTAL))
    world.beta.mine(expired(MORTAL), cancelled(MORTAL), time=START + 501)


def expired_though_it_can_not_expire(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(expired(sent))


def expired_before_its_time(world: World) -> None:
    world.alpha.mine(routed(MORTAL))
    world.beta.mine(expired(MORTAL), time=START + 500)


def cancelled_though_nobody_asked(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(cancelled(SENT))
    world.alpha.mine(time=LATER)


def cancelled_by_another_message(world: World) -> None:
    asked = cancellation_requested(SENT)
    world.alpha.mine(routed(SENT), (asked[0], asked[1] | {"cancellation_id": bytes(31) + b"\x09"}))
    world.beta.mine(cancelled(SENT))


def cancellation_of_a_message_never_sent_or_cancelled(world: World) -> None:
    world.beta.mine(cancelled(SENT))
    world.alpha.mine(time=LATER)


def execution_of_a_message_never_sent(world: World) -> None:
    world.beta.mine(executed(SENT))
    world.alpha.mine(time=LATER)


def two_reports_that_differ(world: World) -> None:
    world.alpha.mine(routed(MORTAL))
    world.beta.mine(expired(MORTAL), time=START + 501)
    world.alpha.mine(reported(MORTAL, 2), reported(MORTAL, 1), time=START + 502)


def two_reports_that_differ_of_what_is_not_retriable(world: World) -> None:
    world.alpha.mine(routed(MORTAL, retriable=False))
    world.beta.mine(expired(MORTAL), time=START + 501)
    world.alpha.mine(reported(MORTAL, 2), reported(MORTAL, 1), time=START + 502)


def two_reports_of_a_retriable_message(world: World) -> None:
    world.alpha.mine(routed(SENT), reported(SENT, 1), reported(SENT, 1))
    world.beta.mine(received(SENT, 1), executed(SENT))


def contradicted_though_nothing_was_reported(world: World) -> None:
    world.alpha.mine(routed(SENT), contradicted(SENT, 1, 2))
    world.beta.mine(received(SENT, 1), executed(SENT))


def receipts_counted_that_are_not_there(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1, 5))


def duplicate_without_a_first_delivery(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(absorbed(SENT, 1))


def received_with_less_than_its_sender_asked_for(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1, 1, quorum=1), received(sent, 2, 2))


def executed_before_it_was_created(world: World) -> None:
    world.beta.mine(received(SENT, 1), executed(SENT))
    world.alpha.mine(routed(SENT), time=LATER)


def not_retriable_and_executed_below_its_quorum(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent, retriable=False))
    world.beta.mine(received(sent, 1, 1), executed(sent))


def not_retriable_and_refused_below_its_quorum(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent, retriable=False))
    world.beta.mine(received(sent, 1, 1), failed(sent), received(sent, 2, 2), executed(sent))


def refused_though_nothing_was_received(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(failed(SENT))


def deferred_before_its_quorum(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(deferred(sent), received(sent, 1, 1), received(sent, 2, 2))


def refused_more_often_than_called(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), failed(SENT), failed(SENT))


def reported_before_it_was_executed(world: World) -> None:
    world.alpha.mine(routed(SENT), reported(SENT, 1))
    world.beta.mine(received(SENT, 1), executed(SENT), time=LATER)


def reported_before_it_expired(world: World) -> None:
    world.alpha.mine(routed(MORTAL))
    world.alpha.mine(reported(MORTAL, 2), time=START + 501 - POLICY.max_lag - 1)
    world.beta.mine(expired(MORTAL), time=START + 501)


def report_sent_before_its_end(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(routed(report_of(SENT)))
    world.beta.mine(received(SENT, 1), executed(SENT))
    world.alpha.mine(received(report_of(SENT), 1), executed(report_of(SENT)), reported(SENT, 1))


def report_sent_without_an_end(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), routed(report_of(SENT)))
    world.alpha.mine(received(report_of(SENT), 1), failed(report_of(SENT)))


def duplicate_before_its_first_receipt(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(absorbed(SENT, 1), received(SENT, 1), absorbed(SENT, 1), executed(SENT))


NO_HONEST_ROUTER: dict[Callable[[World], None], set[str]] = {
    reported_as_executed_and_nowhere_executed: {"OUTCOME_DIFFERS"},
    reported_as_expired_and_still_open: {"OUTCOME_DIFFERS"},
    executed_on_another_chain: {"EXECUTED_ELSEWHERE"},
    executed_at_another_recipient: {"EXECUTED_ELSEWHERE"},
    executed_under_another_source: {"EXECUTED_ELSEWHERE"},
    cancelled_after_executed: {"ENDED_TWICE"},
    executed_after_cancelled: {"ENDED_TWICE"},
    executed_after_expired_though_it_can_not_expire: {"ENDED_TWICE", "EXPIRED_TOO_EARLY"},
    expired_and_cancelled: {"ENDED_TWICE"},
    expired_though_it_can_not_expire: {"EXPIRED_TOO_EARLY"},
    expired_before_its_time: {"EXPIRED_TOO_EARLY"},
    cancelled_though_nobody_asked: {"CANCELLED_WITHOUT_REQUEST"},
    cancelled_by_another_message: {"CANCELLED_WITHOUT_REQUEST"},
    cancellation_of_a_message_never_sent_or_cancelled: {"END_WITHOUT_CREATION"},
    execution_of_a_message_never_sent: {"END_WITHOUT_CREATION", "EXECUTED_WITHOUT_QUORUM"},
    two_reports_that_differ: {"REPORTED_TWICE"},
    two_reports_that_differ_of_what_is_not_retriable: {"REPORTED_TWICE"},
    two_reports_of_a_retriable_message: {"REPORTED_TWICE"},
    contradicted_though_nothing_was_reported: {"OUTCOME_DIFFERS"},
    receipts_counted_that_are_not_there: {"RECEIPTS_MISCOUNTED"},
    duplicate_without_a_first_delivery: {"DUPLICATE_WITHOUT_RECEIPT"},
    received_with_less_than_its_sender_asked_for: {"QUORUM_LOWERED"},
    executed_with_less_than_its_sender_asked_for: {"QUORUM_LOWERED", "EXECUTED_WITHOUT_QUORUM"},
    executed_before_it_was_created: {"EXECUTED_BEFORE_CREATION"},
    not_retriable_and_executed_below_its_quorum: {"EXECUTED_WITHOUT_QUORUM"},
    not_retriable_and_refused_below_its_quorum: {"REFUSED_WITHOUT_QUORUM"},
    refused_though_nothing_was_received: {"REFUSED_WITHOUT_QUORUM"},
    deferred_before_its_quorum: {"REFUSED_WITHOUT_QUORUM"},
    refused_more_often_than_called: {"REFUSED_WITHOUT_QUORUM"},
    reported_before_it_was_executed: {"OUTCOME_DIFFERS"},
    reported_before_it_expired: {"OUTCOME_DIFFERS"},
    report_sent_before_its_end: {"OUTCOME_DIFFERS"},
    report_sent_without_an_end: {"OUTCOME_DIFFERS"},
    duplicate_before_its_first_receipt: {"DUPLICATE_WITHOUT_RECEIPT"},
}
OVERDUE = START + 2 * POLICY.stall_after
RESCUED_ALL_THE_SAME = {duplicate_without_a_first_delivery}
"""Where the fault is a GMP's: a retry over the others is the rescue. A liar must not be able to prevent it."""


@pytest.mark.parametrize("fault", NO_HONEST_ROUTER, ids=lambda fault: fault.__name__)
def test_impossible_router_event_is_found_with_evidence(world: World, fault: Callable[[World], None]) -> None:
    fault(world)
    found = world.found()
    assert {kind for kind, _ in found} == NO_HONEST_ROUTER[fault]
    (message_id,) = {message_id for _, message_id in found}
    assert message_id is not None
    with IndexReader(world.url, POLICY, clock=lambda: START + 5_000) as reader:
        shown = reader.message(message_id)
        of_message = reader.divergences_of(message_id)
        assert {one.kind for one in of_message} == NO_HONEST_ROUTER[fault]
        assert all(one.evidence for one in of_message)
        assert shown is not None
        assert shown.status is Status.DIVERGED
    for chain in (world.alpha, world.beta):
        chain.mine(time=OVERDUE)
        apply(world.store, chain, final=chain.head)
    rescued = request_retries(world.store.engine, POLICY, OVERDUE)
    assert rescued == (1 if fault in RESCUED_ALL_THE_SAME else 0)


def cancelled_before_its_creation(world: World) -> None:
    """The sender foresaw the id; its creation overwrites the flag (`SenderBase._create`), so a retry is allowed."""
    world.alpha.mine(cancellation_requested(SENT), routed(SENT), retried(SENT, 1))


def cancelled_after_its_last_retry(world: World) -> None:
    world.alpha.mine(unfunded(SENT), routed(SENT), retried(SENT, 1), cancellation_requested(SENT))


def retriable_and_dispatched_below_its_quorum(world: World) -> None:
    world.alpha.mine(routed(sent_message(quorum=2), gmps=0b100), retried(sent_message(quorum=2), 1, gmps=0b1))


def refused_with_each_receipt_from_the_quorum_on(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1, 1), received(sent, 2, 2), failed(sent), received(sent, 3, 3), deferred(sent))


def late_for_the_end_that_it_has(world: World) -> None:
    world.alpha.mine(routed(MORTAL), cancellation_requested(MORTAL))
    world.beta.mine(cancelled(MORTAL), received(MORTAL, 1), late_receipt(MORTAL, 1, state=3))


def received_again_after_a_revocation(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(adapter_added(1, ADAPTERS[BETA]), received(SENT, 1), executed(SENT), absorbed(SENT, 1))
    world.beta.mine(adapter_revoked(1, ADAPTERS[BETA]), adapter_added(1, ADAPTERS[BETA]), received(SENT, 1))


def reported_in_the_block_of_its_end(world: World) -> None:
    world.alpha.mine(routed(SENT))
    world.beta.mine(received(SENT, 1), executed(SENT), routed(report_of(SENT)), time=START + POLICY.max_lag)
    world.alpha.mine(received(report_of(SENT), 1), executed(report_of(SENT)), reported(SENT, 1), time=START + 1)


def taken_before_and_after_pauses(world: World) -> None:
    sent = [sent_message(nonce, quorum=1) for nonce in range(1, 5)]
    world.alpha.mine(*[routed(one) for one in sent])
    world.beta.mine(received(sent[0], 1), executed(sent[0]), lane_pause_set(ALPHA, START + 50), time=START + 10)
    world.beta.mine(received(sent[1], 1), executed(sent[1]), gmp_pause_set(1, START + 90), time=START + 50)
    world.beta.mine(received(sent[2], 2), executed(sent[2]), lane_pause_set(GAMMA, START + 90), time=START + 60)
    world.beta.mine(gmp_pause_set(1, START + 70), received(sent[3], 1), executed(sent[3]), time=START + 70)


def executed_with_receipts_beyond_the_policy(world: World) -> None:
    sent = sent_message(quorum=3)
    world.beta.mine(policy_set(sent.recipient, ALPHA, 0b011, quorum=2))
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), received(sent, 3, 2), received(sent, 2, 3), executed(sent))


HONEST = (
    executed_with_receipts_beyond_the_policy,
    cancelled_before_its_creation,
    cancelled_after_its_last_retry,
    retriable_and_dispatched_below_its_quorum,
    refused_with_each_receipt_from_the_quorum_on,
    late_for_the_end_that_it_has,
    received_again_after_a_revocation,
    reported_in_the_block_of_its_end,
    taken_before_and_after_pauses,
)
"""What is next to a contradiction, and is none."""


@pytest.mark.parametrize("history", HONEST, ids=lambda history: history.__name__)
def test_what_honest_routers_emit_is_not_found(world: World, history: Callable[[World], None]) -> None:
    history(world)
    assert world.found() == []


def reports_of_what_is_not_retriable(world: World) -> None:
    """As in `test_TheOutcomeOfAMessageThatIsNotRetriableIsAnEventOnly`."""
    world.alpha.mine(routed(SENT, retriable=False))
    world.beta.mine(received(SENT, 1), executed(SENT))
    world.alpha.mine(reported(SENT, 1), reported(SENT, 1))


def reports_of_the_expiry_of_an_invented_message(world: World) -> None:
    """As in `testFuzz_AnHonestReportOfAMessageThatWasNeverSentRefundsNothing`."""
    world.beta.mine(expired(MORTAL), time=START + 501)
    world.alpha.mine(reported(MORTAL, 2), reported(MORTAL, 2), time=START + 501 + POLICY.max_lag + 1)


def reports_of_the_cancellation_of_an_invented_message(world: World) -> None:
    """As in `test_ACancellationOfAMessageThatWasNeverSentProvesNothing`."""
    world.alpha.mine(cancellation_requested(SENT))
    world.beta.mine(cancelled(SENT))
    world.alpha.mine(reported(SENT, 3), reported(SENT, 3), time=LATER)


OF_STRANGERS: dict[Callable[[World], None], tuple[set[str], Status]] = {
    reports_of_what_is_not_retriable: (set(), Status.EXECUTED),
    reports_of_the_expiry_of_an_invented_message: ({"NEVER_SENT"}, Status.UNKNOWN),
    reports_of_the_cancellation_of_an_invented_message: ({"NEVER_SENT"}, Status.UNKNOWN),
}
"""What anybody can have honest routers emit: by history, what is found, and the message's status."""


@pytest.mark.parametrize("history", OF_STRANGERS, ids=lambda history: history.__name__)
def test_events_caused_by_strangers_raise_no_alarm(world: World, history: Callable[[World], None]) -> None:
    history(world)
    world.beta.mine(time=OVERDUE + 500)
    kinds, status = OF_STRANGERS[history]
    assert {kind for kind, _ in world.found()} == kinds
    with IndexBrowser(world.url, POLICY, clock=lambda: START + 500) as reader:
        (shown,) = reader.messages()
        assert shown.status is status
        found = reader.divergences_of(shown.message_id)
        assert not reader.counts_by_status().get(Status.DIVERGED)
    assert {one.kind for one in found} == kinds
    assert {one.severity for one in found} <= {"low"}
    assert not any(one.is_contradiction or "pause" in one.next_action for one in found)


def test_forged_receipt_does_not_prevent_a_retry(world: World) -> None:
    message = sent_message(quorum=2)
    world.alpha.mine(routed(message, gmps=0b001))
    world.beta.mine(received(message, 2, 1))
    for chain in (world.alpha, world.beta):
        chain.mine(time=OVERDUE)
    assert {kind for kind, _ in world.found()} == {"RECEIPT_OVER_UNUSED_GMP"}
    with IndexReader(world.url, POLICY, clock=lambda: OVERDUE) as reader:
        shown = reader.message(message.id)
    assert shown is not None
    assert shown.status is Status.DIVERGED
    assert request_retries(world.store.engine, POLICY, OVERDUE) == 1


@pytest.mark.parametrize(("outcome", "status"), [(1, Status.EXECUTED), (2, Status.EXPIRED), (3, Status.CANCELLED)])
def test_report_counts_until_its_destination_was_read(world: World, outcome: int, status: Status) -> None:
    world.alpha.mine(routed(SENT))
    world.alpha.mine(reported(SENT, outcome), time=START + 100)
    for seconds, expected in ((100 + POLICY.max_lag, status), (100 + POLICY.max_lag + 1, Status.DIVERGED)):
        world.beta.mine(time=START + seconds)
        kinds = {kind for kind, _ in world.found()}
        with IndexReader(world.url, POLICY, clock=lambda: START + 300) as reader:
            shown = reader.message(SENT.id)
        assert shown is not None
        assert shown.status is expected
        assert kinds == ({"OUTCOME_DIFFERS"} if expected is Status.DIVERGED else set())
        assert request_retries(world.store.engine, POLICY, START + 300) == 0


def test_execution_is_hidden_until_its_creation_is_read(world: World) -> None:
    world.beta.mine(received(SENT, 1), executed(SENT))
    for at, expected in ((START + 1 + POLICY.max_lag, Status.UNKNOWN), (LATER, Status.DIVERGED)):
        world.alpha.mine(time=at)
        world.found()
        with IndexReader(world.url, POLICY, clock=lambda: START + 50) as reader:
            shown = reader.message(SENT.id)
        assert shown is not None
        assert shown.status is expected


def test_every_kind_has_a_meaning_and_a_test() -> None:
    seeded = set(OF_A_MESSAGE.values()) | {"NONCE_GAP", "FAN_OUT_DIFFERS", "LANE_DIFFERS"}
    seeded |= set().union(*(kinds for kinds, _ in OF_STRANGERS.values()))
    seeded |= set().union(*NO_HONEST_ROUTER.values())
    elsewhere = {"FINALITY_VIOLATED"}  # test_repair
    assert seeded | elsewhere == MEANINGS.keys()
