"""The index in figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from bridge.protocol.status import Status
from indexer.analytics import alternatives, gmp_shares, percentile, stages
from indexer.reading import IndexReader
from indexer.records import GmpCounts, Report, RetryCounts

_MOST_DELIVERIES: Final = 50_000  # the newest, from which stages, shares and alternatives follow
_LOST: Final = (Status.STALLED, Status.UNKNOWN, Status.DEAD)


def make_report(reader: IndexReader) -> Report:
    """Counts what the index knows."""
    totals = reader.totals()
    by_status = reader.counts_by_status()
    latencies = reader.latencies()
    deliveries = reader.deliveries(_MOST_DELIVERIES)
    return Report(
        chains=tuple(reader.chains()),
        messages=totals["messages"],
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
        late_receipts=reader.late_receipts(),
        execution_failures_recovered=totals["recovered"],
        divergences=tuple(reader.divergences()),
        per_gmp={
            gmp: GmpCounts(**{field.name: sums[field.name] for field in fields(GmpCounts)})
            for gmp, sums in reader.gmp_totals().items()
        },
        latency_p50_ms=_milliseconds(latencies, 0.50),
        latency_p95_ms=_milliseconds(latencies, 0.95),
        stages=tuple(stages(deliveries)),
        shares=tuple(gmp_shares(deliveries)),
        alternatives=tuple(alternatives(deliveries)),
        duplicates_by_day=reader.duplicates_by_day(),
    )


def _milliseconds(ascending: Sequence[int], share: float) -> float | None:
    """The nearest-rank percentile, from seconds."""
    if not ascending:
        return None
    return percentile(ascending, share) * 1000.0
