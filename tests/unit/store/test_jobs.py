from __future__ import annotations

from bridge.protocol.gmps import Gmp
from bridge.records.jobs import RetryJob, RetryState, totals
from bridge.store import Store
from tests.builders import message, retry_request, word


def only(store: Store, now: float = 100) -> RetryJob:
    (job,) = store.jobs.due(RetryJob, now, 10)
    return job


def test_a_request_copied_twice_is_one_job(store: Store) -> None:
    store.jobs.copy_requests([retry_request(1)], 1, now=50)
    assert store.jobs.copy_requests([retry_request(9)], 9, now=60) == 0
    assert only(store).request.sequence == 1


def test_the_cursor_can_go_back_when_the_index_was_built_again(store: Store) -> None:
    store.jobs.copy_requests([retry_request(7)], 7, now=50)
    store.jobs.copy_requests([], 0, now=60)
    assert store.jobs.request_cursor() == 0


def test_a_message_has_one_retry_at_a_time(store: Store) -> None:
    store.jobs.copy_requests(
        [retry_request(1), retry_request(2, generation=1), retry_request(3, message(2))], 3, now=50
    )
    first, other_message = store.jobs.due(RetryJob, 100, 10)
    assert (first.request.generation, other_message.request.message_id) == (0, message(2).id)
    assert store.jobs.save(first.start(frozenset({Gmp.AXELAR})), fence=first.fence)
    second = next(job for job in store.jobs.of_message(RetryJob, message().id) if job.request.generation == 1)
    assert store.jobs.save(second.start(frozenset({Gmp.AXELAR})), fence=second.fence) is False


def test_of_two_that_end_the_same_job_one_is_refused(store: Store) -> None:
    store.jobs.copy_requests([retry_request()], 1, now=50)
    sending = only(store).start(frozenset({Gmp.AXELAR}))
    store.jobs.save(sending, fence=0)
    assert store.jobs.save(
        sending.settled(RetryState.SENT, "attempt 1", 60, transaction_hash=word("tx")), fence=sending.fence
    )
    assert not store.jobs.save(sending.settled(RetryState.NOT_NEEDED, "executed", 61), fence=sending.fence)
    (job,) = store.jobs.of_message(RetryJob, message().id)
    assert (job.state, job.outcome, job.transaction_hash, job.finished_at) == (
        RetryState.SENT,
        "attempt 1",
        word("tx"),
        60,
    )
    assert store.jobs.due(RetryJob, 1e9, 10) == []
    assert totals(store.jobs.counts(RetryJob)) == {RetryState.SENT: 1}


def test_ended_retries_are_forgotten_with_age(store: Store) -> None:
    store.jobs.copy_requests([retry_request(1), retry_request(2, message(2))], 2, now=50)
    ended, open_one = store.jobs.due(RetryJob, 100, 10)
    sending = ended.start(frozenset({Gmp.AXELAR}))
    store.jobs.save(sending, fence=ended.fence)
    store.jobs.save(sending.settled(RetryState.SENT, "attempt 1", 60, transaction_hash=word("tx")), fence=sending.fence)
    assert [store.jobs.forget_retries(before, 9) for before in (60, 61, 10**9)] == [0, 1, 0]
    assert [job.message_id for job in store.jobs.due(RetryJob, 100, 10)] == [open_one.message_id]
