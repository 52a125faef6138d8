"""When records count as sent: once the brokers have them, and the dead-letter topic has the messages of letters among them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridge.protocol.ports import TransientError
from bridge.records.streams import Stream
from bridge.store import Store
from bridge.streams import kafka
from bridge.streams.copying import Copier
from bridge.streams.publisher import Publisher
from bridge.streams.settings import DeadLetterTopicSettings, KafkaSettings
from tests.builders import message
from tests.support.settings import tuned
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.store.conftest import SQLITE

QUEUE = "dead"
SETTINGS = KafkaSettings(
    bootstrap_servers="kafka.example:9092",
    create_topics=False,
    dead_letter_queue=tuned(DeadLetterTopicSettings(topic=QUEUE), PAUSE=0),
)


class Brokers:
    """Stands where the Kafka client is. Takes records of topics that are up, and the configuration of each producer."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.down: set[str] = set()
        self.configurations: list[dict[str, Any]] = []

    def producer(self, configuration: dict[str, Any]) -> Brokers:
        self.configurations.append(configuration)
        return self

    def produce(
        self, topic: str, value: bytes, _key: str, *, headers: Any, on_delivery: Callable[[None, None], None]
    ) -> None:
        assert headers
        if topic in self.down:
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE))
        self.taken.append((topic, value))
        on_delivery(None, None)

    def flush(self, _seconds: float) -> int:
        return 0

    def purge(self) -> None:
        pass

    def list_topics(self, *, timeout: float) -> None:
        assert timeout


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(kafka, "Producer", made.producer)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """With the records of a message whose delivery died and left a letter."""
    with closing(Store(f"{SQLITE}:///{tmp_path}/bridge.db")) as opened:
        opened.streams.start()
        review = DeadLetterService(store=opened)
        asyncio.run(review.die(message()))
        Copier(opened.streams, dead_letters=review.dead_letters, index=None, divergence_interval=60).copy()
        yield opened


def test_refused_records_wait_and_halt_nothing(store: Store, brokers: Brokers) -> None:
    brokers.down = {SETTINGS.topic(stream) for stream in Stream}
    publisher, before = Publisher(store.streams, SETTINGS, worker="one", lease=15), store.streams.status()
    with pytest.raises(TransientError, match="Broker"):
        publisher.publish()
    after = store.streams.status()
    assert (after.waiting, after.version, after.halted) == (before.waiting, before.version, "")
    assert "Broker" in after.error
    brokers.down.clear()
    publisher.publish()
    assert len([one for one in brokers.taken if one[0] != QUEUE]) == before.waiting
    assert store.streams.status().waiting == 0


def test_batch_is_sent_after_its_dead_messages(store: Store, brokers: Brokers) -> None:
    brokers.down = {QUEUE}
    publisher, before = Publisher(store.streams, SETTINGS, worker="one", lease=15), store.streams.status()
    publisher.publish()
    halted = store.streams.status()
    assert "topic dead at kafka.example:9092 rejected a record in all 3 attempts" in halted.halted
    assert (halted.waiting, halted.version, brokers.taken) == (before.waiting, before.version, [])
    brokers.down.clear()
    assert store.streams.resume()
    publisher.publish()
    assert brokers.taken[0] == (QUEUE, message().encode())
    assert len(brokers.taken) == 1 + before.waiting
    assert store.streams.status().waiting == 0


def test_records_carry_the_time_of_their_publication(
    store: Store, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long outage, a broker's retention deleted at once what carried the time of its event.

    Kafka's client stamps a record as it is given to it, unless the caller names another time; the value has the event's own.
    """
    named: list[set[str]] = []
    produce = brokers.produce

    def noting(topic: str, value: bytes, key: str, **options: Any) -> None:
        named.append(set(options))
        produce(topic, value, key, **options)

    monkeypatch.setattr(brokers, "produce", noting)
    Publisher(store.streams, SETTINGS, worker="one", lease=15).publish()
    assert named
    assert all(options == {"headers", "on_delivery"} for options in named)


def test_every_producer_is_idempotent(store: Store, brokers: Brokers) -> None:
    Publisher(store.streams, SETTINGS, worker="one", lease=15).publish()
    assert [one["enable.idempotence"] for one in brokers.configurations] == [True, True]
    assert ["transactional.id" in one for one in brokers.configurations] == [False, False]
    assert [one["compression.type"] for one in brokers.configurations] == ["lz4", "none"]
