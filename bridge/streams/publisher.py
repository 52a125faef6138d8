"""Publishes queued records to Kafka."""

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
    """Publishes records in its own thread, so that unreachable brokers block nothing else."""

    def __init__(self, streams: Streams, settings: KafkaSettings, *, worker: str, lease: float) -> None:
        """Creates a publisher without connecting.

        Args:
            streams: Queue of records.
            settings: Settings of the streams.
            worker: Name of this process.
            lease: Seconds for which a crashed relayer blocks others from publishing.
        """
        self._streams = streams
        self._settings = settings
        self._worker = worker
        self._lease = lease
        self._sink: KafkaSink | None = None
        self._topic = DeadLetterTopic(settings)
        self._dead_lettered: set[int] = set()  # versions of records already in the dead-letter topic
        self._error = ""

    async def run(self) -> None:
        """Starts recording in the store, and publishes until cancelled."""
        every, loop, thread = self._settings.POLL_INTERVAL, asyncio.get_running_loop(), ThreadPoolExecutor(1, "streams")

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
        """Discards the producer."""
        if self._sink is not None:
            self._sink.close()

    def publish(self) -> bool:
        """Publishes a batch. Returns whether more records may be waiting.

        Raises:
            TransientError: the brokers did not respond. The batch stays queued.
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
        batch = self._streams.claim(self._worker, now=time.time(), lease=self._lease, limit=limit)
        if batch is None:
            sink.stand_by()
            return False
        if not batch:
            return False
        position = sink.open()
        if position and position >= batch[0].version:  # sent before a crash, but not recorded in the store
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
        """Stands by if another worker of this store took over.

        Halts if a producer of a different store has the same id.
        """
        assert self._sink is not None
        self._sink.stand_by()
        if self._streams.is_leased_to(self._worker):
            self._streams.halt(f"fenced: {error}; give each store its own transactional_id, and stop the other relayer")
            _log.critical("streams halted: fenced", error=str(error))
        else:
            _log.warning("fenced by another relayer of this store", error=str(error))

    def _put_originals(self, sink: KafkaSink, batch: Sequence[StreamRecord]) -> None:
        """Writes dead messages to the dead-letter topic before the batch counts as sent."""
        settings = self._settings.dead_letter_queue
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
            sink.ping()  # an outage of the streams' own brokers must not count as a failure
            self._put(record, decode_hex(document["originalMessage"]), headers)

    def _refused(self, record: StreamRecord, error: KafkaError) -> None:
        """Writes a rejected record to the dead-letter topic."""
        if record.version in self._dead_lettered:
            return
        settings, topic = self._settings.dead_letter_queue, self._settings.topic(record.stream)
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
        _log.warning("record rejected, moved to dead-letter topic", topic=topic, version=record.version)

    def _put(self, record: StreamRecord, value: bytes, headers: Headers) -> None:
        try:
            self._topic.put(record.key, value, headers)
        except DeadLetterTopicError as error:
            _log.critical(
                "streams halted: write to dead-letter topic failed",
                error=str(error),
                original_error=headers["waybill-error"],
                record=value_of(record).decode(),
            )
            raise
        self._dead_lettered.add(record.version)
