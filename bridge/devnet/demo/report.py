"""The demonstration's report: the same sums from the chains and from the index, which must agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.devnet.demo.audit import Audit


class DisagreementError(Exception):
    """Chains and index do not say the same, or something did not end as it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of the messages.

    Attributes:
        chains: their names.
        audit: what the chains' logs add up to, and the index too.
        retries_requested: by the index.
        divergences: as the index found them.
        seconds: how long the demonstration took.
    """

    chains: Sequence[str]
    audit: Audit
    retries_requested: int
    divergences: Sequence[Mapping[str, Any]]
    seconds: float

    @property
    def retries(self) -> dict[str, int]:
        """How many were requested, sent and executed."""
        audit = self.audit
        return {"requested": self.retries_requested, "sent": audit.retried, "executed": audit.retried_and_executed}

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        same = ("messages", "executed", "executed_twice", "lost", "late_receipts", "repeated_deliveries")
        return {
            "chains": self.chains,
            **{name: getattr(self.audit, name) for name in same},
            "retries": self.retries,
            "duplicates_absorbed": self.audit.duplicates_absorbed,
            "execution_failures_recovered": self.audit.execution_failures_recovered,
            "divergences": self.divergences,
            "per_gmp": self.audit.per_gmp,
            "latency_ms": percentiles(self.audit),
            "seconds": self.seconds,
        }


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
        audit=audit,
        retries_requested=index["retries_requested"],
        divergences=index["divergences"],
        seconds=round(seconds, 1),
    )


def require_a_good_end(report: Report) -> None:
    """Does nothing if every message was executed once.

    Raises:
        DisagreementError: one was not, or the index found a divergence.
    """
    audit = report.audit
    if audit.lost or audit.executed_twice or report.divergences:
        raise DisagreementError(
            f"{audit.lost} messages were lost, {audit.executed_twice} executed twice, "
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
        "latency_ms": percentiles(audit),
    }


def percentiles(audit: Audit) -> dict[str, int]:
    """p50 and p95 by nearest rank."""
    ascending = audit.latencies_ms
    if not ascending:
        return {"p50": 0, "p95": 0}
    return {name: ascending[math.ceil(share * len(ascending)) - 1] for name, share in (("p50", 0.50), ("p95", 0.95))}
