"""What the index answers with. All times are of blocks, in Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import ChainRecord, DivergenceRecord, FeePaid, GmpCost
from bridge.protocol.status import Status
from indexer.store.analytics import Alternative, GmpShare, Lane, Stage
from indexer.store.ranking import GmpHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedLog:
    """A log with one of Waybill's events that can't be right."""

    chain_id: int
    block_number: int
    log_index: int
    transaction_hash: bytes
    address: bytes
    event: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpCounts:
    """What one GMP did, over all messages."""

    dispatched: int
    dispatch_failures: int
    received: int
    duplicates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryCounts:
    """Retries: requests written, retries seen on chain, retried messages that were executed."""

    requested: int
    sent: int
    executed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole index in figures.

    Attributes:
        messages: routed, and not taken back by a reorg; with those that the store has pruned, as all counts are.
        not_counted: messages that the store has pruned before the lake's tables had them; in no figure.
        executed_twice: must be 0.
        lost: neither executed, nor ended, nor waiting within the deadline, nor executable.
        execution_failures_recovered: executed after the recipient had failed.
        late_receipts: of GMPs that delivered when the message was executed already.
        latency_p50_ms: from the block of the route to the block of the execution, by block time: whole seconds.
        latency_p95_ms: the same.
        attested_unknown: why no stage says when GMPs attested; None if one does.
        stages: latencies by lane and stage; of the newest messages only, like what follows.
        shares: what each GMP contributed.
        alternatives: what smaller sets of GMPs would have cost and gained.
        left_out: GMPs of which no sets were made, since there are too many of them.
        duplicates_by_day: deliveries that changed nothing, by GMP, lane and day (UTC).
        health: how GMPs did of late, by lane, the healthiest first.
        costs: what each GMP's deliveries cost; empty unless the chains were asked, as is what follows.
        fees: what senders paid for sets of GMPs.
    """

    chains: tuple[ChainRecord, ...]
    messages: int
    not_counted: int
    executed: int
    executed_twice: int
    lost: int
    by_status: dict[Status, int]
    retries: RetryCounts
    duplicates_absorbed: int
    late_receipts: int
    execution_failures_recovered: int
    divergences: tuple[DivergenceRecord, ...]
    per_gmp: dict[Gmp, GmpCounts]
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    attested_unknown: str | None
    stages: tuple[Stage, ...]
    shares: tuple[GmpShare, ...]
    alternatives: tuple[Alternative, ...]
    left_out: tuple[int, ...]
    duplicates_by_day: dict[tuple[int, Lane, str], int]
    health: tuple[GmpHealth, ...]
    costs: tuple[GmpCost, ...]
    fees: tuple[FeePaid, ...]
