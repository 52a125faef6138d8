"""Publishes what waits in the store to Kafka."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import orjson
import structlog
from confluent_kafka import KafkaError
from eth_utils import decode_hex

from bridge.evm.supervision import retry_until_success, run_forever
from bridge.protocol.ports import TransientError
from bridge.protocol.times import iso_milliseconds
from bridge.records.streams import StreamRecord, original_of, value_of
from bridge.store.streams import Streams
from bridge.streams.kafka import (
    DeadLetterTopic,
    DeadLetterTopicError,
    FencedError,
    Headers,
    KafkaSink,
    headers_of,
)
from bridge.streams.settings import KafkaSettings

_log = structlog.get_logger(__name__)


class Publisher:
    """Works in a thread of its own: brokers that do not answer hold up nothing else."""

    def __init__(self, streams: Streams, settings: KafkaSettings, *, worker: str) -> None:
        """Connects to nothing yet.

        Args:
            streams: where records wait.
            settings: how to publish.
            worker: names this process.
        """
        self._streams = streams
        self._settings = settings
        self._worker = worker
        self._sink: KafkaSink | None = None
        self._topic = DeadLetterTopic(settings)
        self._dead_lettered: set[int] = set()  # versions of records that are in the dead-letter topic
        self._error = ""

    async def run(self) -> None:
        """Has the store record, and publishes until it is cancelled."""
        every, loop, thread = self._settings.poll_interval, asyncio.get_running_loop(), ThreadPoolExecutor(1, "streams")

        async def start() -> None:
            await loop.run_in_executor(thread, self._streams.start)

        async def publish() -> bool:
            return await loop.run_in_executor(thread, self.publish)

        try:
            await retry_until_success("start streams", start, every=every)
            await run_forever("publish streams", publish, every=every)
        finally:
            thread.submit(self.close)
            await asyncio.to_thread(thread.shutdown)

    def close(self) -> None:
        """Ends the producer."""
        if self._sink is not None:
            self._sink.close()

    def publish(self) -> bool:
        """Publishes a batch; says whether more may wait.

        Raises:
            TransientError: the brokers do not answer; the batch waits.
        """
        try:
            return self._publish()
        except FencedError as error:
            self._fenced(error)
        except DeadLetterTopicError as error:
            self._streams.halt(str(error))
        except TransientError as error:
            if str(error) != self._error:
                self._error = str(error)
                self._streams.note_error(self._error)
            raise
        return False

    def _publish(self) -> bool:
        limit = self._settings.commit_interval
        sink = self._opened()
        batch = self._streams.claim(self._worker, now=time.time(), lease=self._settings.lease, limit=limit)
        if batch is None:
            sink.stand_by()
            return False
        if not batch:
            return False
        position = sink.open()
        if position and position >= batch[0].version:  # sent before a crash that kept the store from noting it
            self._streams.sent(position)
            return True
        self._put_originals(sink, batch)
        sink.send(batch, self._refused)
        self._streams.sent(batch[-1].version)
        self._dead_lettered.clear()
        self._error = ""
        return len(batch) == limit

    def _opened(self) -> KafkaSink:
        if self._sink is None:
            self._sink = KafkaSink(self._settings, store=self._streams.identity(), worker=self._worker)
        return self._sink

    def _fenced(self, error: FencedError) -> None:
        """Another worker of this store has its turn; a producer of another store must not have the same id."""
        assert self._sink is not None
        self._sink.stand_by()
        if self._streams.is_leased_to(self._worker):
            self._streams.halt(
                f"fenced: {error}; give each store a transactional_id of its own, and end the other relayer"
            )
            _log.critical("streams halt: fenced", error=str(error))
        else:
            _log.warning("fenced: another relayer of this store publishes", error=str(error))

    def _put_originals(self, sink: KafkaSink, batch: Sequence[StreamRecord]) -> None:
        """Puts messages whose deliveries died into the dead-letter topic, before the batch counts as sent."""
        settings = self._settings.dead_letters
        for record in batch:
            document = original_of(record)
            if document is None or not settings.enabled or record.version in self._dead_lettered:
                continue
            headers: Headers = dict(document["headers"])
            if settings.include_original_headers:
                snapshot = document["routingSlip"]
                original = {
                    "gmp": document["gmp"],
                    "transport-id": snapshot.get("transportId"),
                    "block": snapshot.get("sourceBlock", snapshot.get("causeBlock")),
                    "block-hash": snapshot.get("sourceBlockHash", snapshot.get("causeBlockHash")),
                    "transaction": snapshot.get("sourceTransaction"),
                }
                headers |= {
                    f"waybill-original-{name}": str(value) for name, value in original.items() if value is not None
                }
            if settings.include_stack_trace:
                headers["waybill-stack-trace"] = orjson.dumps(document["failureHistory"]).decode()
            sink.ping()  # while the streams' own brokers are away, nothing has failed yet
            self._put(record, decode_hex(document["originalMessage"]), headers)

    def _refused(self, record: StreamRecord, error: KafkaError) -> None:
        """Puts a record that its topic refuses into the dead-letter topic."""
        if record.version in self._dead_lettered:
            return
        settings, topic = self._settings.dead_letters, self._settings.topics[record.stream]
        headers: Headers = headers_of(record) if settings.include_original_headers else {}
        headers |= {
            "waybill-error": error.str(),
            "waybill-error-type": error.name(),
            "waybill-reason": "REFUSED",
            "waybill-timestamp": iso_milliseconds(time.time()),
            "waybill-source-topic": topic,
            "waybill-source-partition": record.key,
            "waybill-source-offset": str(record.version),
            "waybill-pipeline": "store>kafka",
            "waybill-destination": self._settings.bootstrap_servers,
            "waybill-filter": record.stream.value,
            "waybill-transform": "JSON",
        }
        if settings.include_stack_trace:
            headers["waybill-stack-trace"] = "".join(traceback.format_stack())
        self._put(record, value_of(record), headers)
        self._streams.count_refused()
        _log.warning("record refused, and put into the dead-letter topic", topic=topic, version=record.version)

    def _put(self, record: StreamRecord, value: bytes, headers: Headers) -> None:
        try:
            self._topic.put(record.key, value, headers)
        except DeadLetterTopicError as error:
            _log.critical(
                "streams halt: the dead-letter topic does not answer",
                error=str(error),
                original_error=headers["waybill-error"],
                record=value_of(record).decode(),
            )
            raise
        self._dead_lettered.add(record.version)
