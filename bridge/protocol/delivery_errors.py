"""Errors of a delivery try that neither a chain nor a GMP's service reports."""

from __future__ import annotations

from bridge.protocol.ports import Receipt, TransientError, UnansweredError


class DeliveryTimeoutError(TransientError):
    """A phase timed out. The next try joins a pending transaction instead of sending a second one."""

    def __init__(self, phase: str, seconds: float) -> None:
        super().__init__(f"phase {phase} timed out after {seconds:g} s")
        self.seconds = seconds


class DeliveryRevertedError(Exception):
    """A delivery was included in a block and reverted, alone or in a batch."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(
            f"the delivery reverted in block {receipt.block_number}: transaction 0x{receipt.transaction_hash.hex()},"
            f" which used {receipt.gas_used} gas"
        )


class NotAttestedError(TransientError):
    """The GMP has no attestation for the delivery yet, or did not respond."""


class AttestationUnansweredError(NotAttestedError, UnansweredError):
    """Neither the GMP's services nor the chains that hold its attestation returned a usable response."""
