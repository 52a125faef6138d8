"""The index in figures."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

import pyarrow as pa
from sqlalchemy import Engine, select

from bridge.protocol.gmps import Gmp
from bridge.protocol.status import Status
from indexer.jobs.pruning import NOTHING, Pruned
from indexer.jobs.tables import noted_in
from indexer.lake.history import History
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model import schemas
from indexer.model.errors import AttestationsUnknownError, LakeDamagedError
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import Bronze, Noted, TableEngine
from indexer.store import tables
from indexer.store.analytics import STAGES, GmpReceipt, GmpShare, Stage, alternatives, gmps_in_sets, percentile
from indexer.store.costs import Costs, fees_paid, gmp_costs, paid_for, transactions_of
from indexer.store.ranking import gmp_health
from indexer.store.reader import IndexReader
from indexer.store.records import GmpCounts, Report, RetryCounts

_MOST_DELIVERIES: Final = 50_000  # the newest, from which stages, shares and alternatives follow
_MOST_ASKED_FOR: Final = 2_000  # the newest, whose transactions the chains are asked for
_LOST: Final = (Status.STALLED, Status.UNKNOWN, Status.DEAD)


AskCosts = Callable[[Mapping[int, Sequence[bytes]]], Costs]
"""Tells what transactions cost, by chain; see `indexer.sources.chain`."""


Attested = Mapping[tuple[bytes, int], float]
"""When the attestation of a delivery was there (Unix seconds), by message and GMP."""

AskAttested = Callable[[Collection[bytes]], Attested]
"""Tells it of some messages, or raises `AttestationsUnknownError`; see `bridge.cli.report`."""


Figures = Callable[[Attested | None], tuple[pa.Table, pa.Table]]
"""Computes `schemas.LATENCIES` and `schemas.REDUNDANCY` of all messages, given when their attestations were there; see `figures_of`."""


def _nobody_knows(_: Collection[bytes]) -> Attested:
    raise AttestationsUnknownError("no relayer was asked")


def figures_of(by: TableEngine, bronze: Bronze, noted: Noted) -> Figures:
    """Latencies and redundancy of a history.

    Args:
        by: what computes them.
        bronze: its events.
        noted: what they do not say.
    """

    def compute(attested: Attested | None) -> tuple[pa.Table, pa.Table]:
        with by.tables(bronze, replace(noted, attested=attested_rows(attested))) as made:
            return made.rows("latencies"), made.rows("redundancy")

    return compute


def attested_rows(attested: Attested | None) -> pa.Table | None:
    """What a relayer knows as `schemas.ATTESTED`; None if none was asked."""
    if attested is None:
        return None
    rows = [
        {"message_id": message_id, "gmp": gmp, "attested_at": math.floor(at)}
        for (message_id, gmp), at in attested.items()
    ]
    return pa.Table.from_pylist(rows, schema=schemas.ATTESTED)


def figures_of_index(engine: Engine, place: StorageLocation, by: TableEngine) -> Figures:
    """Latencies and redundancy of lake and store, or of the store alone while the lake is damaged.

    Args:
        engine: the store's, for reading.
        place: the lake's.
        by: what computes them.
    """

    def compute(attested: Attested | None) -> tuple[pa.Table, pa.Table]:
        try:
            return figures_of(by, History(engine, Lake(place)).bronze(), noted_in(engine))(attested)
        except LakeDamagedError:
            return figures_of_store(engine)(attested)

    return compute


def figures_of_store(engine: Engine) -> Figures:
    """Latencies and redundancy of what the store alone has."""
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(select(tables.events)).mappings()]
    wanted = [{name: row[name] for name in schemas.EVENTS.names} for row in rows]
    tail = pa.Table.from_pylist(wanted, schema=schemas.EVENTS)
    return figures_of(DUCKDB, Bronze(files=(), folder=StorageLocation(os.devnull), tail=tail), noted_in(engine))


def make_report(
    reader: IndexReader,
    ask_costs: AskCosts | None = None,
    gone: Pruned = NOTHING,
    ask_attested: AskAttested = _nobody_knows,
    figures: Figures | None = None,
) -> Report:
    """Counts what the index knows.

    Args:
        reader: of the index.
        ask_costs: asks the chains what the newest messages' transactions cost, which the index does not know.
        gone: what the store has pruned.
        ask_attested: asks the relayer when GMPs attested, which no event says.
        figures: computes latencies and redundancy; by default those of the store alone.
    """
    totals = Counter(reader.totals()) + Counter(gone.totals)
    divergences = reader.divergences()
    by_status = dict(Counter(reader.counts_by_status(divergences)) + Counter(gone.by_status))
    latencies = sorted([*reader.latencies(), *gone.latencies])
    deliveries = reader.deliveries(_MOST_DELIVERIES if ask_costs is None else _MOST_ASKED_FOR)
    costs = {} if ask_costs is None else ask_costs(transactions_of(deliveries))
    attested, attested_unknown = _attested(ask_attested, deliveries)
    latencies_, redundancy = (figures or figures_of_store(reader.engine))(attested)
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
        latency_p50_ms=_milliseconds(latencies, 0.50),
        latency_p95_ms=_milliseconds(latencies, 0.95),
        attested_unknown=attested_unknown,
        stages=tuple(stages(latencies_)),
        shares=tuple(shares(redundancy)),
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


def _attested(ask: AskAttested, deliveries: Sequence[GmpReceipt]) -> tuple[Attested | None, str | None]:
    try:
        return ask({one.message_id for one in deliveries}), None
    except AttestationsUnknownError as error:
        return None, str(error)


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
