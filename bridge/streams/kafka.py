"""The Kafka client. It discards its producer after each failure, so that recovery is the same as after a crash.

The outcome of a failed attempt is unknown. A new transactional producer first aborts the old one's transaction,
then reads the committed position and continues from there. At-least-once mode sends the whole batch again.
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
from bridge.records.streams import Stream, StreamRecord, value_of
from bridge.streams.settings import DeadLetterTopicSettings, KafkaSettings

_log = structlog.get_logger(__name__)

_PATIENCE: Final = 10.0  # seconds for a broker's response, and the transaction timeout
_COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "3600000",  # the active segment is never compacted, and is read at each start
}
_REJECTIONS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
    }
)
"""Errors of records that the brokers will never accept."""

Headers = dict[str, str | bytes | None]


class FencedError(Exception):
    """Another producer took over the transactional id."""


class DeadLetterTopicError(Exception):
    """All attempts to write a record to the dead-letter topic failed."""


class KafkaSink:
    """Sends records to their topics. Methods block, and must all be called from the same thread."""

    def __init__(self, settings: KafkaSettings, *, store: str, worker: str) -> None:
        """Creates a sink without connecting.

        Args:
            settings: Settings of the streams.
            store: Identity of the store from which the records come.
            worker: Name of this process.
        """
        self._settings = settings
        self._owner = {"store": store, "worker": worker}
        self._producer: Producer | None = None
        self._was_open = False
        self._refused: dict[int, KafkaError] = {}  # rejected records by version
        self._alone = False  # one record per request, to find out which is rejected

    def open(self) -> int | None:
        """Connects to the brokers. In exactly-once mode, also fences every other producer with the same id.

        Returns:
            Version of the last committed record (0 in at-least-once mode), or None if already open.

        Raises:
            TransientError: the brokers did not respond.
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
            self._check_not_fenced()
            self._producer.init_transactions(_PATIENCE)
            version = int((self._mark() or {"version": 0})["version"])
            self._producer.begin_transaction()
            self._produce_mark(version)
            self._producer.commit_transaction(_PATIENCE)
        except KafkaException as error:
            self.close()
            raise self._failure("use", error) from error
        except BaseException:
            self.close()
            raise
        self._was_open = True
        return version

    def send(self, records: Sequence[StreamRecord], refuse: Callable[[StreamRecord, KafkaError], None]) -> None:
        """Sends records in order, and returns once the topics have them. In exactly-once mode, sends them atomically.

        Args:
            records: At least one record, in ascending order of version.
            refuse: Called for each rejected record, before the other records count as sent.

        Raises:
            TransientError: the brokers did not respond, or failed for a reason other than a record.
        """
        try:
            while not self._sent(records, refuse):
                self.close()
                self._alone = True
                self.open()
        except (KafkaException, SystemError) as error:
            self.close()
            raise self._failure("write to", error) from error
        except BaseException:
            self.close()
            raise
        self._refused.clear()
        if self._alone:
            self._alone = False
            self.close()

    def ping(self) -> None:
        """Checks that the brokers respond.

        Raises:
            TransientError: the brokers do not respond.
        """
        assert self._producer is not None
        try:
            self._producer.list_topics(timeout=_PATIENCE)
        except KafkaException as error:
            self.close()
            raise self._failure("use", error) from error

    def close(self) -> None:
        """Discards the producer with all pending work. The client's own `close` would wait for unreachable brokers.

        An open transaction is aborted by the brokers after its timeout, or when the next producer starts.
        """
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def stand_by(self) -> None:
        """Leaves publishing to another producer until `open` is called again."""
        self.close()
        self._was_open = False

    def _failure(self, action: str, error: BaseException) -> TransientError:
        return TransientError(f"can't {action} Kafka at {self._settings.bootstrap_servers}: {_text(error)}")

    def _sent(self, records: Sequence[StreamRecord], refuse: Callable[[StreamRecord, KafkaError], None]) -> bool:
        """Returns whether all records are in the topics.

        Returns False if a record was rejected and another attempt must find out which one.
        """
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
        """Produces records and, in a transaction, the position of the last record. Returns rejections by version."""
        assert self._producer is not None
        failed: dict[int, KafkaError] = {}

        def noting(version: int) -> Callable[[KafkaError | None, Message], None]:
            return lambda error, _: None if error is None else failed.update({version: error})

        if self._settings.is_exactly_once:
            self._producer.begin_transaction()
        for record in records:
            topic, headers = self._settings.topic(record.stream), headers_of(record)
            self._producer.produce(
                topic, value_of(record), record.key, headers=headers, on_delivery=noting(record.version)
            )
        if self._settings.is_exactly_once:
            self._produce_mark(last.version)
        deadline = time.monotonic() + _PATIENCE
        while (
            left := self._producer.flush(0.1)
        ) and not failed:  # once one record failed, a transaction sends no others
            if time.monotonic() > deadline:
                raise TransientError(
                    f"Kafka at {self._settings.bootstrap_servers} did not acknowledge {left} records before the timeout"
                )
        refused = {version: error for version, error in failed.items() if error.code() in _REJECTIONS}
        if failed and not refused:
            raise KafkaException(next(iter(failed.values())))
        return refused

    def _produce_mark(self, version: int) -> None:
        assert self._producer is not None
        mark = orjson.dumps({"version": version, **self._owner})
        self._producer.produce(self._settings.positions_topic, mark, self._settings.transactional_id)

    def _check_not_fenced(self) -> None:
        """Checks that the committed position is this producer's own, unless it opens for the first time."""
        mark = self._mark() if self._was_open else None
        if mark is not None and {name: mark[name] for name in self._owner} != self._owner:
            raise FencedError(
                f"worker {mark['worker']} of store {mark['store']} took over transactional_id"
                f" {self._settings.transactional_id!r} of {self._settings.bootstrap_servers}"
            )

    def _mark(self) -> Mapping[str, Any] | None:
        """Returns the last committed position of this transactional id, or None."""
        topic = self._settings.positions_topic
        reading = {
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,  # the end of the partition arrives in a separate response
        }
        consumer = Consumer({**_connection(self._settings), **reading})
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            value, deadline = None, time.monotonic() + _PATIENCE
            while time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    value, deadline = message.value(), time.monotonic() + _PATIENCE
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its public name for the end of a partition
                    return None if value is None else dict(orjson.loads(value))
                elif not error.retriable():
                    raise KafkaException(error)
            raise TransientError(
                f"Kafka at {self._settings.bootstrap_servers}: topic {topic} could not be read before the timeout"
            )
        finally:
            consumer.close()

    def _make_topics(self) -> None:
        settings = self._settings
        wanted = dict.fromkeys(map(settings.topic, Stream), settings.PARTITIONS)
        if settings.is_exactly_once:
            wanted[settings.positions_topic] = 1
        if settings.create_topics:
            _make_topics(_connection(settings), wanted, settings.REPLICATION_FACTOR, compacted=settings.positions_topic)

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
    """The topic for records that their own topic rejected, and for dead messages. Keys and values are unchanged."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings: DeadLetterTopicSettings = settings.dead_letter_queue
        brokers = {"bootstrap.servers": settings.dead_letter_queue.brokers or settings.bootstrap_servers}
        self._connection = {**_connection(settings), **brokers}
        self._kafka = settings

    def put(self, key: str, value: bytes, headers: Headers) -> None:
        """Writes a record, with as many attempts as configured.

        Raises:
            DeadLetterTopicError: all attempts failed, or the topic is disabled.
        """
        if not self._settings.enabled:
            raise DeadLetterTopicError("the dead-letter topic is disabled: dead_letter_queue.enabled = false")
        for number in range(1, self._settings.max_dlq_retries + 1):
            try:
                self._write(key, value, headers)
            except (KafkaException, TransientError) as error:
                reason = _text(error)
                _log.warning(
                    "write to dead-letter topic failed", topic=self._settings.topic, attempt=number, error=reason
                )
                if number < self._settings.max_dlq_retries:
                    time.sleep(self._settings.PAUSE)
            else:
                return
        raise DeadLetterTopicError(
            f"topic {self._settings.topic} at {self._connection['bootstrap.servers']} rejected a record in all "
            f"{self._settings.max_dlq_retries} attempts: {reason}"
        )

    def _write(self, key: str, value: bytes, headers: Headers) -> None:
        """Makes one attempt with a new producer, so that failures leave no state behind."""
        kafka, topic = self._kafka, self._settings.topic
        if kafka.create_topics:
            _make_topics(self._connection, {topic: kafka.PARTITIONS}, kafka.REPLICATION_FACTOR)
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
                raise TransientError("no Kafka broker responded")
        finally:
            producer.purge()
        if failed:
            raise KafkaException(failed[0])


def headers_of(record: StreamRecord) -> Headers:
    """Returns a record's headers."""
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
        "log_level": 2,  # errors are raised as exceptions
        **{name: value.get_secret_value() for name, value in settings.client.items()},
    }


def _producing(compression: str) -> dict[str, Any]:
    return {
        "enable.idempotence": True,  # the client's retries neither duplicate nor reorder records
        "compression.type": compression,
        "partitioner": "murmur2_random",  # the same partitions as Kafka's own clients
        "message.max.bytes": 1_000_000_000,  # the topics' own limits apply
        "linger.ms": 5,
    }


def _make_topics(
    connection: Mapping[str, Any], wanted: Mapping[str, int], replication_factor: int, compacted: str = ""
) -> None:
    """Creates missing topics with the given numbers of partitions."""
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
    """Returns an error's text. Python wraps fatal errors that are raised in callbacks in a SystemError."""
    if isinstance(error, SystemError) and error.__cause__ is not None:
        return _text(error.__cause__)
    first = error.args[0] if error.args else error
    return str(first.str()) if isinstance(first, KafkaError) else str(first)
