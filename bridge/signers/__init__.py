"""Where keys are: in the environment, in a keystore file, or with a remote signer."""

from __future__ import annotations

from bridge.signers.local import environment_signer, keystore_signer
from bridge.signers.remote import RemoteSigner

__all__ = ["RemoteSigner", "environment_signer", "keystore_signer"]
