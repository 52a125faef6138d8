"""The demonstration's report: the same sums from the chains and from the index, which must agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bridge.devnet.demo.audit import Audit


class DisagreementError(Exception):
    """Chains and index do not say the same, or something did not end as it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of the messages."""

    chains: Sequence[str]
    messages: int
    executed: int
    executed_twice: int
    lost: int
    retries: Mapping[str, int]
    duplicates_absorbed: int
    late_receipts: int
    repeated_deliveries: int
    execution_failures_recovered: int
    divergences: Sequence[Mapping[str, Any]]
    per_gmp: Mapping[str, Mapping[str, int]]
    latency_ms: Mapping[str, int]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def report_of(audit: Audit, index: Mapping[str, Any], chains: Sequence[str], seconds: float) -> Report:
    """Puts the report together.

    Args:
        audit: what the chains' logs add up to.
        index: what `waybill report --json` printed.
        chains: the chains' names.
        seconds: how long the demonstration took.

    Raises:
        DisagreementError: a number that both know is not the same.
    """
    from_chains = _comparable(audit)
    from_index = {name: index[name] for name in from_chains}
    different = [
        f"{name}: the chains say {from_chains[name]}, the index says {from_index[name]}"
        for name in from_chains
        if from_chains[name] != from_index[name]
    ]
    if different:
        raise DisagreementError("chains and index disagree\n" + "\n".join(different))
    return Report(
        chains=chains,
        messages=audit.messages,
        executed=audit.executed,
        executed_twice=audit.executed_twice,
        lost=audit.lost,
        retries={
            "requested": index["retries_requested"],
            "sent": audit.retried,
            "executed": audit.retried_and_executed,
        },
        duplicates_absorbed=audit.duplicates_absorbed,
        late_receipts=audit.late_receipts,
        repeated_deliveries=audit.repeated_deliveries,
        execution_failures_recovered=audit.execution_failures_recovered,
        divergences=index["divergences"],
        per_gmp=audit.per_gmp,
        latency_ms=_percentiles(audit),
        seconds=round(seconds, 1),
    )


def require_a_good_end(report: Report) -> None:
    """Does nothing if every message was executed once.

    Raises:
        DisagreementError: one was not, or the index found a divergence.
    """
    if report.lost or report.executed_twice or report.divergences:
        raise DisagreementError(
            f"{report.lost} messages were lost, {report.executed_twice} executed twice, "
            f"{len(report.divergences)} divergences found"
        )


def _comparable(audit: Audit) -> dict[str, Any]:
    """The numbers that the index must find too, by the names that it gives them."""
    return {
        "messages": audit.messages,
        "executed": audit.executed,
        "executed_twice": audit.executed_twice,
        "lost": audit.lost,
        "retries_sent": audit.retried,
        "retries_executed": audit.retried_and_executed,
        "late_receipts": audit.late_receipts,
        "duplicates_absorbed": audit.repeated_deliveries,
        "execution_failures_recovered": audit.execution_failures_recovered,
        "per_gmp": audit.per_gmp,
        "latency_ms": _percentiles(audit),
    }


def _percentiles(audit: Audit) -> dict[str, int]:
    """p50 and p95 by nearest rank."""
    ascending = audit.latencies_ms
    if not ascending:
        return {"p50": 0, "p95": 0}
    return {name: ascending[math.ceil(share * len(ascending)) - 1] for name, share in (("p50", 0.50), ("p95", 0.95))}
