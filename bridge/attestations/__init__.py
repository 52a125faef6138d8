"""Where proofs come from on a public network: the GMPs' own services and contracts. Waybill signs nothing for them there."""

from __future__ import annotations

from bridge.attestations.network import AttestationError, AttestationSettings, public_attesters

__all__ = ["AttestationError", "AttestationSettings", "public_attesters"]
