"""The table of failures, with their codes and dispositions, and whether the delivery is tried again.

The codes and dispositions come from OIP's fault tolerance page. Relayer, stores, commands, API and the
reference page all use this table. A failure without a row is UNKNOWN: it is retried, counted, and raises an
alert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from bridge.protocol.contracts import Revert, decode_revert
from bridge.protocol.delivery_errors import (
    AttestationUnansweredError,
    DeliveryRevertedError,
    DeliveryTimeoutError,
    NotAttestedError,
)
from bridge.protocol.errors import CursorMovedError, StoreBusyError
from bridge.protocol.failures import FailureKind
from bridge.protocol.message import EnvelopeError
from bridge.protocol.ports import (
    AttestationPendingError,
    CallRevertedError,
    TerminalError,
    TransientError,
    UnansweredError,
)


class ErrorCode(StrEnum):
    """Error codes of OIP's fault tolerance page."""

    MESSAGE_TTL_EXPIRED = "MESSAGE_TTL_EXPIRED"
    DEDUPLICATION_DETECTED = "DEDUPLICATION_DETECTED"
    ATTESTATION_REPLAY_DETECTED = "ATTESTATION_REPLAY_DETECTED"
    STATE_HASH_MISMATCH = "STATE_HASH_MISMATCH"
    DELIVERY_TIMEOUT = "DELIVERY_TIMEOUT"
    MAX_RETRIES_EXCEEDED = "MAX_RETRIES_EXCEEDED"
    ROLLBACK_INCOMPLETE_REJECT = "ROLLBACK_INCOMPLETE_REJECT"


class Disposition(StrEnum):
    """The handling of a failure: the document's five dispositions, and IGNORE."""

    REJECT = "REJECT"  # the message is rejected and not retried
    RETRY = "RETRY"  # retried as often as the kind's policy allows
    ROLLBACK = "ROLLBACK"  # the sender rolls back, on the destination's report
    ESCALATE = "ESCALATE"  # an operator or governance decides
    DIVERGE = "DIVERGE"  # the chains differ; the primary record decides
    IGNORE = "IGNORE"  # the effect already exists: success


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureClass:
    """One row of the failure table.

    Attributes:
        codes: codes recorded in histories, dead letters and metrics. An error type without a code is recorded
            under its own name.
        kind: effect on the delivery's next try; None if no delivery fails this way. A single node may report a
            rejection falsely, so a rejection does not end a delivery immediately; the relayer treats a message as
            rejected according to its chain's final state.
        disposition: the relayer's reaction.
        errors: exceptions of this class. The most specific row applies.
        blames_gmp: whether the failure counts against the GMP. Other failures are due to the destination's
            endpoints, its fees, or this process.
        reverts: names of the contract errors of this class.
        theirs: name of the failure in the documents.
        handling: one sentence that describes the relayer's reaction.
    """

    codes: tuple[str, ...] = ()
    kind: FailureKind | None
    disposition: Disposition
    errors: tuple[type[Exception], ...] = ()
    blames_gmp: bool = False
    reverts: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    handling: str

    @property
    def recorded(self) -> tuple[str, ...]:
        """Returns every code with which a failure of this class is recorded."""
        return (*self.codes, *(error.__name__ for error in self.errors))


_RETRY, _REJECT, _ESCALATE = Disposition.RETRY, Disposition.REJECT, Disposition.ESCALATE

