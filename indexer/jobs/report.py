"""The index in figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Final

from bridge.protocol.status import Status
from indexer.analytics import alternatives, gmp_shares, percentile, stages
from indexer.costs import Costs, fees_paid, gmp_costs, paid_for, transactions_of
from indexer.health import gmp_health
from indexer.reading import IndexReader
from indexer.records import GmpCounts, Report, RetryCounts

_MOST_DELIVERIES: Final = 50_000  # the newest, from which stages, shares and alternatives follow
_MOST_ASKED_FOR: Final = 2_000  # the newest, whose transactions the chains are asked for
_LOST: Final = (Status.STALLED, Status.UNKNOWN, Status.DEAD)


AskCosts = Callable[[Mapping[int, Sequence[bytes]]], Costs]
"""Tells what transactions cost, by chain; see `indexer.jobs.costs`."""


def make_report(reader: IndexReader, ask_costs: AskCosts | None = None) -> Report:
    """Counts what the index knows.

    Args:
        reader: of the index.
        ask_costs: asks the chains what the newest messages' transactions cost, which the index does not know.
    """
    totals = reader.totals()
    by_status = reader.counts_by_status()
    latencies = reader.latencies()
    deliveries = reader.deliveries(_MOST_DELIVERIES if ask_costs is None else _MOST_ASKED_FOR)
    costs = {} if ask_costs is None else ask_costs(transactions_of(deliveries))
    paid = None if ask_costs is None else {key: wei for key, (_, wei) in paid_for(deliveries, costs).items()}
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
        alternatives=tuple(alternatives(deliveries, paid)),
        duplicates_by_day=reader.duplicates_by_day(),
        health=tuple(gmp_health(reader.dispatches(_MOST_DELIVERIES))),
        costs=tuple(gmp_costs(deliveries, costs)),
        fees=tuple(fees_paid(deliveries, costs)),
    )


def _milliseconds(ascending: Sequence[int], share: float) -> float | None:
    """The nearest-rank percentile, from seconds."""
    if not ascending:
        return None
    return percentile(ascending, share) * 1000.0
