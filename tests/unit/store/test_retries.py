from __future__ import annotations

import pytest

from bridge.protocol.gmps import Gmp
from bridge.records import Store
from bridge.records.retries import RetryJob, RetryLimits, RetryPayment, RetryState
from tests.builders import ALPHA, BETA, message, retry_request, word


def only(store: Store, now: float = 100) -> RetryJob:
    (job,) = store.retries.due(now, 10)
    return job


def test_copied_requests_come_back_as_they_were_and_the_cursor_moves_with_them(store: Store) -> None:
    request = retry_request(7)
    assert store.retries.cursor() == 0
    assert store.retries.copy([request], 7, now=50) == 1
    assert store.retries.cursor() == 7
    job = only(store)
    assert (job.request, job.state, job.available_at) == (request, RetryState.OPEN, 50)


def test_a_request_copied_twice_is_one_job(store: Store) -> None:
    store.retries.copy([retry_request(1)], 1, now=50)
    assert store.retries.copy([retry_request(9)], 9, now=60) == 0
    assert only(store).request.sequence == 1


def test_the_cursor_can_go_back_when_the_index_was_built_again(store: Store) -> None:
    store.retries.copy([retry_request(7)], 7, now=50)
    store.retries.copy([], 0, now=60)
    assert store.retries.cursor() == 0


def test_a_job_that_is_put_off_waits(store: Store) -> None:
    store.retries.copy([retry_request()], 1, now=50)
    assert store.retries.save(only(store).put_off("no funds", 200), expected=RetryState.OPEN)
    assert store.retries.due(199, 10) == []
    job = only(store, 200)
    assert (job.state, job.outcome, job.tries) == (RetryState.OPEN, "no funds", 1)


def test_a_message_has_one_retry_at_a_time(store: Store) -> None:
    store.retries.copy([retry_request(1), retry_request(2, generation=1), retry_request(3, message(2))], 3, now=50)
    first, other_message = store.retries.due(100, 10)
    assert (first.request.generation, other_message.request.message_id) == (0, message(2).id)
    assert store.retries.save(first.began(frozenset({Gmp.AXELAR})), expected=RetryState.OPEN)
    second = next(job for job in store.retries.jobs(message().id) if job.request.generation == 1)
    assert not store.retries.save(second.began(frozenset({Gmp.AXELAR})), expected=RetryState.OPEN)


def test_a_retry_under_way_is_found_again_after_a_crash(store: Store) -> None:
    store.retries.copy([retry_request()], 1, now=50)
    store.retries.save(only(store).began(frozenset({Gmp.AXELAR})), expected=RetryState.OPEN)
    job = only(store, now=0)
    assert (job.state, job.gmps) == (RetryState.SENDING, frozenset({Gmp.AXELAR}))


def test_of_two_that_end_the_same_job_one_is_refused(store: Store) -> None:
    store.retries.copy([retry_request()], 1, now=50)
    sending = only(store).began(frozenset({Gmp.AXELAR}))
    store.retries.save(sending, expected=RetryState.OPEN)
    assert store.retries.save(sending.ended(RetryState.SENT, "attempt 1", 60, word("tx")), expected=RetryState.SENDING)
    assert not store.retries.save(sending.ended(RetryState.UNNEEDED, "executed", 61), expected=RetryState.SENDING)
    (job,) = store.retries.jobs(message().id)
    assert (job.state, job.outcome, job.transaction_hash, job.finished_at) == (
        RetryState.SENT,
        "attempt 1",
        word("tx"),
        60,
    )
    assert store.retries.due(1e9, 10) == []
    assert store.retries.counts() == {RetryState.SENT: 1}


def test_a_retry_that_ended_can_not_begin_again(store: Store) -> None:
    store.retries.copy([retry_request()], 1, now=50)
    ended = only(store).ended(RetryState.IMPOSSIBLE, "not retriable", 60)
    with pytest.raises(ValueError, match="IMPOSSIBLE"):
        ended.began(frozenset())


DAY = 86_400.0
ETHER = 10**18


def payment(
    attempt: int = 1, nonce: int = 1, *, destination: int = BETA, wei: int = ETHER, at: float = 10.0
) -> RetryPayment:
    return RetryPayment(
        message_id=message(nonce).id,
        attempt=attempt,
        source_chain=ALPHA,
        destination_chain=destination,
        wei=wei,
        at=at,
    )


def test_a_message_is_retried_only_so_often(store: Store) -> None:
    limits = RetryLimits(retries=2)
    assert [store.retries.commit(payment(attempt), limits) for attempt in (1, 2)] == [None, None]
    assert store.retries.commit(payment(3), limits) == "it was retried 2 times, and max_message_retries is 2"
    assert store.retries.commit(payment(1, nonce=2), limits) is None, "another message has its own"


def test_all_retries_of_a_message_together_cost_no_more_than_the_limit(store: Store) -> None:
    limits = RetryLimits(message=100 * ETHER)  # more wei than 64 bits hold
    assert store.retries.commit(payment(1, wei=99 * ETHER), limits) is None
    refusal = store.retries.commit(payment(2, wei=ETHER + 1, at=3 * DAY), limits)
    assert refusal == f"all its retries would cost {100 * ETHER + 1} wei, and max_message_retry_fee is {100 * ETHER}"
    assert store.retries.commit(payment(2, wei=ETHER, at=3 * DAY), limits) is None


def test_all_retries_of_a_lane_together_cost_no_more_than_the_limit_of_the_day(store: Store) -> None:
    limits = RetryLimits(lane=2 * ETHER)
    assert [store.retries.commit(payment(1, nonce), limits) for nonce in (1, 2)] == [None, None]
    refusal = store.retries.commit(payment(1, nonce=3, wei=1, at=DAY - 1), limits)
    assert refusal == f"retries of its lane would cost {2 * ETHER + 1} wei today, and retry_limits allows {2 * ETHER}"
    assert store.retries.commit(payment(1, nonce=4, destination=BETA + 1), limits) is None, "another lane has its own"
    assert store.retries.commit(payment(1, nonce=3, at=DAY), limits) is None, "and so has the next day"


def test_an_attempt_committed_again_counts_once_and_one_that_was_not_made_not_at_all(store: Store) -> None:
    limits = RetryLimits(retries=1, message=2 * ETHER, lane=2 * ETHER)
    for wei in (ETHER, 2 * ETHER):
        assert store.retries.commit(payment(1, wei=wei), limits) is None
    assert store.retries.commit(payment(2), limits) is not None
    store.retries.withdraw(message(1).id, 1)
    assert store.retries.commit(payment(2), limits) is None
