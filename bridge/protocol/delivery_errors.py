"""How one try of a delivery can fail, beyond what a chain or a GMP's service says."""

from __future__ import annotations

from bridge.protocol.ports import Receipt, TransientError, UnansweredError


class DeliveryTimeoutError(TransientError):
    """A phase took too long. The next try joins a transaction that is under way, and sends no second one."""

    def __init__(self, phase: str, seconds: float) -> None:
        super().__init__(f"phase {phase} did not end within {seconds:g} s")
        self.seconds = seconds


class DeliveryRevertedError(Exception):
    """A delivery was included and reverted, in a transaction of its own or in a batch."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(
            f"the delivery reverted in block {receipt.block_number}: transaction 0x{receipt.transaction_hash.hex()},"
            f" which used {receipt.gas_used} gas"
        )


class NotAttestedError(TransientError):
    """The GMP has no attestation for the delivery yet, or did not answer."""


class AttestationUnansweredError(NotAttestedError, UnansweredError):
    """Neither the GMP's services nor the chains that hold its attestation gave a usable answer."""
