"""Settings of the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from bridge.evm.endpoint_policy import EndpointPolicy
from bridge.protocol.delivery_policy import KindName
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from bridge.settings import LaneRule, Section
from indexer.model.errors import SettingsError
from indexer.model.storage_location import StorageLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class StallPolicy:
    """Deadlines for messages, and limits on retry requests."""

    stall_after: int = 900  # seconds from the last attempt's block time until the message is overdue; each retry doubles it, to 8 times
    max_lag: int = 120  # maximum age of the last indexed block, in seconds; if it is older, the chain is too far behind to judge by
    max_message_retries: int = 10  # retries of one message, unless its kind has no limit
    requests_per_lane_minute: int = 60
    silence_after: int = 86_400  # seconds without any receipt after which a final message's silence is a divergence
    by_kind: Mapping[Kind, int] = field(default_factory=dict[Kind, int])  # `stall_after` of some kinds
    by_lane: Mapping[tuple[int, int], int] = field(
        default_factory=dict[tuple[int, int], int]
    )  # of some lanes; overrides `by_kind`
    retries_by_kind: Mapping[Kind, int | None] = field(
        default_factory=lambda: {Kind.HEARTBEAT: 0, Kind.REGULATORY_ACTION_CRITICAL: None}
    )  # a lower limit than `max_message_retries`, or no limit (None); heartbeats are never retried

    def __post_init__(self) -> None:
        for name in ("stall_after", "max_lag", "requests_per_lane_minute", "silence_after"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be greater than 0")
        if self.max_message_retries < 0:
            raise SettingsError(f"max_message_retries is {self.max_message_retries}; it must not be negative")
        for key, seconds in (*self.by_kind.items(), *self.by_lane.items()):
            if seconds <= 0:
                raise SettingsError(f"the limit of {key} is {seconds}; it must be greater than 0")

    def retries_of(self, kind: Kind) -> int | None:
        """Returns the maximum number of retries for a kind; None for no limit."""
        most = self.retries_by_kind.get(kind, self.max_message_retries)
        return None if most is None else min(self.max_message_retries, most)


INDEX_POLICY: Final = EndpointPolicy(try_seconds=2.0, rest_seconds=60.0, branch_seconds=60.0)
"""The index's endpoint policy. Unresponsive chains are polled again soon; tasks wait as long as an endpoint demands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLimits:
    """Limits for reading the chains."""

    poll_interval: float = 1.0  # minimum seconds between two polls of a chain; it is polled once per block
    rpc_timeout: float = 10.0  # seconds for one request
    hash_window: int = 128  # recent blocks whose hashes are remembered: the deepest reorg found without a re-read
    max_blocks_per_batch: int = 20_000
    max_logs_per_batch: int = 10_000
    finality_depth: int = 64  # blocks; for nodes that do not know the tag `finalized`
    rollback_patience: float = 2.0  # seconds for which a lower head must persist to count as a rollback
    failover_patience: float = 60.0
    """Seconds without an endpoint that has our last block, after which we fail over to one with a different block."""

    def __post_init__(self) -> None:
        if self.hash_window < 2:
            raise SettingsError(f"hash_window is {self.hash_window}; it must be at least 2")
        for name in ("poll_interval", "rpc_timeout", "max_blocks_per_batch", "max_logs_per_batch"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be greater than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFolder:
    """Locations of the index's data.

    Attributes:
        path: folder of everything that has no location of its own.
        store: URL of the operational store, such as ``postgresql://user@host/database``. If None, a SQLite file
            in `path`.
        shared_lake: location of the Delta tables: a bucket, or a folder that all executors reach under the same
            path. If None, a folder in `path`.
    """

    path: Path
    store: str | None = None
    shared_lake: StorageLocation | None = None

    @property
    def store_url(self) -> str:
        """Returns the URL of the operational store."""
        return self.store or f"sqlite:///{self.path / 'index.db'}"

    @property
    def lake(self) -> StorageLocation:
        """Returns the location of the Delta tables."""
        return self.shared_lake or StorageLocation.of(self.path / "lake")

    @property
    def checkpoint(self) -> Path:
        """Returns the path of Spark's checkpoint for the stream.

        It is deleted at every start, because the stream continues from the positions in the store and the lake.
        """
        return self.path / "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """All settings of a run, apart from the deployment."""

    folder: IndexFolder
    stall: StallPolicy = StallPolicy()
    limits: SourceLimits = SourceLimits()
    endpoints: Mapping[int, EndpointPolicy] = field(default_factory=dict[int, EndpointPolicy])  # by chain
    lake_interval: float = 30.0  # seconds between two appends of newly final events to the lake
    refresh_interval: float = 3_600.0  # seconds between two refreshes of the tables
    refresh_command: tuple[str, ...] = ()  # runs a refresh; none if empty
    keep_ended: int = 30 * 86_400  # seconds that the store keeps a message after it has ended; the lake keeps all
    verify_interval: float = 300.0  # seconds between two comparisons of new final blocks with the routers' own totals
    backfill_blocks: int = 10_000  # final blocks behind from which Spark reads them in parallel, straight to the lake


class LaneStall(LaneRule):
    """The deadline for messages on the given lanes."""

    stall_after: int = Field(gt=0, description="seconds")


class IndexTable(Section):
    """Settings for indexing the chains and requesting retries. Times are in seconds unless another unit is stated."""

    stall_after: int = Field(default=900, gt=0, description="time until a message without its quorum is stalled")
    stall_after_by_kind: dict[KindName, Annotated[int, Field(gt=0)]] = Field(
        default={}, description="stall_after by kind of message"
    )
    lanes: tuple[LaneStall, ...] = Field(
        default=(),
        description="stall_after for some lanes (source, destination, stall_after); takes precedence over kinds, and the last matching entry applies",
    )
    max_lag: int = Field(default=120, gt=0, description="lag above which a chain is too far behind to judge by")
    poll_interval: float = Field(
        default=1.0,
        gt=0,
        description="minimum interval between two polls of a chain, which is polled once per block (devnet: 0.1)",
    )
    lake_interval: float = Field(default=30.0, gt=0, description="interval between two appends to the lake")
    refresh_interval: float = Field(default=3_600.0, gt=0, description="interval between two refreshes of the tables")
    keep_days: int = Field(
        default=30, ge=0, description="number of days for which the store keeps messages that have ended"
    )
    keep_hours: int = Field(
        default=168, ge=0, description="number of hours for which earlier versions of the lake's tables stay readable"
    )

    def stall_policy(
        self, deployment: Deployment, *, max_message_retries: int, retries_by_kind: Mapping[Kind, int | None]
    ) -> StallPolicy:
        """Returns the stall policy for a network."""
        return StallPolicy(
            stall_after=self.stall_after,
            max_lag=self.max_lag,
            max_message_retries=max_message_retries,
            by_kind=self.stall_after_by_kind,
            by_lane={
                (lane.source_chain, lane.destination_chain): limit.stall_after
                for limit in self.lanes
                for lane in limit.lanes(deployment)
            },
            retries_by_kind=retries_by_kind,
        )

    @property
    def limits(self) -> SourceLimits:
        """Returns the limits for reading the chains."""
        return SourceLimits(poll_interval=self.poll_interval)
