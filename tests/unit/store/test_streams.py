"""What the store's triggers record, in which order it is given out, and that nothing is given out twice or lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.records.dead_letters import Draft, LogRecord, RecordKind
from bridge.records.jobs import RetryJob, RetryState
from bridge.records.observations import BlockRef
from bridge.records.outbox import Dead, Delivered, ObservedDelivery, TryAgain
from bridge.records.streams import REFUSED, Change, Stream, StreamRecord, original_of
from bridge.store import Store
from bridge.store.backup import back_up, restore
from bridge.store.streams import stream_records
from bridge.store.tables import messages
from tests.builders import ALPHA, BETA, block, message, observed_range, retry_request, word

NOW = 1_700_000_000.0


@pytest.fixture
def recording(url: str) -> Iterator[Store]:
    with closing(Store(url)) as store:
        store.streams.start()
        yield store


def claim(store: Store, holder: str = "one", *, now: float = NOW, limit: int = 100) -> list[StreamRecord] | None:
    return store.streams.claim(holder, now=now, lease=30, limit=limit)


def claimed(store: Store, **terms: Any) -> list[StreamRecord]:
    found = claim(store, **terms)
    assert found is not None
    return found


def events(store: Store) -> list[tuple[str, str]]:
    return [(one.stream.value, one.event) for one in claimed(store)]


def failure(at: float = 200) -> Failure:
    return Failure(at=at, kind=FailureKind.TRANSIENT, code="TransientError", message="no answer")


def letter(sequence: int, kind: RecordKind = RecordKind.ENTERED) -> LogRecord:
    event_id = f"0x{message().id.hex()}/axelar/0"
    draft = Draft(key=f"{kind}/{sequence}", kind=kind, event_id=event_id, at=NOW, document={"number": sequence})
    return LogRecord.of(draft, sequence, bytes(32))


def test_delivery_steps_are_recorded_in_order(recording: Store) -> None:
    sent = message()
    recording.observations.record(observed_range(sent))
    outbox = recording.outbox

    def claimed_entry(now: float) -> Any:
        (entry,) = outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=now, lease=30)
        return entry.current_claim

    outbox.finish([TryAgain(claimed_entry(200), failure(), available_at=210)], 200)
    outbox.finish([Dead(claimed_entry(210), failure(211))], 211)
    entry = outbox.replay(f"0x{sent.id.hex()}/hyperlane/0", "by hand", 220)
    outbox.finish([Delivered(claimed_entry(220), ObservedDelivery(block(5, "beta"), word("tx")))], 221)
    outbox.confirm([entry.event_id], 230)
    records = claimed(recording)
    assert [one.event for one in records if one.event != "EXECUTE"] == [
        "ROUTED", "ATTEMPTED", "DISPATCHED", "FAILED", "DEAD", "FAILED", "REOPENED", "DELIVERED", "FINAL",
    ]  # fmt: skip
    assert {one.key for one in records} == {f"0x{sent.id.hex()}"}
    assert [one.version for one in records] == sorted({one.version for one in records})
    facts = {one.event: one.data for one in records}
    assert facts["ROUTED"]["envelope"] == f"0x{sent.encode().hex()}"
    assert facts["ROUTED"]["nonce"] == sent.nonce
    assert facts["ATTEMPTED"] == {
        "attempt": 0,
        "gmps": 1,
        "block": 10,
        "transaction": f"0x{word('transaction of 1').hex()}",
    }
    assert (facts["FAILED"]["code"], facts["FAILED"]["try"], facts["FAILED"]["error"]) == (
        "TransientError",
        2,
        "no answer",
    )
    assert facts["DEAD"]["transaction"] is None
    assert facts["DELIVERED"]["transaction"] == f"0x{word('tx').hex()}"


def test_a_reorg_is_recorded(recording: Store) -> None:
    recording.observations.record(observed_range(message(1), message(2)))
    recording.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=30)
    before = len(claimed(recording))
    recording.observations.rewind(ALPHA, BlockRef(9, word("nine")), 300)
    assert events(recording)[before:] == [("messages", "ORPHANED")] * 2


def test_retry_requests_have_a_stream_of_their_own(recording: Store) -> None:
    request = retry_request(7)
    recording.jobs.copy_requests([request], 7, now=50)
    (job,) = recording.jobs.due(RetryJob, 100, 10)
    assert recording.jobs.save(job.start(frozenset({Gmp.AXELAR})), fence=job.fence)
    found = claimed(recording)
    assert [(one.stream, one.event, one.data["state"]) for one in found] == [
        (Stream.RETRIES, "RETRY", RetryState.OPEN),
        (Stream.RETRIES, "RETRY", RetryState.SENDING),
    ]
    assert found[0].data["detail"]["reason"] == request.reason


def test_record_versions_are_kept_and_grow(recording: Store) -> None:
    recording.observations.record(observed_range(message()))
    first = claimed(recording, limit=2)
    assert claimed(recording, limit=2) == first
    assert first[0].version == int(NOW * 1_000_000)
    recording.streams.sent(first[-1].version)
    (last,) = claimed(recording, limit=2, now=NOW - 3_600)  # a clock that was put back
    assert last.version == first[-1].version + 1
    recording.streams.sent(last.version)
    recording.streams.sent(first[-1].version)  # a worker that lost its lease comes late
    status = recording.streams.status()
    assert (status.waiting, status.sent["messages"], status.version) == (0, 3, last.version)
    assert claimed(recording) == []


def test_a_change_that_does_not_commit_leaves_no_record(recording: Store) -> None:
    with pytest.raises(RuntimeError, match="power"):
        write_and_fail(recording)
    assert claimed(recording) == []


def write_and_fail(store: Store) -> None:
    with store.streams._database.transaction() as connection:
        row = {"message_id": word("m"), "envelope": b"e", "source_chain": 1, "destination_chain": 2, "sender": b"s"}
        connection.execute(insert(messages).values(**row, nonce=1, observed_at=1.0))
        assert connection.execute(select(func.count()).select_from(stream_records)).scalar() == 1
        raise RuntimeError("power")


def test_what_commits_late_is_sent_after_what_was_sent_before(recording: Store) -> None:
    """On PostgreSQL a row with a lower number may become visible later: no reader may have gone past it."""
    database = recording.observations._database
    if database.engine.dialect.name == "sqlite":
        return  # its writers wait for each other: there is no such row
    row = "INSERT INTO stream_records (stream, key, event, at, data) VALUES ('messages', 'k', '{}', 1, '{{}}')"
    with database.transaction() as slow:
        slow.exec_driver_sql(row.format("EARLY"))
        with database.transaction() as quick:
            quick.exec_driver_sql(row.format("LATE"))
        (late,) = claimed(recording)
        recording.streams.sent(late.version)
    (early,) = claimed(recording)
    assert (early.event, late.event) == ("EARLY", "LATE")
    assert early.version > late.version


def test_one_worker_publishes_until_its_lease_ends(recording: Store) -> None:
    recording.observations.record(observed_range(message()))
    first = claimed(recording, holder="one")
    assert claim(recording, "two", now=NOW + 29) is None
    assert claimed(recording, holder="two", now=NOW + 31) == first
    assert recording.streams.is_leased_to("two")
    assert claim(recording, "one", now=NOW + 32) is None


def test_a_halt_holds_everything_until_it_is_resumed(recording: Store) -> None:
    recording.observations.record(observed_range(message()))
    recording.streams.halt("the topic is gone")
    assert claim(recording) is None
    assert recording.streams.status().halted == "the topic is gone"
    assert recording.streams.resume()
    assert not recording.streams.resume()
    assert len(claimed(recording)) == 3


def test_dead_letters_are_copied_once(recording: Store) -> None:
    recording.streams.copy([letter(1), letter(2, RecordKind.DECIDED)])
    recording.streams.copy([letter(2, RecordKind.DECIDED), letter(3, RecordKind.RETURNED)])
    assert recording.streams.cursor() == 3
    found = claimed(recording)
    assert [one.event for one in found] == ["ENTERED", "DECIDED", "RETURNED"]
    assert {one.key for one in found} == {f"0x{message().id.hex()}"}
    assert [original_of(one) for one in found] == [{"number": 1}, None, {"number": 3}]


def test_divergence_is_recorded_at_begin_and_end(recording: Store) -> None:
    gap = Change(stream=Stream.DIVERGENCES, key="lane", event="FOUND", at=NOW, data={"kind": "NONCE_GAP"})
    for found in ({"gap": gap}, {"gap": gap}, {}, {}):
        recording.streams.compare(found)
    assert [(one.event, one.data) for one in claimed(recording)] == [
        ("FOUND", {"kind": "NONCE_GAP"}),
        ("ENDED", {"kind": "NONCE_GAP"}),
    ]


def test_nothing_is_recorded_before_the_start_nor_after_the_stop(url: str) -> None:
    with closing(Store(url)) as store:
        store.observations.record(observed_range(message(1)))
        store.streams.start()
        store.streams.start()
        store.streams.stop()
        store.observations.record(observed_range(message(2), previous=block(10), position=block(11)))
        assert claimed(store) == []
        assert not store.streams.status().recording
        assert store.streams.status().sent == dict.fromkeys([*Stream, REFUSED], 0)


def test_restored_store_records_only_what_is_new(url: str, tmp_path: Path) -> None:
    with closing(Store(url)) as store:
        store.streams.start()
        store.observations.record(observed_range(message(1)))
        (old, *_) = before = claimed(store)
        backup = tmp_path / "backup.db"
        back_up(url, backup)
        store.streams.sent(before[-1].version)
    restore(backup, url, replace=True)
    with closing(Store(url)) as store:
        assert claimed(store, holder="one") == before
        store.streams.sent(before[-1].version)
        store.streams.start()
        store.observations.record(observed_range(message(2), previous=block(10), position=block(11)))
        after = claimed(store, now=NOW + 10)
    assert {one.key for one in after} == {f"0x{message(2).id.hex()}"}
    assert min(one.version for one in after) > old.version
