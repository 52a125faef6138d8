"""Settings of the streams. Importing this module requires no Kafka client."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, SecretStr, model_validator

from bridge.records.streams import Stream
from bridge.settings import Section

_Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Semantics(StrEnum):
    """Delivery guarantees for consumers."""

    AT_LEAST_ONCE = "at-least-once"  # every record, some repeatedly after a failure
    EXACTLY_ONCE = "exactly-once"  # every record once, for consumers with read_committed isolation


class DeadLetterTopicSettings(Section):
    """The topic of rejected records and dead messages."""

    enabled: bool = Field(
        default=True, description="whether rejected records go to a dead-letter topic; otherwise they halt publishing"
    )
    topic: str = Field(default="waybill.dlq", description="name of the topic")
    brokers: str | None = Field(
        default=None, description="HOST:PORT of the topic's brokers, separated by commas; by default the same brokers"
    )
    include_original_headers: bool = Field(
        default=True,
        description="whether the headers of the record, or the dispatch's GMP, block and transaction, are kept",
    )
    include_stack_trace: bool = Field(
        default=False, description="whether a header contains the stack trace, or the history of a delivery's failures"
    )
    compression: _Compression = Field(
        default="none", description="compression of the topic's records: none, gzip, snappy, lz4, zstd"
    )
    max_dlq_retries: int = Field(
        default=3, gt=0, description="number of tries to write a record before publishing halts"
    )

    PAUSE: ClassVar[float] = 1.0  # seconds between tries, as in StreamForge's document


class KafkaSettings(Section):
    """Settings of the Kafka streams. Nothing is recorded unless `bootstrap_servers` is set."""

    bootstrap_servers: str | None = Field(
        default=None, pattern=r"^[^\s,:]+:\d+(,[^\s,:]+:\d+)*$", description="HOST:PORT of brokers, separated by commas"
    )
    delivery: Semantics = Field(
        default=Semantics.AT_LEAST_ONCE, description="guarantee to consumers: at-least-once, exactly-once"
    )
    transactional_id: str = Field(
        default="waybill",
        min_length=1,
        description="transactional id for exactly-once; each store must have its own, and keep it",
    )
    topic_prefix: str = Field(
        default="waybill", min_length=1, description="prefix of each stream's topic, as in waybill.messages"
    )
    commit_interval: int = Field(default=100, gt=0, le=10_000, description="number of records per batch")
    compression: _Compression = Field(
        default="lz4", description="compression of the records: none, gzip, snappy, lz4, zstd"
    )
    create_topics: bool = Field(
        default=True,
        description="whether missing topics are created, with 6 partitions and the brokers' replication",
    )
    client: dict[str, Annotated[SecretStr, Field(strict=False)]] = Field(
        default={},
        description='properties of librdkafka for the connection, such as "security.protocol", "sasl.password", "ssl.ca.location"',
    )
    dead_letter_queue: DeadLetterTopicSettings = Field(
        default=DeadLetterTopicSettings(), description="topic of rejected records and dead messages, see below"
    )

    PARTITIONS: ClassVar[int] = 6  # of a topic that is created
    REPLICATION_FACTOR: ClassVar[int] = -1  # the brokers' default
    POLL_INTERVAL: ClassVar[float] = 1.0  # seconds between polls for unsent records
    DIVERGENCE_INTERVAL: ClassVar[float] = 60.0  # seconds between polls of the index's divergences

    @model_validator(mode="after")
    def _has_topics_of_their_own(self) -> Self:
        if self.dead_letter_queue.topic in {*map(self.topic, Stream), self.positions_topic}:
            raise ValueError(
                f"each stream needs a topic of its own; {self.dead_letter_queue.topic} is used more than once"
            )
        return self

    def topic(self, stream: Stream) -> str:
        """Returns the topic of a stream."""
        return f"{self.topic_prefix}.{stream.value.replace('_', '-')}"

    @property
    def positions_topic(self) -> str:
        """Returns the compacted topic in which the transactional producer stores its position.

        No other producer writes to it.
        """
        return f"{self.transactional_id}.positions"

    @property
    def is_exactly_once(self) -> bool:
        """Whether records are sent in transactions."""
        return self.delivery is Semantics.EXACTLY_ONCE