FAILURES: Final = (
    FailureClass(
        codes=(ErrorCode.MESSAGE_TTL_EXPIRED,),
        kind=FailureKind.REFUSED,
        disposition=_REJECT,
        reverts=("MessageHasExpired", "Expired"),
        handling="the destination marks the message EXPIRED, and deliveries stop; a report notifies the sender",
    ),
    FailureClass(
        codes=(ErrorCode.DEDUPLICATION_DETECTED,),
        kind=FailureKind.REFUSED,
        disposition=Disposition.IGNORE,
        reverts=("AlreadyReceived", "AlreadyExecuted", "AlreadyApplied"),
        handling="the delivery, execution or change already exists, which is success",
    ),
    FailureClass(
        codes=(ErrorCode.ATTESTATION_REPLAY_DETECTED,),
        kind=FailureKind.REFUSED,
        disposition=_REJECT,
        reverts=("AttestationReplayed",),
        handling="the recipient's guard rejects the message; the relayer does not execute it again",
    ),
    FailureClass(
        codes=(ErrorCode.STATE_HASH_MISMATCH,),
        kind=FailureKind.REFUSED,
        disposition=_REJECT,
        reverts=("StateHashMismatch",),
        handling="the recipient's guard rejects the message; a followed change that stays unapplied becomes DIVERGED",
    ),
    FailureClass(
        codes=(ErrorCode.DELIVERY_TIMEOUT,),
        kind=FailureKind.TRANSIENT,
        disposition=_RETRY,
        errors=(DeliveryTimeoutError,),
        handling="the phase is retried within the message's tries, and joins a pending transaction",
    ),
    FailureClass(
        codes=(ErrorCode.MAX_RETRIES_EXCEEDED,),
        kind=None,
        disposition=_ESCALATE,
        theirs=("RetryExhausted{message, attempts, last_error}",),
        handling="written as a dead letter with the message and every failure, if its kind has dead letters",
    ),
    FailureClass(
        codes=(ErrorCode.ROLLBACK_INCOMPLETE_REJECT,),
        kind=FailureKind.REFUSED,
        disposition=_REJECT,
        reverts=("RollbackIncomplete",),
        handling="the recipient rejects the message while its asset is rolled back",
    ),
    FailureClass(
        kind=FailureKind.UNANSWERED,
        disposition=_RETRY,
        errors=(UnansweredError,),
        theirs=("Io", "KafkaConsumer{recoverable: true}"),
        handling="not counted as a try, since it says nothing about the message; a delivery without progress raises an alert",
    ),
    FailureClass(
        kind=FailureKind.UNANSWERED,
        disposition=_RETRY,
        errors=(AttestationUnansweredError,),
        blames_gmp=True,
        handling="not counted as a try; several in a row open the GMP's circuit breaker",
    ),
    FailureClass(
        kind=FailureKind.UNANSWERED,
        disposition=_RETRY,
        errors=(StoreBusyError, CursorMovedError),
        theirs=("OffsetCommit", "Redis"),
        handling="the outcome is kept and written again; after 12 failed commits the relayer stops",
    ),
    FailureClass(
        kind=FailureKind.TRANSIENT,
        disposition=_RETRY,
        errors=(AttestationPendingError,),
        handling="the GMP's own verifiers have not finished: queried again after a tenth of the elapsed time; "
        "not counted as a try",
    ),
    FailureClass(
        kind=FailureKind.TRANSIENT,
        disposition=_RETRY,
        errors=(TransientError,),
        theirs=("KafkaProducer{recoverable: true}", "KafkaProducer{recoverable: false}"),
        handling="retried, with a new nonce if needed: one node's rejection is not final",
    ),
    FailureClass(
        kind=FailureKind.TRANSIENT,
        disposition=_RETRY,
        errors=(NotAttestedError,),
        blames_gmp=True,
        handling="retried; several in a row open the GMP's circuit breaker",
    ),
    FailureClass(
        kind=FailureKind.REFUSED,
        disposition=_RETRY,
        errors=(CallRevertedError, DeliveryRevertedError),
        blames_gmp=True,
        handling="retried, since a contract may accept later what it rejects now, for example during a pause",
    ),
    FailureClass(
        kind=FailureKind.TERMINAL,
        disposition=_ESCALATE,
        errors=(EnvelopeError,),
        theirs=("MessageDeserialization", "Compression", "Decompression"),
        handling="the bytes are not an envelope, or have an unknown version: DEAD at once, with a letter if "
        "the kind has dead letters",
    ),
    FailureClass(
        kind=FailureKind.TERMINAL,
        disposition=_ESCALATE,
        errors=(TerminalError,),
        theirs=("FilterEvaluation", "TransformEvaluation", "JsonPathNotFound"),
        handling="the dispatch is not ours, or can't be attested: DEAD at once, with a letter if the kind has "
        "dead letters",
    ),
    FailureClass(
        codes=("DeliveryNotThere",),
        kind=FailureKind.UNDONE,
        disposition=_RETRY,
        handling="a reorg removed the delivery; it is repeated, which does not count as a try",
    ),
    FailureClass(
        codes=("Interrupted", "LeaseExpired"),
        kind=FailureKind.INTERRUPTED,
        disposition=_RETRY,
        handling="the worker stopped or lost its lease; another worker continues",
    ),
    FailureClass(
        codes=("DIVERGED",),
        kind=None,
        disposition=Disposition.DIVERGE,
        handling="a followed change stays unapplied after repeated re-propagation; the record on the source is authoritative",
    ),
    FailureClass(
        codes=("ROLLBACK_INCOMPLETE",),
        kind=None,
        disposition=Disposition.DIVERGE,
        handling="an aborted action is not released on every chain; until it is, new actions on its subject "
        "are rejected",
    ),
    FailureClass(
        codes=("EXPIRED", "CANCELLED"),
        kind=None,
        disposition=Disposition.ROLLBACK,
        handling="the destination reports the outcome, on which a dApp may roll back or refund",
    ),
    FailureClass(
        codes=("SettingsError", "PolicyError"),
        kind=None,
        disposition=_ESCALATE,
        theirs=("Config", "DslParse"),
        handling="the relayer does not start, and reports every problem at once",
    ),
    FailureClass(
        codes=("DEAD_LETTER_NOT_WRITTEN",),
        kind=None,
        disposition=_ESCALATE,
        theirs=("DeadLetterQueue",),
        handling="the lane halts after three tries, with the delivery still pending; `waybill lane resume` "
        "ends the halt",
    ),
)
"""Every class of failures."""

