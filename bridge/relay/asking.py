"""What a GMP's adapter is asked for a delivery, and what its answers mean for that."""

from __future__ import annotations

from bridge.ports import (
    Adapter,
    Call,
    CallRevertedError,
    Dispatch,
    ProofPendingError,
    RecipientFailedError,
    TransientError,
    UnansweredError,
)
from bridge.protocol.contracts import ROUTER
from bridge.relay.failing import AttestationUnansweredError, NotAttestedError


async def attested(adapter: Adapter, dispatch: Dispatch) -> bytes:
    """The proof for a delivery.

    Raises:
        NotAttestedError: the GMP gives none, which speaks against it.
        AttestationUnansweredError: the same, for want of an answer.
        ProofPendingError: its own parties take their time.
        RecipientFailedError: somebody has to execute it by hand.
    """
    try:
        return await adapter.attest(dispatch)
    except (ProofPendingError, RecipientFailedError):
        raise  # it is tried again later, and does not speak against the GMP
    except UnansweredError as error:
        raise AttestationUnansweredError(str(error)) from error
    except TransientError as error:
        raise NotAttestedError(str(error)) from error


async def next_call(adapter: Adapter, dispatch: Dispatch, attestation: bytes) -> Call | None:
    """The delivery's next transaction, or None once it is there, whoever made it.

    Raises:
        CallRevertedError: the destination refuses it for another reason.
    """
    try:
        return await adapter.next_call(dispatch, attestation)
    except CallRevertedError as error:
        if is_received(error, dispatch):
            return None
        raise


def is_received(error: CallRevertedError, dispatch: Dispatch) -> bool:
    """Whether the router refused because this very delivery is there: somebody was faster, and that is success."""
    found = ROUTER.error(error.data)
    if found is None or found[0] != "AlreadyReceived":
        return False
    return (found[1]["messageId"], found[1]["gmp"]) == (dispatch.message_id, int(dispatch.gmp))
