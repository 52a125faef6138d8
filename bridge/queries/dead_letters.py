"""Queries about dead letters: their history, and the possible decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.dead_letters.analysis import Analysis
from bridge.dead_letters.review import Opened, analyse_letter, latest_document, message_in
from bridge.protocol.indexed import Index
from bridge.protocol.times import iso_milliseconds
from bridge.records.dead_letters import (
    OPEN,
    DeadLetter,
    Decision,
    LetterStatus,
    LogRecord,
    RecordKind,
    action_of_letter,
)
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterAct:
    """A possible decision, and the command for it."""

    kind: str  # requeue, reissue, escalate or abandon
    decision: Decision | None  # None: by its command only
    title: str
    why: str
    command: str


_UNREADABLE: Final = Analysis(
    permanent="unknown: this version can't read the message",
    systemic="unknown",
    would_succeed="unknown",
    governance="unknown",
    suggestion="abandon or escalate it, or upgrade Waybill",
    can_requeue=True,
)


def read_letter(
    log: DeadLetterLog | None, store: Store | None, index: Index | None, event_id: str, now: float
) -> Opened | None:
    """Returns a letter with its history and an analysis, or None if it does not exist. Asks no chain.

    Args:
        log: the log of dead letters; None if no relayer has run.
        store: the relayer's store.
        index: the network's index.
        event_id: the letter's id.
        now: Unix seconds.
    """
    letter = log.letter(event_id) if log else None
    if log is None or letter is None:
        return None
    history = log.history(event_id)
    document = latest_document(history)
    message, analysis = message_in(document), _UNREADABLE
    if message is not None:
        record = index.message(message.id) if index else None
        status = record.status if record else None
        analysis = analyse_letter(letter, document, message, log=log, store=store, status=status, now=now)
    return Opened(letter=letter, document=document, history=history, analysis=analysis)


def letter_acts(letter: DeadLetter, analysis: Analysis) -> tuple[LetterAct, ...]:
    """Returns the decisions about a letter that are possible now."""
    about = action_of_letter(letter.event_id)
    if about is not None:
        return _acts_about_action(letter, *about)
    found = (
        ("requeue", Decision.REQUEUE, "Delivers the same message again, with all its tries. The cause must be gone."),
        ("retry", None, "Sends a new message in its place. Its sender signs too, so this needs the command."),
        ("escalate", Decision.GOVERNANCE_ESCALATION, "Hands it to governance. It stays open until they decide."),
        ("abandon", Decision.ABANDON, "Gives it up for good. A sender that is a contract gets a message about it."),
    )
    return tuple(
        LetterAct(
            kind=kind,
            decision=decision,
            title="Re-issue" if kind == "retry" else kind.capitalize(),
            why=why,
            command=f'waybill dlq decide {letter.event_id} {kind} --rationale "…"',
        )
        for kind, decision, why in found
        if letter.status in OPEN and (kind != "requeue" or analysis.can_requeue)
    )


def _acts_about_action(letter: DeadLetter, action_id: bytes, branch: int) -> tuple[LetterAct, ...]:
    """Returns the steps for a letter about an action.

    A decision on chain is final, so either the participant is corrected or governance decides.
    """
    if letter.status not in OPEN:
        return ()
    return (
        LetterAct(
            kind="reconcile",
            decision=None,
            title="Reconcile",
            why="Makes the participant match the decision. The letter closes when the action ends.",
            command=f"waybill action reconcile 0x{action_id.hex()} --branch {branch}",
        ),
        LetterAct(
            kind="escalate",
            decision=Decision.GOVERNANCE_ESCALATION,
            title="Escalate",
            why="Hands it to governance. It stays open until they decide.",
            command=f'waybill dlq decide {letter.event_id} escalate --rationale "…"',
        ),
    )


def suggestion(letter: DeadLetter, analysis: Analysis, acts: Sequence[LetterAct]) -> str:
    """Returns the analysis's suggestion, with the command in backticks if it suggests a single decision."""
    if letter.status not in OPEN:
        return f"nothing: it is {letter.status}"
    command = next((act.command for act in acts if act.kind == analysis.suggestion), None)
    return f"{analysis.suggestion}: `{command}`" if command else analysis.suggestion


def happened(record: LogRecord) -> str:
    """Describes a record of a letter's history."""
    document = record.document
    match record.kind:
        case RecordKind.DECIDED:
            new = document.get("newMessageId")
            made = f"; the new message is {new}" if new else ""
            return (
                f"{document.get('decisionType')} by {document.get('decisionMaker')}: {document.get('rationale')}{made}"
            )
        case RecordKind.RECOVERED if "state" in document:
            return f"the action is {document['state']}"
        case RecordKind.RECOVERED:
            return f"delivered in block {document.get('block')}"
        case _:
            return f"given up: {str(document['reason']).replace('_', ' ').lower()}"


def listed(
    log: DeadLetterLog | None, store: Store | None, status: LetterStatus | None, limit: int
) -> tuple[list[DeadLetter], list[OutboxEntry]]:
    """Returns the newest letters, and dead deliveries without a letter.

    Args:
        log: the log of dead letters; None if no relayer has run.
        store: the relayer's store.
        status: the status to filter by; None means all.
        limit: the maximum number of letters, and of deliveries.
    """
    statuses = frozenset(LetterStatus if status is None else {status})
    found = log.dead_letters(statuses=statuses, limit=limit) if log else []
    dead = store.outbox.listed(state=OutboxState.DEAD, limit=limit) if store and status is None else []
    return found, [entry for entry in dead if log is None or log.letter(entry.event_id) is None]


def letter_value(letter: DeadLetter) -> dict[str, Any]:
    """Returns a letter's row in a list."""
    return {
        "id": letter.event_id,
        "messageId": letter.message_id,
        "kind": letter.kind,
        "sourceChain": letter.source_chain,
        "destinationChain": letter.destination_chain,
        "gmp": letter.gmp,
        "status": letter.status.value,
        "errorCode": letter.error_code,
        "enteredAt": iso_milliseconds(letter.entered_at),
        "retentionUntil": iso_milliseconds(letter.retention_until),
    }


def log_record_value(record: LogRecord) -> dict[str, Any]:
    """Returns a record of the log, with its hashes and signature."""
    return {
        "sequence": record.sequence,
        "previous": f"0x{record.previous.hex()}",
        "hash": f"0x{record.hash.hex()}",
        "key": record.key,
        "kind": record.kind.value,
        "eventId": record.event_id,
        "at": record.at,
        "documentHash": f"0x{record.document_hash.hex()}",
        "document": record.document,
        "signer": record.signer,
        "signature": f"0x{record.signature.hex()}",
    }


def opened_value(opened: Opened) -> dict[str, Any]:
    """Returns a letter with its document, analysis, and history."""
    analysis = opened.analysis
    acts = letter_acts(opened.letter, analysis)
    return {
        **letter_value(opened.letter),
        "next": suggestion(opened.letter, analysis, acts),
        "decisions": [{"decision": act.kind, "why": act.why, "command": act.command} for act in acts],
        "document": dict(opened.document),
        "analysis": {
            "permanentOrTransient": analysis.permanent,
            "systemicOrIsolated": analysis.systemic,
            "wouldRetrySucceed": analysis.would_succeed,
            "governanceWarranted": analysis.governance,
            "suggestion": analysis.suggestion,
        },
        "history": [log_record_value(record) | {"happened": happened(record)} for record in opened.history],
    }