UNKNOWN: Final = FailureClass(
    codes=("UNKNOWN",),
    kind=FailureKind.UNKNOWN,
    disposition=_RETRY,
    handling="retried, counted by type in `waybill_delivery_failures_total`, logged with its traceback, and alerted on",
)
"""The class of a failure that is in no row."""

_BY_ERROR: Final[Mapping[type, FailureClass]] = MappingProxyType({kind: row for row in FAILURES for kind in row.errors})
_BY_CODE: Final[Mapping[str, FailureClass]] = MappingProxyType({code: row for row in FAILURES for code in row.recorded})
_BY_REVERT: Final[Mapping[str, FailureClass]] = MappingProxyType(
    {name: row for row in FAILURES for name in row.reverts}
)


def classify(error: BaseException) -> FailureClass:
    """Returns the class of a failure. For nested reverts, this is the class of the innermost revert that has a code."""
    if isinstance(error, CallRevertedError):
        known = classify_revert(error.data)
        if known is not None:
            return known
    return next((_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR), UNKNOWN)


def classify_revert(data: bytes) -> FailureClass | None:
    """Returns the class of a revert, or None if it has no code.

    Reverts can be nested, and the innermost one is the cause.
    """
    revert = decode_revert(data)
    found = [_BY_REVERT[one.name] for one in _nested(revert) if one.name in _BY_REVERT] if revert else []
    return found[-1] if found else None


def code_of(error: BaseException) -> str:
    """Returns the code that an entry's history records for an error: its class's code, or the name of its type."""
    codes = classify(error).codes
    return codes[0] if codes and classify(error) is not UNKNOWN else type(error).__name__


def class_of(code: str) -> FailureClass:
    """Returns the class of a failure that was recorded with a code."""
    return _BY_CODE.get(code, UNKNOWN)


def _nested(revert: Revert) -> Iterator[Revert]:
    yield revert
    for inner in revert.inner:
        yield from _nested(inner)
