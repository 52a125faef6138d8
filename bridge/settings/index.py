"""Settings of the index. What they do is the indexer's business; here they have names, defaults and bounds."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from bridge.settings.sections import Section


class LaneStall(Section):
    """When messages of some lanes count as stalled."""

    source: str | None = None  # name of a chain; none is every one
    destination: str | None = None
    stall_after: int = Field(gt=0)

    def fits(self, source: str, destination: str) -> bool:
        """Whether it is about that lane."""
        return self.source in (None, source) and self.destination in (None, destination)


class IndexTable(Section):
    """How the chains are indexed, and when a retry is asked for. Times are in seconds where no other unit is named."""

    stall_after: int = Field(default=900, gt=0, description="until a message without its quorum is stalled")
    stall_after_by_kind: dict[str, int] = Field(default={}, description="the same, for some kinds of message")
    lanes: tuple[LaneStall, ...] = Field(
        default=(),
        description="the same, for some lanes, before what is said of kinds; the last that fits a lane counts",
    )
    learn_deadlines: bool = Field(default=False, description="whether other lanes' is taken from their own latencies")
    max_lag: int = Field(default=120, gt=0, description="behind which a chain is too far behind to judge by")
    max_retries: int = Field(
        default=10,
        gt=0,
        description="retries of one message that are asked for at most, if its kind's policy has an end",
    )
    requests_per_lane_minute: int = Field(default=60, gt=0, description="retries asked for, per lane and minute")
    silence_after: int = Field(
        default=86_400, gt=0, description="until the silence of a message that no GMP delivers is a divergence"
    )
    poll_interval: float = Field(
        default=1.0, gt=0, description="between two looks at a chain at least; each block gets one look (devnet: 0.1)"
    )
    rpc_timeout: float = Field(default=10.0, gt=0, description="until a request counts as failed")
    hash_window: int = Field(default=128, ge=2, description="recent blocks whose hashes are remembered")
    max_blocks_per_batch: int = Field(default=20_000, gt=0, description="blocks read at once by the stream")
    max_logs_per_batch: int = Field(default=10_000, gt=0, description="logs after which a batch of the stream ends")
    finality_depth: int = Field(default=64, gt=0, description="blocks, where a node does not know the tag finalized")
    rollback_patience: float = Field(default=2.0, ge=0, description="until a lower head counts as a rollback")
    failover_patience: float = Field(
        default=60.0, ge=0, description="until an endpoint is gone over to that has another last block than the index"
    )
    backfill_blocks: int = Field(
        default=10_000, gt=0, description="final blocks behind from which Spark reads them in parallel"
    )
    lake_interval: float = Field(default=30.0, gt=0, description="between two appends to the lake")
    maintenance_interval: float = Field(default=3_600.0, gt=0, description="between two rounds of maintenance")
    verify_interval: float = Field(default=300.0, gt=0, description="between two comparisons with what routers count")
    keep_days: int = Field(default=30, ge=0, description="days that the store keeps messages that have ended")
    keep_hours: int = Field(default=168, ge=0, description="hours for which the lake's earlier versions can be read")

    @field_validator("stall_after_by_kind")
    @classmethod
    def _names_kinds(cls, limits: dict[str, int]) -> dict[str, int]:
        for name, seconds in limits.items():
            if name.upper() not in Kind.__members__:
                raise ValueError(f"{name!r} is no kind of message; the kinds are {', '.join(Kind.__members__).lower()}")
            if seconds <= 0:
                raise ValueError(f"the limit of {name} is {seconds}; it must be greater than 0")
        return limits

    def by_kind(self) -> Mapping[Kind, int]:
        """Limits of some kinds."""
        return {Kind[name.upper()]: seconds for name, seconds in self.stall_after_by_kind.items()}

    def by_lane(self, deployment: Deployment) -> Mapping[tuple[int, int], int]:
        """Limits of some lanes, by their chains' ids."""
        return {
            (source.chain_id, destination.chain_id): limit.stall_after
            for limit in self.lanes
            for source in deployment.chains
            for destination in deployment.chains
            if source is not destination and limit.fits(source.name, destination.name)
        }
