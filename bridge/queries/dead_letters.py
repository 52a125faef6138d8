"""Dead letters as JSON, the same for every face."""

from __future__ import annotations

from typing import Any

from bridge.dead_letters.dead_letter import iso
from bridge.dead_letters.review import Opened
from bridge.domain.dead_letters import DeadLetter, LogRecord


def letter_value(letter: DeadLetter) -> dict[str, Any]:
    """One letter in a list."""
    return {
        "id": letter.event_id,
        "messageId": letter.message_id,
        "kind": letter.kind,
        "sourceChain": letter.source_chain,
        "destinationChain": letter.destination_chain,
        "gmp": letter.gmp,
        "status": letter.status.value,
        "errorCode": letter.error_code,
        "enteredAt": iso(letter.entered_at),
        "retentionUntil": iso(letter.retention_until),
    }


def log_record_value(record: LogRecord) -> dict[str, Any]:
    """Something that happened to a letter, with what proves it."""
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
    """A letter with its document, the four answers, and all that happened to it."""
    analysis = opened.analysis
    return {
        **letter_value(opened.letter),
        "document": dict(opened.document),
        "analysis": {
            "permanentOrTransient": analysis.permanent,
            "systemicOrIsolated": analysis.systemic,
            "wouldRetrySucceed": analysis.would_succeed,
            "governanceWarranted": analysis.governance,
            "suggestion": analysis.suggestion,
        },
        "history": [log_record_value(record) for record in opened.history],
    }
