"""Sending transactions so that none is lost and none is sent twice: a nonce ledger, and bytes stored before they are sent."""

from __future__ import annotations

from bridge.sending.account import NonceLostError
from bridge.sending.pool import SenderPool, Sending
from bridge.sending.reconciliation import reconcile_nonces
from bridge.sending.sender import Sender
from bridge.sending.settings import SendingSettings
from bridge.sending.signing import InvalidKeyError, LocalSigner, Signer

__all__ = [
    "InvalidKeyError",
    "LocalSigner",
    "NonceLostError",
    "Sender",
    "SenderPool",
    "Sending",
    "SendingSettings",
    "Signer",
    "reconcile_nonces",
]
