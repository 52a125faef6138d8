"""What an operator decides about the GMPs' attestations on a public network. The GMPs' folders say what can be set."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import create_model

from bridge.gmps.attestation import AttestationSettings
from bridge.gmps.registry import attestation_setting
from bridge.protocol.gmps import Gmp
from bridge.settings import Section

_ATTESTATIONS: Final = {gmp: setting for gmp in Gmp if (setting := attestation_setting(gmp))}
_FIELDS: Final[dict[str, Any]] = {gmp.label: setting for gmp, setting in _ATTESTATIONS.items()}
_GmpAttestations: Any = create_model("_GmpAttestations", __base__=Section, **_FIELDS)


class AttestationServices(_GmpAttestations):  # type: ignore[misc]  # the GMPs' folders say what it holds
    """The attestation services of the GMPs. A devnet needs none, since it signs as the GMPs' own parties."""

    TIMEOUT: ClassVar[float] = 10.0  # seconds until an answer is given up

    def settings(self, *, is_testnet: bool = False) -> AttestationSettings:
        """What the attesters need of these, on public testnets or elsewhere."""
        stated = {gmp: getattr(self, gmp.label) for gmp in _ATTESTATIONS if gmp.label in self.model_fields_set}
        return AttestationSettings(gmps=stated, is_testnet=is_testnet)

    def chains(self) -> dict[str, set[str]]:
        """The chains that are named, by table."""
        return {
            f"attestations.{gmp.label}": set(stated)
            for gmp, stated in self.settings().gmps.items()
            if isinstance(stated, dict)
        }
