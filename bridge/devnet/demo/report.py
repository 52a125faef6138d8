"""The demonstration's report. Chains and index must agree on its totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.atomic.records import ActionState
from bridge.devnet.demo.actions import ActionOutcome
from bridge.devnet.demo.audit import Audit
from bridge.protocol.numbers import percentile


class DisagreementError(Exception):
    """Chains and index disagree, or a message or an action ended wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The demonstration's results.

    Attributes:
        chains: Names of the chains.
        audit: Totals from the chains' logs, which the index confirmed.
        stalled: Messages that needed a retry.
        requested: Messages whose retry the index requested.
        actions: Outcomes of the atomic actions.
        divergences: Divergences that the index found.
        seconds: Duration of the demonstration.
    """

    chains: Sequence[str]
    audit: Audit
    stalled: frozenset[bytes]
    requested: frozenset[bytes]
    actions: Sequence[ActionOutcome]
    divergences: Sequence[Mapping[str, Any]]
    seconds: float

    @property
    def retries(self) -> dict[str, int]:
        """Returns the numbers of the stalled messages' retries that were requested, sent and executed.

        Retries that the relayer sends without a request are not counted.
        """
        return {
            "requested": len(self.requested),
            "sent": sum(self.audit.retries.get(message_id, 0) for message_id in self.stalled),
            "executed": len(self.audit.retried_and_executed & self.stalled),
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the report as plain values."""
        audit = self.audit
        return {
            "chains": self.chains,
            "messages": audit.messages,
            "executed": audit.executed,
            "executedTwice": audit.executed_twice,
            "lost": audit.lost,
            "lateReceipts": audit.late_receipts,
            "repeatedDeliveries": audit.repeated_deliveries,
            "retries": self.retries,
            "duplicatesAbsorbed": audit.duplicates_absorbed,
            "actions": [outcome.to_json() for outcome in self.actions],
            "divergences": self.divergences,
            "perGmp": audit.per_gmp,
            "latencyMs": percentiles(audit),
            "seconds": self.seconds,
        }


def require_agreement(audit: Audit, index: Mapping[str, Any]) -> None:
    """Checks that `waybill report` agrees with the chains.

    Args:
        audit: Totals from the chains' logs.
        index: Output of `waybill report --json`.

    Raises:
        DisagreementError: a total differs.
    """
    from_chains = _comparable(audit)
    different = [
        f"{name}: {from_chains[name]} from the chains, {index[name]} in the report"
        for name in from_chains
        if from_chains[name] != index[name]
    ]
    if different:
        raise DisagreementError("chains and index disagree:\n" + "\n".join(different))


def require_a_good_end(report: Report) -> None:
    """Checks that every message was executed once and every action is atomic.

    Raises:
        DisagreementError: a check failed, or the index found a divergence.
    """
    audit = report.audit
    if audit.lost or audit.executed_twice or report.divergences:
        raise DisagreementError(
            f"{audit.lost} messages were lost, {audit.executed_twice} executed twice, "
            f"{len(report.divergences)} divergences found"
        )
    if torn := [outcome for outcome in report.actions if not outcome.happened_everywhere_or_nowhere]:
        raise DisagreementError(f"actions took effect on some chains only: {torn}")
    ends = [outcome.action.state for outcome in report.actions]
    if ends != [ActionState.COMMITTED, ActionState.ABORTED]:
        raise DisagreementError(f"expected one committed and one aborted action, got {ends}")


def _comparable(audit: Audit) -> dict[str, Any]:
    """Returns the totals that the index must confirm, under the index's names."""
    return {
        "messages": audit.messages,
        "executed": audit.executed,
        "executedTwice": audit.executed_twice,
        "retriesSent": audit.retried,
        "retriesExecuted": len(audit.retried_and_executed),
        "lateReceipts": audit.late_receipts,
        "duplicatesAbsorbed": audit.repeated_deliveries,
        "perGmp": audit.per_gmp,
    }


def percentiles(audit: Audit) -> dict[str, int]:
    """Returns the p50 and p95 of the time from route to execution, in milliseconds."""
    ascending = audit.latencies_ms
    if not ascending:
        return {"p50": 0, "p95": 0}
    return {name: percentile(ascending, share) for name, share in (("p50", 0.50), ("p95", 0.95))}
