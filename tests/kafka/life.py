"""One life of a publisher, in a process of its own that may kill itself between any two of its steps."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bridge.protocol.ports import TransientError
from bridge.records.streams import Stream
from bridge.store import Store, open_dead_letters
from bridge.store.streams import Streams
from bridge.streams import kafka
from bridge.streams.copying import Copier
from bridge.streams.publisher import Publisher
from bridge.streams.settings import DeadLetterTopicSettings, KafkaSettings, Semantics
from tests.support.dying import counted_until
from tests.support.settings import tuned
from tests.waiting import PATIENCE

NOTING = -1
"""Stands for the step before which the brokers have the first batch, and the store does not know it. Its number varies."""
_FORKS = multiprocessing.get_context("forkserver")  # no client of Kafka's survives a fork: the server has none
_FORKS.set_forkserver_preload(["tests.kafka.life"])


def settings_of(servers: str, name: str, **changes: Any) -> KafkaSettings:
    """Settings with topics of its own for each history, and with which nobody waits for long."""
    usual = KafkaSettings(
        bootstrap_servers=servers,
        topic_prefix=name,
        transactional_id=name,
        commit_interval=7,
        dead_letter_queue=tuned(DeadLetterTopicSettings(topic=f"{name}.dlq"), PAUSE=0.1),
    )
    return tuned(usual, PARTITIONS=2, POLL_INTERVAL=0.05, **changes)


@dataclass(frozen=True)
class History:
    """What the lives of one publisher share."""

    url: str
    settings: KafkaSettings
    lease: float = 0.2  # seconds

    @property
    def topics(self) -> list[str]:
        return [self.settings.topic(stream) for stream in Stream]


def new_history(folder: Path, servers: str, semantics: Semantics, **changes: Any) -> History:
    """A store of its own that records, and topics of its own."""
    name = f"h{uuid.uuid4().hex[:10]}"
    history = History(f"sqlite:///{folder}/{name}.db", settings_of(servers, name, delivery=semantics, **changes))
    with closing(Store(history.url)) as store:
        store.streams.start()
    return history


class CopyingPublisher(Publisher):
    """A publisher that also copies, in one thread."""

    def __init__(
        self, streams: Streams, settings: KafkaSettings, copier: Copier, worker: str = "worker", lease: float = 0.2
    ) -> None:
        super().__init__(streams, settings, worker=worker, lease=lease)
        self.copy = copier.copy


@contextmanager
def publisher(history: History, worker: str = "worker") -> Iterator[tuple[CopyingPublisher, Streams]]:
    """A publisher in this process."""
    with closing(Store(history.url)) as store, closing(open_dead_letters(history.url)) as dead_letters:
        copier = Copier(store.streams, dead_letters=dead_letters, index=None, divergence_interval=60)
        made = CopyingPublisher(store.streams, history.settings, copier, worker, history.lease)
        try:
            yield made, store.streams
        finally:
            made.close()


def publish_all(made: CopyingPublisher, streams: Streams) -> None:
    """Publishes until nothing waits, or publishing has halted."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if made.copy() or made.publish():
                continue
        except TransientError as error:
            assert time.monotonic() < deadline, error  # noqa: PT017  # what it waited for
        status = streams.status()
        if status.halted or not status.waiting:
            return
        assert time.monotonic() < deadline, status
        time.sleep(0.02)


def begin(history: History, *, dies_at: int | None = None, for_ever: bool = False) -> BaseProcess:
    """Starts a life.

    Args:
        history: what it goes on with.
        dies_at: the number of the step before which it kills itself, or `NOTING`; None: it does not.
        for_ever: whether it goes on when nothing waits.
    """
    process = _FORKS.Process(target=_live, args=(history, dies_at, for_ever), daemon=True)
    process.start()
    return process


def live(history: History, dies_at: int | None = None) -> bool:
    """One life, to its end; whether it died."""
    process = begin(history, dies_at=dies_at)
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        raise AssertionError("a life does not end")
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def _live(history: History, dies_at: int | None, for_ever: bool) -> None:  # an argument of a process
    if dies_at is not None:
        _count_steps(dies_at)
    with publisher(history, worker=f"worker {os.getpid()}") as (made, streams):
        while True:
            publish_all(made, streams)
            if not for_ever:
                return
            time.sleep(0.01)


def _count_steps(dies_at: int) -> None:
    """Has this process kill itself before its step of that number: each call of the client, and each transaction of the store."""
    if dies_at == NOTING:
        setattr(Streams, "sent", counted_until(0)(Streams.sent))  # noqa: B010  # in this process alone
        return
    counted = counted_until(dies_at)

    class Counted(Producer):
        init_transactions = counted(Producer.init_transactions)
        begin_transaction = counted(Producer.begin_transaction)
        produce = counted(Producer.produce)
        flush = counted(Producer.flush)
        commit_transaction = counted(Producer.commit_transaction)

    setattr(kafka, "Producer", Counted)  # noqa: B010  # in this process alone
    for name in ("claim", "sent"):
        setattr(Streams, name, counted(getattr(Streams, name)))
