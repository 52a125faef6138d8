"""What consumers read: every record, in each message's order; with transactions once. Whatever dies, and whenever."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from bridge.protocol.gmps import Gmp
from bridge.records.jobs import RetryJob
from bridge.records.outbox import Delivered, ObservedDelivery
from bridge.records.streams import Stream, StreamRecord, value_of
from bridge.store import Store
from bridge.store.streams import stream_records
from bridge.streams.settings import Semantics
from tests import seeds
from tests.builders import BETA, block, message, observed_range, retry_request, word
from tests.kafka.broker import Broker, Record
from tests.kafka.life import NOTING, History, begin, live, new_history, publish_all, publisher

pytestmark = pytest.mark.long

STRIDE = 5
"""Every fifth step, from one that is drawn: all of them take a quarter of an hour."""
BOTH = pytest.mark.parametrize("semantics", list(Semantics))
Events = dict[str, list[str]]


def happen(history: History, first: int, messages: int) -> None:
    """Messages are routed, delivered and retried."""
    with closing(Store(history.url)) as store:
        sent = [message(first + place) for place in range(messages)]
        previous = None if first == 1 else block(first)
        store.observations.record(observed_range(*sent, previous=previous, position=block(first + messages)))
        claimed = store.outbox.claim(
            worker="w", destination_chain=BETA, gmps=set(Gmp), limit=messages, now=1_000 + first, lease=30
        )
        delivery = ObservedDelivery(block(5, "beta"), word("tx"))
        store.outbox.finish([Delivered(one.current_claim, delivery) for one in claimed], 1_001 + first)
        store.jobs.copy_requests([retry_request(first, sent[0])], first, now=50)
        assert len(store.jobs.of_message(RetryJob, sent[0].id)) == 1


def recorded(history: History) -> Events:
    """What the store has recorded and not sent: the events of each stream and message, in their order."""
    found: Events = defaultdict(list)
    with closing(Store(history.url)) as store:
        query = select(stream_records.c.stream, stream_records.c.key, stream_records.c.event)
        for stream, key, event in store.streams._database.rows(query.order_by(stream_records.c.sequence)):
            found[f"{stream} {key}"].append(event)
    return dict(found)


def documents(history: History) -> list[Any]:
    """What the records that wait are to say, but for the version that each gets when it is sent."""
    with closing(Store(history.url)) as store:
        rows = list(store.streams._database.read(select(stream_records).order_by(stream_records.c.sequence)))
    return [
        orjson.loads(
            value_of(
                StreamRecord(
                    version=0,
                    stream=Stream(row["stream"]),
                    key=row["key"],
                    event=row["event"],
                    at=row["at"],
                    data=orjson.loads(row["data"]),
                )
            )
        )
        for row in rows
    ]


def read(records: Iterable[Record], *, once: bool) -> Events:
    """What arrived, by stream and message; each record must be there once, or else its first copies count."""
    found: Events = defaultdict(list)
    highest: dict[str, int] = defaultdict(int)
    seen: set[tuple[str, int]] = set()
    for record in records:
        document = record.document
        about = f"{document['stream']} {record.key}"
        place = (about, document["version"])
        assert record.key == document["key"]
        if place in seen:
            assert not once, f"{about} has version {document['version']} twice"
            continue
        assert document["version"] > highest[about], f"{about} is out of order"
        highest[about] = document["version"]
        seen.add(place)
        found[about].append(document["event"])
    return dict(found)


def all_arrived(broker: Broker, history: History, expected: Events) -> None:
    is_once = history.settings.is_exactly_once
    assert read(broker.records(*history.topics), once=is_once) == expected
    with closing(Store(history.url)) as store:
        status = store.streams.status()
    assert (status.waiting, status.halted) == (0, "")
    assert sum(status.sent.values()) == sum(map(len, expected.values()))


@BOTH
def test_all_records_arrive_in_each_messages_order(broker: Broker, tmp_path: Path, semantics: Semantics) -> None:
    history = new_history(tmp_path, broker.servers, semantics)
    happen(history, 1, 10)
    expected, said = recorded(history), documents(history)
    with publisher(history) as (made, streams):
        publish_all(made, streams)
    all_arrived(broker, history, expected)
    arrived = sorted((one.document for one in broker.records(*history.topics)), key=lambda one: one["version"])
    assert [{**one, "version": 0} for one in arrived] == said, "whatever the guarantee"
    (first, *_) = broker.records(history.topics[0])
    assert first.headers == {
        "content-type": "application/json",
        "waybill-stream": "messages",
        "waybill-event": first.document["event"],
        "waybill-version": str(first.document["version"]),
    }


def die_before(broker: Broker, folder: Path, semantics: Semantics, step: int) -> bool:
    """Two lives, the first of which dies before that step; whether it came so far."""
    history = new_history(folder, broker.servers, semantics)
    happen(history, 1, 3)
    expected = recorded(history)
    died = live(history, step)
    assert died or not recorded(history)
    assert not live(history)
    all_arrived(broker, history, expected)
    broker.delete_topics()
    return died


@BOTH
@pytest.mark.timeout(1_800)
def test_publisher_that_dies_before_any_step_loses_nothing(
    broker: Broker, tmp_path: Path, semantics: Semantics
) -> None:
    assert die_before(broker, tmp_path, semantics, NOTING)
    step = seeds.dice("steps of a publisher").randrange(STRIDE)
    while die_before(broker, tmp_path, semantics, step):
        step += STRIDE
    assert step > 40


def storm(broker: Broker, folder: Path, semantics: Semantics, kills: int, seed: int) -> None:
    """Records are made while publisher and broker are killed at random moments."""
    draw = random.Random(seed)
    history = new_history(folder, broker.servers, semantics)
    expected: Events = defaultdict(list)
    life = begin(history, for_ever=True)
    for number in range(kills):
        happen(history, 1 + 5 * number, 5)
        life.join(draw.uniform(0, 0.6))
        if draw.random() < 0.5:
            life.kill()
            life.join()
            life = begin(history, for_ever=True)
        else:
            broker.kill()
            life.join(draw.uniform(0, 0.6))
            broker.start()
    life.kill()
    life.join()
    assert not live(history)
    found = read(broker.records(*history.topics), once=history.settings.is_exactly_once)
    for number in range(kills):
        for nonce in range(1 + 5 * number, 6 + 5 * number):
            key = f"0x{message(nonce).id.hex()}"
            expected[f"messages {key}"] = ["ROUTED", "ATTEMPTED", "DISPATCHED", "DELIVERED", "EXECUTE"]
        expected[f"retries 0x{message(1 + 5 * number).id.hex()}"] = ["RETRY"]
    assert found == expected
    broker.delete_topics()


@BOTH
def test_records_arrive_though_broker_and_publisher_die(broker: Broker, tmp_path: Path, semantics: Semantics) -> None:
    storm(broker, tmp_path, semantics, kills=4, seed=3)
