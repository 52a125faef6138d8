"""How a delivery fails, in the words of its entry's history."""

from __future__ import annotations

from bridge.policies import classify
from bridge.ports import CallRevertedError, Receipt, TransientError, UnansweredError
from bridge.protocol.contracts import explain_revert
from bridge.records.failures import Failure, FailureKind
from bridge.relay.phases import DeliveryTimeoutError


class DeliveryRevertedError(Exception):
    """A delivery was included, and reverted; alone, or among others in a transaction that they shared."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(
            f"the delivery reverted in block {receipt.block_number}: transaction 0x{receipt.transaction_hash.hex()},"
            f" which used {receipt.gas_used} gas"
        )


class NotAttestedError(TransientError):
    """The GMP has no proof for the delivery yet, or can't be asked for it."""


class AttestationUnansweredError(NotAttestedError, UnansweredError):
    """Neither the GMP's services nor the chains that its proof is read from give an answer that can be used."""


def failure_of(error: Exception, now: float) -> Failure:
    """What an entry's history says of an error; `now` is in Unix seconds."""
    text = explain_revert(error.data) if isinstance(error, CallRevertedError) else str(error)
    return Failure(at=now, kind=classify(error), code=code_of(error), message=text or repr(error))


def interrupted(now: float, why: str) -> Failure:
    """What it says of a try that came to no end."""
    return Failure(at=now, kind=FailureKind.INTERRUPTED, code="Interrupted", message=why)


def code_of(error: Exception) -> str:
    """The document's word for an error that has one, else its type."""
    if isinstance(error, DeliveryTimeoutError):
        return error.code
    if isinstance(error, UnansweredError) and not isinstance(error, NotAttestedError):
        return UnansweredError.__name__
    return type(error).__name__
