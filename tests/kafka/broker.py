"""A real Apache Kafka of one's own: one broker in KRaft mode, from its own jars, on free ports, killed and started by the tests."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from indexer.spark.java import java_home
from scripts.setup_kafka import find_kafka
from tests.anvil.rpc import free_ports
from tests.waiting import PATIENCE

_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class Record:
    """What a consumer read."""

    def __init__(self, message: Any) -> None:
        self.key: str = message.key().decode()
        self.value: bytes = message.value()
        self.headers: Mapping[str, str] = {name: value.decode() for name, value in message.headers() or ()}

    @property
    def document(self) -> Any:
        return orjson.loads(self.value)


class Broker:
    """One broker. What it has outlives its process: `kill`, then `start`."""

    def __init__(self, folder: Path) -> None:
        """Formats its disk."""
        port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{port}"
        self._port, self._folder = port, folder
        self._process: subprocess.Popen[bytes] | None = None
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
        }
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = uuid.uuid4().hex[:22]
        done = self._java("kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(self._settings))
        assert done.wait(PATIENCE) == 0, (folder / "log").read_text()

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        java = [str(java_home() / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*java, "-cp", f"{find_kafka()}/*", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        assert self._process is None
        self._process = self._java("kafka.Kafka", str(self._settings))
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None, (self._folder / "log").read_text()
            with contextlib.suppress(OSError, KafkaException):
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                self.admin.list_topics(timeout=10)
                return
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """Ends it as a loss of power would, but for the disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 2})

    def make_topic(self, name: str, **config: str) -> None:
        """Makes a topic with one partition; `max_message_bytes` stands for ``max.message.bytes``."""
        new = NewTopic(
            name, num_partitions=1, replication_factor=1, config={n.replace("_", "."): v for n, v in config.items()}
        )
        admin = self.admin
        for future in admin.create_topics([new]).values():
            future.result(PATIENCE)

    def delete_topics(self) -> None:
        """Deletes all but Kafka's own. A broker with a thousand of them takes a minute to start after a kill."""
        admin = self.admin
        left = [name for name in admin.list_topics(timeout=PATIENCE).topics if not name.startswith("__")]
        for future in (admin.delete_topics(left) if left else {}).values():
            future.result(PATIENCE)

    def records(self, *topics: str) -> list[Record]:
        """The committed records of those topics that exist, in the order of each partition."""
        known = self.admin.list_topics(timeout=PATIENCE).topics
        places = [
            TopicPartition(one, number, OFFSET_BEGINNING)
            for one in topics
            if one in known
            for number in known[one].partitions
        ]
        reading = {
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
        consumer = Consumer({"bootstrap.servers": self.servers, "log_level": 2, **reading})
        found: list[Record] = []
        ended: set[tuple[str, int]] = set()
        deadline = time.monotonic() + PATIENCE
        try:
            consumer.assign(places)
            while len(ended) < len(places):
                assert time.monotonic() < deadline, "a partition does not end"
                message = consumer.poll(1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    found.append(Record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add((str(message.topic()), int(message.partition() or 0)))
                else:
                    assert error.retriable(), error
        finally:
            consumer.close()
        return found

    def compressions(self, topic: str) -> set[str]:
        """How the record batches of a topic are compressed, as its files on the broker's disk say."""
        found = set()
        for segment in (self._folder / "data").glob(f"{topic}-*/*.log"):
            data, place = segment.read_bytes(), 0
            while place + 61 <= len(data):
                attributes = int.from_bytes(data[place + 21 : place + 23])
                if not attributes & 0x20:  # else it ends a transaction
                    found.add(_COMPRESSIONS[attributes & 7])
                place += 12 + int.from_bytes(data[place + 8 : place + 12])
        return found
