"""When a message counts as stalled, and which retry requests are written for it, in simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from indexer.model.settings import StallPolicy
from indexer.store.limits import set_limits
from indexer.store.reader import IndexReader
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.unit.indexer.clock import POLICY, World, indexed_world
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    apply,
    cancellation_requested,
    executed,
    failed,
    gmp_pause_set,
    lane_pause_set,
    received,
    retried,
    routed,
    sent_message,
    unfunded,
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with indexed_world(tmp_path) as made:
        yield made


def test_message_is_stalled_once_read_past_its_deadline(world: World) -> None:
    sent = world.send(sent_message())
    world.let_pass(99)
    assert (world.status(sent), world.ask()) == (Status.ROUTED, 0)
    world.let_pass(1)
    assert (world.status(sent), world.ask()) == (Status.STALLED, 1)
    world.let_pass(400 * 86_400)
    assert world.status(sent) is Status.STALLED, "its GMP may keep it for ever"


def test_a_request_says_what_the_bridge_must_know(world: World) -> None:
    sent = world.send(sent_message(quorum=2), gmps=0b011)
    world.happens(world.beta, received(sent, 1))
    world.let_pass(100)
    world.ask()
    (request,) = world.requests()
    assert request.message_id == sent.id
    assert (request.attempt, request.generation) == (1, 0)
    assert (request.source_chain, request.destination_chain) == (sent.source_chain, sent.destination_chain)
    assert request.received_gmps == frozenset({Gmp.HYPERLANE})
    assert request.missing_gmps == frozenset({Gmp.AXELAR})
    assert (request.cause_block, request.requested_at) == (1, world.now)
    assert request.reason == "1 of 2 receipts 100 s after the route; silent: Axelar"


def test_attempt_has_one_request(world: World) -> None:
    world.send(sent_message())
    for _ in range(5):
        world.let_pass(100)
        world.ask()
    assert len(world.requests()) == 1


def test_retry_closes_the_request_and_sets_a_deadline(world: World) -> None:
    sent = world.send(sent_message())
    world.let_pass(100)
    assert world.ask() == 1
    world.happens(world.alpha, retried(sent, 1))
    world.let_pass(199)
    assert (world.status(sent), world.ask()) == (Status.ROUTED, 0)
    world.let_pass(1)
    assert world.ask() == 1
    assert [(request.attempt, request.generation) for request in world.requests()] == [(1, 0), (2, 0)]


def test_a_store_made_anew_goes_on_with_higher_sequences(world: World, tmp_path: Path) -> None:
    world.send(sent_message())
    world.let_pass(100)
    world.ask()
    (before,) = world.requests()
    again = Store(f"sqlite:///{tmp_path / 'again.db'}")
    for chain in (world.alpha, world.beta):
        apply(again, chain)
    request_retries(again.engine, POLICY, world.now)
    again.close()
    with IndexReader(f"sqlite:///{tmp_path / 'again.db'}", POLICY) as reader:
        (after,) = reader.retry_requests()
    assert after.sequence > before.sequence
    assert (after.message_id, after.attempt, after.generation) == (before.message_id, 1, 0)


def test_frozen_destination_gives_unknown_and_no_request(world: World) -> None:
    late = world.send(sent_message(1))
    for minute in range(60):
        world.send(sent_message(minute + 2))
        world.let_pass(60, world.alpha)
        assert world.ask() == 0
    assert world.status(late) is Status.UNKNOWN
    assert world.requests() == []


def test_delivered_messages_get_no_request_after_a_freeze(world: World) -> None:
    arrived, stalled = world.send(sent_message(1, quorum=1)), world.send(sent_message(2))
    world.let_pass(3600, world.alpha)
    world.ask()
    world.happens(world.beta, received(arrived, 1), executed(arrived))
    assert world.ask() == 1
    assert [request.message_id for request in world.requests()] == [stalled.id]


def test_frozen_source_gives_no_request(world: World) -> None:
    sent = world.send(sent_message())
    world.let_pass(3600, world.beta)
    assert (world.status(sent), world.ask()) == (Status.UNKNOWN, 0)


def test_messages_that_no_retry_can_help_get_no_request(world: World) -> None:
    elsewhere = world.send(sent_message(1, destination_chain=999))
    refused, done = world.send(sent_message(2, quorum=2)), world.send(sent_message(3, quorum=1))
    unretriable = world.send(sent_message(4), retriable=False)
    mortal = world.send(sent_message(5, ttl=50, sent_at=START))
    cancelled, unpaid = world.send(sent_message(6)), sent_message(7)
    world.happens(world.alpha, cancellation_requested(cancelled), unfunded(unpaid))
    world.happens(world.beta, received(refused, 1), received(refused, 2, receipts=2), failed(refused))
    world.happens(world.beta, received(done, 1), executed(done))
    world.let_pass(1_000)
    expected = {
        elsewhere: Status.UNKNOWN,
        refused: Status.EXECUTION_FAILED,
        done: Status.EXECUTED,
        unretriable: Status.STALLED,
        mortal: Status.EXPIRED,
        cancelled: Status.ROUTED,
        unpaid: Status.UNFUNDED,
    }
    assert {sent: world.status(sent) for sent in expected} == expected
    assert world.ask() == 0


def test_expiry_is_not_put_off_by_pauses(world: World) -> None:
    sent = world.send(sent_message(ttl=50, quorum=1), retriable=False)
    world.let_pass(10)
    world.happens(world.beta, lane_pause_set(sent.source_chain, world.now + 100), gmp_pause_set(2, world.now + 100))
    world.let_pass(40)
    assert world.status(sent) is Status.ROUTED
    world.let_pass(1)
    assert world.status(sent) is Status.EXPIRED


def test_a_lane_pause_ended_early_counts_only_that_long(world: World) -> None:
    sent = world.send(sent_message())
    world.happens(world.beta, lane_pause_set(999, world.now + 1_000))
    world.happens(world.beta, lane_pause_set(sent.source_chain, world.now + 1_000))
    world.let_pass(10)
    world.happens(world.beta, lane_pause_set(sent.source_chain, world.now))
    world.let_pass(99)
    assert world.status(sent) is Status.ROUTED
    world.let_pass(1)
    assert world.status(sent) is Status.STALLED


def test_paused_time_does_not_count_for_a_retry(world: World) -> None:
    sent = world.send(sent_message())
    world.happens(world.beta, lane_pause_set(sent.source_chain, world.now + 60), gmp_pause_set(1, world.now + 900))
    world.let_pass(159)
    assert (world.status(sent), world.ask()) == (Status.ROUTED, 0)
    world.let_pass(1)
    assert (world.status(sent), world.ask()) == (Status.STALLED, 1)


def test_lane_limit_precedes_kind_and_general_limit(world: World) -> None:
    query, plain = sent_message(1, kind=Kind.QUERY), sent_message(2)
    for sent in (query, plain):
        world.send(sent)
    set_limits(world.store.engine, replace(POLICY, by_kind={Kind.QUERY: 10}))
    world.let_pass(10)
    assert (world.status(query), world.status(plain)) == (Status.STALLED, Status.ROUTED)
    set_limits(world.store.engine, replace(POLICY, by_kind={Kind.QUERY: 10}, by_lane={(ALPHA, BETA): 20}))
    assert (world.status(query), world.status(plain)) == (Status.ROUTED, Status.ROUTED)
    world.let_pass(10)
    assert (world.status(query), world.status(plain)) == (Status.STALLED, Status.STALLED)
    set_limits(world.store.engine, POLICY)
    assert (world.status(query), world.status(plain)) == (Status.ROUTED, Status.ROUTED)


def test_attempts_are_limited_with_growing_deadlines(
    world: World,
) -> None:
    sent = world.send(sent_message())
    policy = replace(POLICY, max_message_retries=5)
    for attempt, factor in enumerate((1, 2, 4, 8, 8), start=1):
        world.let_pass(100 * factor - 1)
        assert (world.status(sent), world.ask(policy)) == (Status.ROUTED, 0)
        world.let_pass(1)
        assert (world.status(sent), world.ask(policy)) == (Status.STALLED, 1)
        world.happens(world.alpha, retried(sent, attempt))
    world.let_pass(5_000)
    assert (world.status(sent), world.ask(policy)) == (Status.STALLED, 0)


def test_zero_retries_request_only_critical_actions(world: World) -> None:
    world.send(sent_message(1))
    critical = world.send(sent_message(2, kind=Kind.REGULATORY_ACTION_CRITICAL))
    world.let_pass(100)
    assert world.ask(replace(POLICY, max_message_retries=0)) == 1
    assert [request.message_id for request in world.requests()] == [critical.id]


def test_kind_limits_its_requests_and_heartbeats_get_none(world: World) -> None:
    query, heartbeat = sent_message(1, kind=Kind.QUERY), sent_message(2, kind=Kind.HEARTBEAT)
    lost = sent_message(3, kind=Kind.ACK)
    for sent in (query, heartbeat, lost):
        world.send(sent)
    policy = replace(POLICY, retries_by_kind={Kind.HEARTBEAT: 0, Kind.QUERY: 1})
    world.let_pass(100)
    assert (world.status(heartbeat), world.ask(policy)) == (Status.STALLED, 2)
    world.happens(world.alpha, retried(query, 1), executed(lost))
    world.let_pass(200)
    assert (world.status(query), world.ask(policy)) == (Status.STALLED, 0)
    assert {request.message_id for request in world.requests()} == {query.id, lost.id}
    assert (POLICY.retries_of(Kind.HEARTBEAT), POLICY.retries_of(Kind.ACK)) == (0, POLICY.max_message_retries)


def test_critical_action_is_requested_without_end(
    world: World,
) -> None:
    critical = world.send(sent_message(1, kind=Kind.REGULATORY_ACTION_CRITICAL))
    other = world.send(sent_message(2, kind=Kind.REGULATORY_ACTION))
    policy = StallPolicy(stall_after=100, max_lag=10_000, max_message_retries=2)
    for attempt in range(1, 11):
        world.let_pass(100 * min(2 ** (attempt - 1), 8) - 1)
        assert (world.status(critical), world.ask(policy)) == (Status.ROUTED, 0)
        world.let_pass(1)
        assert (world.status(critical), world.ask(policy)) == (Status.STALLED, 2 if attempt <= 2 else 1)
        world.happens(world.alpha, retried(critical, attempt), *([retried(other, attempt)] if attempt <= 2 else []))
    asked = [request.message_id for request in world.requests()]
    assert (asked.count(critical.id), asked.count(other.id)) == (10, 2)


def test_reorged_retry_opens_a_new_generation(world: World) -> None:
    sent = world.send(sent_message())
    world.let_pass(100)
    world.ask()
    world.happens(world.alpha, retried(sent, 1))
    assert world.ask() == 0
    world.alpha.reorganise(1)
    world.happens(world.alpha)
    assert world.ask() == 1
    assert [(request.attempt, request.generation) for request in world.requests()] == [(1, 0), (1, 1)]
    assert world.ask() == 0


def test_reorged_execution_opens_a_new_generation(world: World) -> None:
    sent = world.send(sent_message(quorum=1))
    world.let_pass(100)
    world.ask()
    world.happens(world.beta, received(sent, 1), executed(sent))
    world.beta.reorganise(1)
    world.happens(world.beta)
    assert world.ask() == 1
    assert [(request.attempt, request.generation) for request in world.requests()] == [(1, 0), (1, 1)]


def test_a_reorg_that_moves_the_cause_opens_a_new_generation(world: World) -> None:
    sent = world.send(sent_message())
    world.let_pass(100)
    world.ask()
    world.alpha.reorganise(10)
    world.happens(world.alpha, routed(sent))
    world.let_pass(100)
    assert world.ask() == 1
    _, second = world.requests()
    assert (second.attempt, second.generation) == (1, 1)


def test_reorged_message_leaves_no_request(world: World) -> None:
    sent = world.send(sent_message())
    world.let_pass(100)
    world.alpha.reorganise(10)
    world.happens(world.alpha)
    world.let_pass(100)
    assert (world.status(sent), world.ask()) == (Status.ORPHANED, 0)
