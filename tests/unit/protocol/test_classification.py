"""Every failure has one class: the document's code and disposition, and whether another try is made."""

from __future__ import annotations

import pytest
from eth_abi import encode
from eth_utils import function_signature_to_4byte_selector

from bridge.protocol.classification import (
    FAILURES,
    UNKNOWN,
    Disposition,
    ErrorCode,
    class_of,
    classify,
    classify_revert,
    code_of,
)
from bridge.protocol.delivery_errors import AttestationUnansweredError, DeliveryTimeoutError, NotAttestedError
from bridge.protocol.errors import StoreBusyError
from bridge.protocol.events import load_abi
from bridge.protocol.failures import FailureKind
from bridge.protocol.message import EnvelopeError
from bridge.protocol.ports import CallRevertedError, TerminalError, TransientError, UnansweredError
from bridge.relayer.delivery import Phase
from tests.cases import for_each_case

WORD = b"\x01" * 32
THEIRS = {
    "KafkaProducer", "KafkaConsumer", "OffsetCommit", "Redis", "Io", "MessageDeserialization", "FilterEvaluation",
    "TransformEvaluation", "JsonPathNotFound", "Compression", "Decompression", "RetryExhausted", "Config", "DslParse",
    "DeadLetterQueue",
}  # fmt: skip
DOCUMENT = {
    "MESSAGE_TTL_EXPIRED": "REJECT",
    "DEDUPLICATION_DETECTED": "IGNORE",
    "ATTESTATION_REPLAY_DETECTED": "REJECT",
    "STATE_HASH_MISMATCH": "REJECT",
    "DELIVERY_TIMEOUT": "RETRY",
    "MAX_RETRIES_EXCEEDED": "ESCALATE",
    "ROLLBACK_INCOMPLETE_REJECT": "REJECT",
}
"""The seven codes of OIP in its order; MAX_RETRIES_EXCEEDED goes to the dead letters, where an operator decides."""


def reverted(signature: str, *values: object) -> bytes:
    types = signature.partition("(")[2].rstrip(")")
    return function_signature_to_4byte_selector(signature) + encode(types.split(",") if types else [], values)


def refused_execution(reason: bytes) -> bytes:
    return reverted("ExecutionReverted(bytes32,bytes)", WORD, reason)


MISMATCH = reverted("StateHashMismatch(bytes32,bytes32,bytes32)", WORD, WORD, WORD)


def test_the_seven_codes_have_the_documents_dispositions() -> None:
    assert {row.codes[0]: row.disposition.value for row in FAILURES[:7]} == DOCUMENT
    assert {row.disposition for row in FAILURES} == set(Disposition), "each disposition is that of a failure"
    assert list(map(str, ErrorCode)) == list(DOCUMENT)
    ends = {code: row.disposition.value for row in FAILURES[7:] for code in row.codes if code.isupper()}
    assert ends == {
        "DIVERGED": "DIVERGE",
        "ROLLBACK_INCOMPLETE": "DIVERGE",
        "EXPIRED": "ROLLBACK",
        "CANCELLED": "ROLLBACK",
        "DEAD_LETTER_NOT_WRITTEN": "ESCALATE",
    }


def test_every_error_of_streamforge_has_a_row() -> None:
    theirs = {name.partition("{")[0]: row for row in FAILURES for name in row.theirs}
    assert theirs.keys() == THEIRS
    assert {name for name, row in theirs.items() if row.kind is None} == {
        "RetryExhausted", "Config", "DslParse", "DeadLetterQueue"
    }  # fmt: skip
    assert {row.disposition for row in theirs.values() if row.kind is None} == {Disposition.ESCALATE}, "not retried"
    assert [name for name, row in theirs.items() if not row.handling] == []


@for_each_case(
    "error, code, kind, disposition",
    [
        (TransientError("later"), "TransientError", FailureKind.TRANSIENT, Disposition.RETRY),
        (NotAttestedError("no proof"), "NotAttestedError", FailureKind.TRANSIENT, Disposition.RETRY),
        (StoreBusyError("away"), "StoreBusyError", FailureKind.UNANSWERED, Disposition.RETRY),
        (DeliveryTimeoutError(Phase.ATTEST, 1), "DELIVERY_TIMEOUT", FailureKind.TRANSIENT, Disposition.RETRY),
        (UnansweredError("silence"), "UnansweredError", FailureKind.UNANSWERED, Disposition.RETRY),
        (AttestationUnansweredError("-"), "AttestationUnansweredError", FailureKind.UNANSWERED, Disposition.RETRY),
        (TerminalError("never"), "TerminalError", FailureKind.TERMINAL, Disposition.ESCALATE),
        (EnvelopeError("no envelope"), "EnvelopeError", FailureKind.TERMINAL, Disposition.ESCALATE),
        (CallRevertedError(b""), "CallRevertedError", FailureKind.REFUSED, Disposition.RETRY),
        (
            CallRevertedError(refused_execution(MISMATCH)),
            "STATE_HASH_MISMATCH",
            FailureKind.REFUSED,
            Disposition.REJECT,
        ),
        (ZeroDivisionError(), "ZeroDivisionError", FailureKind.UNKNOWN, Disposition.RETRY),
    ],
)
def test_failure_has_its_code_and_its_kinds_treatment(
    error: Exception, code: str, kind: FailureKind, disposition: Disposition
) -> None:
    assert (code_of(error), classify(error).kind, classify(error).disposition) == (code, kind, disposition)
    assert class_of(code).disposition in (disposition, UNKNOWN.disposition)


@for_each_case(
    "reason, code",
    [
        (reverted("MessageHasExpired(bytes32,uint64,uint32)", WORD, 1, 2), ErrorCode.MESSAGE_TTL_EXPIRED),
        (MISMATCH, ErrorCode.STATE_HASH_MISMATCH),
        (
            reverted("AttestationReplayed(bytes32,bytes32,bytes32)", WORD, WORD, WORD),
            ErrorCode.ATTESTATION_REPLAY_DETECTED,
        ),
        (reverted("RollbackIncomplete(bytes32)", WORD), ErrorCode.ROLLBACK_INCOMPLETE_REJECT),
        (reverted("AlreadyApplied(bytes32,bytes32)", WORD, WORD), ErrorCode.DEDUPLICATION_DETECTED),
        (reverted("AlreadyReceived(bytes32,uint8)", WORD, 1), ErrorCode.DEDUPLICATION_DETECTED),
        (reverted("AlreadyExecuted(bytes32)", WORD), ErrorCode.DEDUPLICATION_DETECTED),
        (reverted("OutOfOrder(bytes32,uint64,uint64)", WORD, 2, 3), None),
        (b"", None),
    ],
)
def test_a_guards_refusal_has_the_code_of_its_error(reason: bytes, code: ErrorCode | None) -> None:
    known = classify_revert(refused_execution(reason))
    assert (known and known.codes[0]) == code


@pytest.mark.parametrize(
    "reason", [reverted("AlreadyReceived(bytes32,uint8)", WORD, 1), reverted("AlreadyExecuted(bytes32)", WORD)]
)
def test_what_the_router_has_already_is_a_duplicate_and_ignored(reason: bytes) -> None:
    known = classify_revert(reason)
    assert known is not None
    assert (known.codes[0], known.disposition) == (ErrorCode.DEDUPLICATION_DETECTED, Disposition.IGNORE)


def test_every_revert_of_the_table_exists() -> None:
    assert {name for row in FAILURES for name in row.reverts} - {one["name"] for one in load_abi("Errors")} == set()
