"""Settings of the streams. Importing them requires no Kafka client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.records.streams import Stream


class Semantics(StrEnum):
    """Delivery guarantees for consumers."""

    AT_LEAST_ONCE = "at-least-once"  # every record, some repeatedly after a failure
    EXACTLY_ONCE = "exactly-once"  # every record once, for consumers with read_committed isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopicSettings:
    """Settings of the topic for rejected records and dead messages."""

    enabled: bool = True
    topic: str = "waybill.dlq"
    brokers: str | None = None  # HOST:PORT, …; None: the streams' brokers
    include_original_headers: bool = True
    include_stack_trace: bool = False
    compression: str = "none"
    tries: int = 3
    pause: float = 1.0  # seconds between attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Settings of the Kafka streams. Times are in seconds."""

    bootstrap_servers: str  # HOST:PORT, …
    topics: Mapping[Stream, str]
    semantics: Semantics = Semantics.AT_LEAST_ONCE
    transactional_id: str = "waybill"
    commit_interval: int = 100  # records per batch
    compression: str = "lz4"
    create_topics: bool = True
    partitions: int = 6
    replication_factor: int = -1  # the brokers' default
    poll_interval: float = 1.0
    lease: float = 15.0  # how long a crashed relayer blocks others from publishing
    security: Mapping[str, str] = field(default_factory=dict)  # librdkafka properties
    dead_letters: DeadLetterTopicSettings = DeadLetterTopicSettings()

    @property
    def positions_topic(self) -> str:
        """The compacted topic with a transactional producer's position, exclusive to one producer."""
        return f"{self.transactional_id}.positions"

    @property
    def is_exactly_once(self) -> bool:
        """Whether records are sent in transactions."""
        return self.semantics is Semantics.EXACTLY_ONCE
