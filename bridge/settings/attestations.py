"""Settings of where proofs come from on a public network."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from bridge.attestations import AttestationSettings
from bridge.settings.sections import Address, Section

_Url = Annotated[str, StringConstraints(pattern=r"^https?://")]


class AttestationTable(Section):
    """Whom to ask for what a GMP's own parties signed. A devnet asks nobody: it signs itself."""

    wormhole: tuple[_Url, ...] = AttestationSettings().wormhole  # each serves /v1/signed_vaa
    hyperlane: dict[str, Address] = Field(default={})  # ValidatorAnnounce contracts, by name of the chain
    timeout: float = Field(default=AttestationSettings().timeout, gt=0)

    def settings(self) -> AttestationSettings:
        """What the attesters need of these."""
        return AttestationSettings(wormhole=self.wormhole, hyperlane=self.hyperlane, timeout=self.timeout)
