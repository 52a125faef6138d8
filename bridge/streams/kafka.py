"""The Kafka side: a producer that is thrown away after each failure, so that every failure is the one that a crash would be.

What came of a failed try is unknown. A new producer ends the old one's transaction first, reads how far the topics are, and goes
on from there; at-least-once sends the whole batch again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bridge.protocol.ports import TransientError
from bridge.records.streams import StreamRecord, value_of
from bridge.streams.settings import DeadLetterTopicSettings, KafkaSettings

_log = structlog.get_logger(__name__)

_PATIENCE: Final = 10.0  # seconds for one answer of the brokers; also the longest that a transaction is open
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "3600000",  # what is still being written to is not compacted, and is read at each start
}
_REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
    }
)
"""Errors that say that a record, and no other one, will never be taken."""

Headers = dict[str, str | bytes | None]


class FencedError(Exception):
    """Another producer has taken over the transactional id."""


class DeadLetterTopicError(Exception):
    """The dead-letter topic did not take a record in all its tries."""


class KafkaSink:
    """Sends records to their topics. Blocks, and is used by one thread."""

    def __init__(self, settings: KafkaSettings, *, store: str, worker: str) -> None:
        """Connects to nothing yet.

        Args:
            settings: how.
            store: names the store that the records are of.
            worker: names this process.
        """
        self._settings = settings
        self._owner = {"store": store, "worker": worker}
        self._producer: Producer | None = None
        self._was_open = False
        self._refused: dict[int, KafkaError] = {}  # by version
        self._alone = False  # each record in a request of its own, to see which of them is refused

    def open(self) -> int | None:
        """Connects, and with transactions fences every other producer of the same id.

        Returns:
            The version of the last record that is in the topics, as far as transactions tell; None if it was open.

        Raises:
            TransientError: the brokers do not answer.
            FencedError: another producer took over since this one was opened.
        """
        if self._producer is not None:
            return None
        settings = self._settings
        try:
            self._make_topics()
            self._producer = Producer(self._config())
            if not settings.is_exactly_once:
                return 0
            self._refuse_to_take_back()
            self._producer.init_transactions(_PATIENCE)
            version = int((self._mark() or {"version": 0})["version"])
            self._producer.begin_transaction()
            self._produce_mark(version)
            self._producer.commit_transaction(_PATIENCE)
        except KafkaException as error:
            self.close()
            raise TransientError(f"Kafka at {settings.bootstrap_servers}: {_text(error)}") from error
        except BaseException:
            self.close()
            raise
        self._was_open = True
        return version

    def send(self, records: Sequence[StreamRecord], refuse: Callable[[StreamRecord, KafkaError], None]) -> None:
        """Sends records in their order; returns when all are in the topics, with transactions all of them or none.

        Args:
            records: at least one, by version.
            refuse: takes a record that its topic refuses, before the others count as sent.

        Raises:
            TransientError: the brokers do not answer, or refuse for a reason that is no record's.
        """
        try:
            while not self._sent(records, refuse):
                self.close()
                self._alone = True
                self.open()
        except (KafkaException, SystemError) as error:
            self.close()
            raise TransientError(f"Kafka at {self._settings.bootstrap_servers}: {_text(error)}") from error
        except BaseException:
            self.close()
            raise
        self._refused.clear()
        if self._alone:
            self._alone = False
            self.close()

    def ping(self) -> None:
        """Makes sure that the brokers answer.

        Raises:
            TransientError: they do not.
        """
        assert self._producer is not None
        try:
            self._producer.list_topics(timeout=_PATIENCE)
        except KafkaException as error:
            self.close()
            raise TransientError(f"Kafka at {self._settings.bootstrap_servers}: {_text(error)}") from error

    def close(self) -> None:
        """Ends the producer, whatever it was doing; its `close` would wait for brokers that do not answer.

        The brokers abort a transaction that is open when its time is over, or when the next producer begins.
        """
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def stand_by(self) -> None:
        """Leaves publishing to another producer; `open` takes it back."""
        self.close()
        self._was_open = False

    def _sent(self, records: Sequence[StreamRecord], refuse: Callable[[StreamRecord, KafkaError], None]) -> bool:
        """Whether all records are in the topics; else one was refused, and it takes another try to see which."""
        assert self._producer is not None
        failed = self._produce_all([record for record in records if record.version not in self._refused], records[-1])
        if failed:
            if self._alone:
                self._refused |= failed
            return False
        for record in records:
            if record.version in self._refused:
                refuse(record, self._refused[record.version])
        if self._settings.is_exactly_once:
            self._producer.commit_transaction(_PATIENCE)
        return True

    def _produce_all(self, records: Sequence[StreamRecord], last: StreamRecord) -> dict[int, KafkaError]:
        """Produces records, and in a transaction the mark of the last one; which of them were refused, by version."""
        assert self._producer is not None
        failed: dict[int, KafkaError] = {}

        def noting(version: int) -> Callable[[KafkaError | None, Message], None]:
            return lambda error, _: None if error is None else failed.update({version: error})

        if self._settings.is_exactly_once:
            self._producer.begin_transaction()
        for record in records:
            topic, headers = self._settings.topics[record.stream], headers_of(record)
            self._producer.produce(
                topic, value_of(record), record.key, headers=headers, on_delivery=noting(record.version)
            )
        if self._settings.is_exactly_once:
            self._produce_mark(last.version)
        deadline = time.monotonic() + _PATIENCE
        while (left := self._producer.flush(0.1)) and not failed:  # a transaction in which one failed sends no others
            if time.monotonic() > deadline:
                raise TransientError(f"Kafka at {self._settings.bootstrap_servers}: {left} records without an answer")
        refused = {version: error for version, error in failed.items() if error.code() in _REFUSALS}
        if failed and not refused:
            raise KafkaException(next(iter(failed.values())))
        return refused

    def _produce_mark(self, version: int) -> None:
        assert self._producer is not None
        mark = orjson.dumps({"version": version, **self._owner})
        self._producer.produce(self._settings.positions_topic, mark, self._settings.transactional_id)

    def _refuse_to_take_back(self) -> None:
        """One that was open finds its own mark, unless another one was opened since."""
        mark = self._mark() if self._was_open else None
        if mark is not None and {name: mark[name] for name in self._owner} != self._owner:
            raise FencedError(
                f"worker {mark['worker']} of store {mark['store']} took over transactional_id"
                f" {self._settings.transactional_id!r} of {self._settings.bootstrap_servers}"
            )

    def _mark(self) -> Mapping[str, Any] | None:
        """The last committed record about this transactional id."""
        topic = self._settings.positions_topic
        reading = {
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,  # the end is only told in an answer of its own
        }
        consumer = Consumer({**_connection(self._settings), **reading})
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            found, deadline = None, time.monotonic() + _PATIENCE
            while time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found, deadline = message.value(), time.monotonic() + _PATIENCE
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name for the end of a partition
                    return None if found is None else dict(orjson.loads(found))
                elif not error.retriable():
                    raise KafkaException(error)
            raise TransientError(f"Kafka at {self._settings.bootstrap_servers}: topic {topic} can't be read")
        finally:
            consumer.close()

    def _make_topics(self) -> None:
        settings = self._settings
        wanted = dict.fromkeys(settings.topics.values(), settings.partitions)
        if settings.is_exactly_once:
            wanted[settings.positions_topic] = 1
        if settings.create_topics:
            _make_topics(_connection(settings), wanted, settings.replication_factor, compacted=settings.positions_topic)

    def _config(self) -> dict[str, Any]:
        config = {
            **_connection(self._settings),
            **_producing(self._settings.compression),
            "batch.num.messages": 1 if self._alone else 10_000,
        }
        if self._settings.is_exactly_once:
            config["transactional.id"] = self._settings.transactional_id
            config["transaction.timeout.ms"] = int(_PATIENCE * 1000)
        return config


class DeadLetterTopic:
    """Takes what another topic refused, and messages whose deliveries died, with key and value as they were."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings: DeadLetterTopicSettings = settings.dead_letters
        brokers = {"bootstrap.servers": settings.dead_letters.brokers or settings.bootstrap_servers}
        self._connection = {**_connection(settings), **brokers}
        self._kafka = settings

    def put(self, key: str, value: bytes, headers: Headers) -> None:
        """Writes a record, in as many tries as the settings allow.

        Raises:
            DeadLetterTopicError: none of them succeeded, or there is no such topic.
        """
        if not self._settings.enabled:
            raise DeadLetterTopicError("the dead-letter topic is switched off: dead_letter_queue.enabled = false")
        for number in range(1, self._settings.tries + 1):
            try:
                self._write(key, value, headers)
            except (KafkaException, TransientError) as error:
                reason = _text(error)
                _log.warning(
                    "dead-letter topic does not answer", topic=self._settings.topic, number=number, error=reason
                )
                if number < self._settings.tries:
                    time.sleep(self._settings.pause)
            else:
                return
        raise DeadLetterTopicError(
            f"topic {self._settings.topic} at {self._connection['bootstrap.servers']} took a record in none of"
            f" {self._settings.tries} tries: {reason}"
        )

    def _write(self, key: str, value: bytes, headers: Headers) -> None:
        """One try, with a producer of its own: it is needed seldom, and leaves nothing behind that fails."""
        kafka, topic = self._kafka, self._settings.topic
        if kafka.create_topics:
            _make_topics(self._connection, {topic: kafka.partitions}, kafka.replication_factor)
        failed: list[KafkaError] = []
        producer = Producer({**self._connection, **_producing(self._settings.compression)})
        try:
            producer.produce(
                topic,
                value,
                key,
                headers=headers,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            if producer.flush(_PATIENCE):
                raise TransientError("no answer")
        finally:
            producer.purge()
        if failed:
            raise KafkaException(failed[0])


def headers_of(record: StreamRecord) -> Headers:
    """A record's headers."""
    return {
        "content-type": "application/json",
        "waybill-stream": record.stream.value,
        "waybill-event": record.event,
        "waybill-version": str(record.version),
    }


def _connection(settings: KafkaSettings) -> dict[str, Any]:
    return {
        "bootstrap.servers": settings.bootstrap_servers,
        "client.id": "waybill",
        "socket.timeout.ms": int(_PATIENCE * 1000),
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 2,  # what matters is raised
        **settings.security,
    }


def _producing(compression: str) -> dict[str, Any]:
    return {
        "enable.idempotence": True,  # its own retries neither double records nor change their order
        "compression.type": compression,
        "partitioner": "murmur2_random",  # a key is in the partition where Kafka's own clients look for it
        "message.max.bytes": 1_000_000_000,  # each topic has a limit of its own
        "linger.ms": 5,
    }


def _make_topics(
    connection: Mapping[str, Any], wanted: Mapping[str, int], replication_factor: int, compacted: str = ""
) -> None:
    """Makes the topics that are missing, with so many partitions each."""
    admin = AdminClient(dict(connection))
    missing = wanted.keys() - admin.list_topics(timeout=_PATIENCE).topics.keys()
    new = [
        NewTopic(
            topic,
            num_partitions=wanted[topic],
            replication_factor=replication_factor,
            config=_COMPACTED if topic == compacted else {},
        )
        for topic in sorted(missing)
    ]
    for future in admin.create_topics(new, request_timeout=_PATIENCE).values() if new else ():
        try:
            future.result(_PATIENCE)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _text(error: BaseException) -> str:
    """An error in words. The client raises a fatal one while it calls back, which Python wraps in a SystemError."""
    if isinstance(error, SystemError) and error.__cause__ is not None:
        return _text(error.__cause__)
    first = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, KafkaError) else str(first)
