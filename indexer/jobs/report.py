"""The index in figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Final

import pyarrow as pa

from bridge.protocol.gmps import Gmp
from bridge.protocol.status import Status
from indexer.jobs.pruning import NOTHING, Pruned
from indexer.model import schemas
from indexer.store.analytics import STAGES, GmpShare, Stage, alternatives, gmps_in_sets, percentile
from indexer.store.costs import Costs, fees_paid, gmp_costs, paid_for, transactions_of
from indexer.store.ranking import gmp_health
from indexer.store.reader import IndexReader
from indexer.store.records import GmpCounts, Report, RetryCounts

_MOST_DELIVERIES: Final = 50_000  # the newest, from which stages, shares and alternatives follow
_MOST_ASKED_FOR: Final = 2_000  # the newest, whose transactions the chains are asked for
_UNKNOWN: Final = "no relayer had its store here when the tables were last refreshed"
_LOST: Final = (Status.STALLED, Status.UNKNOWN, Status.DEAD)


AskCosts = Callable[[Mapping[int, Sequence[bytes]]], Costs]
"""Tells what transactions cost, by chain; see `indexer.sources.chain`."""


Attested = Mapping[tuple[bytes, int], float]
"""When the attestation of a delivery was there (Unix seconds), by message and GMP."""

AskAttested = Callable[[Collection[bytes]], Attested]
"""Tells it of some messages, or raises `AttestationsUnknownError`; see `bridge.cli.report`."""


def attested_rows(attested: Attested) -> pa.Table:
    """What a relayer knows, as `schemas.ATTESTED`."""
    rows = [
        {"message_id": message_id, "gmp": gmp, "attested_at": math.floor(at)}
        for (message_id, gmp), at in attested.items()
    ]
    return pa.Table.from_pylist(rows, schema=schemas.ATTESTED)


def make_report(
    reader: IndexReader,
    ask_costs: AskCosts | None = None,
    gone: Pruned = NOTHING,
    latencies: pa.Table | None = None,
    redundancy: pa.Table | None = None,
) -> Report:
    """Counts what the index knows: the store what it has now, the tables what it has pruned, latencies and redundancy.

    Args:
        reader: of the index.
        ask_costs: asks the chains what the newest messages' transactions cost, which the index does not know.
        gone: what the store has pruned.
        latencies: the table gold.latencies; None if there is none.
        redundancy: the table gold.redundancy; None if there is none.
    """
    totals = Counter(reader.totals()) + Counter(gone.totals)
    divergences = reader.divergences()
    by_status = dict(Counter(reader.counts_by_status(divergences)) + Counter(gone.by_status))
    seconds = sorted([*reader.latencies(), *gone.latencies])
    deliveries = reader.deliveries(_MOST_DELIVERIES if ask_costs is None else _MOST_ASKED_FOR)
    costs = {} if ask_costs is None else ask_costs(transactions_of(deliveries))
    known = [] if latencies is None else stages(latencies)
    paid = None if ask_costs is None else {key: wei for key, (_, wei) in paid_for(deliveries, costs).items()}
    return Report(
        chains=tuple(reader.chains()),
        messages=totals["messages"],
        not_counted=gone.missing,
        executed=totals["executed"],
        executed_twice=totals["executed_twice"],
        lost=sum(by_status.get(status, 0) for status in _LOST),
        by_status=by_status,
        retries=RetryCounts(
            requested=totals["retries_requested"],
            sent=totals["retries_sent"],
            executed=totals["retries_executed"],
        ),
        duplicates_absorbed=totals["duplicates"],
        late_receipts=reader.late_receipts() + gone.late_receipts,
        execution_failures_recovered=totals["recovered"],
        divergences=tuple(divergences),
        per_gmp=_per_gmp(reader.gmp_totals(), gone),
        latency_p50_ms=_milliseconds(seconds, 0.50),
        latency_p95_ms=_milliseconds(seconds, 0.95),
        attested_unknown=None if any(one.stage == "attested" for one in known) else _UNKNOWN,
        stages=tuple(known),
        shares=() if redundancy is None else tuple(shares(redundancy)),
        alternatives=tuple(alternatives(deliveries, paid)),
        left_out=gmps_in_sets(deliveries)[1],
        duplicates_by_day=dict(Counter(reader.duplicates_by_day()) + Counter(gone.duplicates_by_day)),
        health=tuple(gmp_health(reader.dispatches(_MOST_DELIVERIES))),
        costs=tuple(gmp_costs(deliveries, costs)),
        fees=tuple(fees_paid(deliveries, costs)),
    )


def stages(latencies: pa.Table) -> list[Stage]:
    """Rows of `schemas.LATENCIES` by lane, and in the order of `STAGES`."""
    found = [
        Stage(
            lane=(row["source_chain"], row["destination_chain"]),
            **{name: row[name] for name in ("stage", "messages", "p50", "p95", "p99")},
        )
        for row in latencies.to_pylist()
    ]
    return sorted(found, key=lambda one: (one.lane, STAGES.index(one.stage)))


def shares(redundancy: pa.Table) -> list[GmpShare]:
    """Rows of `schemas.REDUNDANCY`, by GMP."""
    same = ("gmp", "receipts", "lead_p50", "latency_p50", "latency_p95")
    found = [
        GmpShare(first=row["came_first"], late=row["late_receipts"], **{name: row[name] for name in same})
        for row in redundancy.to_pylist()
    ]
    return sorted(found, key=lambda one: one.gmp)


def _per_gmp(kept: Mapping[Gmp, Mapping[str, int]], gone: Pruned) -> dict[Gmp, GmpCounts]:
    names = [one.name for one in fields(GmpCounts)]
    known = {gmp for gmp in Gmp if gmp in kept or gmp.value in gone.per_gmp}
    return {
        gmp: GmpCounts(
            **{name: kept.get(gmp, {}).get(name, 0) + gone.per_gmp.get(gmp.value, {}).get(name, 0) for name in names}
        )
        for gmp in sorted(known)
    }


def _milliseconds(ascending: Sequence[int], share: float) -> float | None:
    """The nearest-rank percentile, from seconds."""
    if not ascending:
        return None
    return percentile(ascending, share) * 1000.0
