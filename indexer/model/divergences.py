"""Severity and next action of each kind of divergence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.protocol.indexed import DivergenceRecord
from indexer.model import schemas


class Severity(StrEnum):
    """Severity of a divergence."""

    CRITICAL = "critical"  # funds could be stolen, or have been
    HIGH = "high"  # a guarantee is broken; investigate today
    MEDIUM = "medium"  # a message is stuck and needs action
    LOW = "low"  # anyone can cause it with honest routers: nothing is wrong, but it explains unexpected events


@dataclass(frozen=True, slots=True)
class Meaning:
    """Severity and next action of a kind of divergence."""

    severity: Severity
    next_action: str


_STOP: Final = "pause the lane: `waybill lane pause`; then compare both chains' transactions by hand"
_REVOKE: Final = "revoke the GMP's adapter: `waybill gmp revoke`, which voids its receipts; then `waybill message show`"

MEANINGS: Final[dict[str, Meaning]] = {
    "EXECUTED_TWICE": Meaning(Severity.CRITICAL, _STOP),
    "PAYLOAD_DIFFERS": Meaning(Severity.CRITICAL, _REVOKE),
    "EXECUTED_WITHOUT_QUORUM": Meaning(Severity.CRITICAL, _STOP),
    "EXECUTED_ELSEWHERE": Meaning(Severity.CRITICAL, _STOP),
    "ENDED_TWICE": Meaning(Severity.CRITICAL, _STOP),
    "END_WITHOUT_CREATION": Meaning(Severity.CRITICAL, _STOP),
    "NEVER_SENT": Meaning(
        Severity.LOW,
        "nothing: anybody can have an invented message expire, or cancel one of their own; no router sent or executed it",
    ),
    "QUORUM_LOWERED": Meaning(Severity.CRITICAL, _STOP),
    "REFUSED_WITHOUT_QUORUM": Meaning(Severity.CRITICAL, _STOP),
    "EXECUTED_BEFORE_CREATION": Meaning(Severity.CRITICAL, _STOP),
    "RECEIPTS_MISCOUNTED": Meaning(Severity.CRITICAL, _STOP),
    "CANCELLED_WITHOUT_REQUEST": Meaning(Severity.CRITICAL, _STOP),
    "EXPIRED_TOO_EARLY": Meaning(
        Severity.CRITICAL, "refund nothing; compare the block's time with the message's `sentAt` and `ttl`"
    ),
    "REPORTED_TWICE": Meaning(
        Severity.CRITICAL, "refund nothing; compare each report with the destination's own events"
    ),
    "DUPLICATE_WITHOUT_RECEIPT": Meaning(
        Severity.HIGH,
        "`waybill index verify`; if nothing is missing, look at the adapter: it absorbs what never arrived",
    ),
    "EXECUTED_AFTER_EXPIRY": Meaning(
        Severity.HIGH, "compare the time of the execution's block with the message's `sentAt` and `ttl`"
    ),
    "RECEIPT_WITHOUT_CREATION": Meaning(Severity.CRITICAL, _REVOKE),
    "RECEIPT_OVER_UNUSED_GMP": Meaning(Severity.CRITICAL, _REVOKE),
    "RECEIPT_FROM_UNREGISTERED_ADAPTER": Meaning(Severity.CRITICAL, _STOP),
    "NONCE_GAP": Meaning(Severity.HIGH, "`waybill index verify --repair`: it finds the blocks whose logs are missing"),
    "SILENT": Meaning(
        Severity.MEDIUM, "ask the silent GMPs' operators; `waybill message show` says what else can be done"
    ),
    "FAN_OUT_DIFFERS": Meaning(Severity.HIGH, "send the payload again to the chains that lack it: `waybill send`"),
    "OUTCOME_DIFFERS": Meaning(
        Severity.CRITICAL, "refund nothing; compare the report with the destination's own events"
    ),
    "LANE_DIFFERS": Meaning(Severity.HIGH, "`waybill index verify --repair`"),
    "FINALITY_VIOLATED": Meaning(
        Severity.CRITICAL, "check the deliveries named against both chains, then `waybill index verify --repair`"
    ),
}


def divergence_record(row: Mapping[str, Any]) -> DivergenceRecord:
    """Returns a divergence with its meaning. `row` has the columns of `schemas.DIVERGENCES`, and possibly others."""
    meaning = MEANINGS[row["kind"]]
    stated = {name: row[name] for name in schemas.DIVERGENCES.names}
    return DivergenceRecord(**stated, severity=meaning.severity.value, next_action=meaning.next_action)


def in_order(found: Iterable[DivergenceRecord]) -> list[DivergenceRecord]:
    """Sorts divergences by kind, message, lane and evidence.

    This is not left to the database, which would sort text by its locale.
    """
    return sorted(
        found,
        key=lambda one: (
            one.kind,
            one.message_id or b"",
            one.source_chain or 0,
            one.destination_chain or 0,
            one.evidence,
        ),
    )
