"""Operator settings for the GMPs' attestations on public networks; each GMP's `attester` module declares its own."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import create_model

from bridge.gmps.registry import attestation_setting, default_on_testnets
from bridge.protocol.gmps import Gmp
from bridge.settings import Section

_ATTESTATIONS: Final = {gmp: setting for gmp in Gmp if (setting := attestation_setting(gmp))}
_FIELDS: Final[dict[str, Any]] = {gmp.label: setting for gmp, setting in _ATTESTATIONS.items()}
_GmpAttestations: Any = create_model("_GmpAttestations", __base__=Section, **_FIELDS)


class AttestationServices(_GmpAttestations):  # type: ignore[misc]  # its fields are known at run time only
    """Attestation services of the GMPs.

    A devnet needs none, since Waybill itself signs there in place of the GMPs' verifiers.
    """

    TIMEOUT: ClassVar[float] = 10.0  # seconds for each request

    def by_gmp(self, *, is_testnet: bool = False) -> dict[Gmp, Any]:
        """Returns the values of the GMPs that have a setting, with the defaults for public testnets or other networks."""
        values = {gmp: getattr(self, gmp.label) for gmp in _ATTESTATIONS}
        for gmp in _ATTESTATIONS:
            if is_testnet and gmp.label not in self.model_fields_set:
                values[gmp] = default_on_testnets(gmp) or values[gmp]
        return values

    def chains(self) -> dict[str, set[str]]:
        """Returns the names of the chains mentioned in the settings, by table."""
        return {
            f"attestations.{gmp.label}": set(value) for gmp, value in self.by_gmp().items() if isinstance(value, dict)
        }
