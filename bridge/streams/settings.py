"""How streams are published. Importing this needs no Kafka client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bridge.records.streams import Stream


class Semantics(StrEnum):
    """What a consumer may rely on."""

    AT_LEAST_ONCE = "at-least-once"  # every record, some of them again after a failure
    EXACTLY_ONCE = "exactly-once"  # every record once, for consumers that read committed records


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterTopicSettings:
    """The topic of records that another topic refused, and of messages whose deliveries died."""

    enabled: bool = True
    topic: str = "waybill.dlq"
    brokers: str | None = None  # HOST:PORT, …; None: those of the streams
    include_original_headers: bool = True
    include_stack_trace: bool = False
    compression: str = "none"
    tries: int = 3
    pause: float = 1.0  # seconds between two tries


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """How streams are published. Times are in seconds."""

    bootstrap_servers: str  # HOST:PORT, …
    topics: Mapping[Stream, str]
    semantics: Semantics = Semantics.AT_LEAST_ONCE
    transactional_id: str = "waybill"
    commit_interval: int = 100  # records that are sent, and noted as sent, together
    compression: str = "lz4"
    create_topics: bool = True
    partitions: int = 6
    replication_factor: int = -1  # the brokers' default
    poll_interval: float = 1.0
    lease: float = 15.0  # for which a dead relayer keeps others from publishing
    security: Mapping[str, str] = field(default_factory=dict)  # in librdkafka's own names
    dead_letters: DeadLetterTopicSettings = DeadLetterTopicSettings()

    @property
    def positions_topic(self) -> str:
        """The compacted topic in which the transactional producer keeps how far it is. One producer has it for itself."""
        return f"{self.transactional_id}.positions"

    @property
    def is_exactly_once(self) -> bool:
        """Whether records are sent in transactions."""
        return self.semantics is Semantics.EXACTLY_ONCE
