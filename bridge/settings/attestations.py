"""Settings of where proofs come from on a public network."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from bridge.attestations import AttestationSettings
from bridge.settings.sections import Address, Section

_Url = Annotated[str, StringConstraints(pattern=r"^https?://")]


class AttestationTable(Section):
    """Whom to ask for what a GMP's own parties signed. A devnet asks nobody: it signs itself."""

    wormhole: tuple[_Url, ...] = Field(
        default=AttestationSettings().wormhole, description="URLs that serve `/v1/signed_vaa`, asked in order"
    )
    hyperlane: dict[str, Address] = Field(default={}, description="ValidatorAnnounce contracts, by name of the chain")
    timeout: float = Field(default=AttestationSettings().timeout, gt=0, description="until an answer is given up")

    def settings(self) -> AttestationSettings:
        """What the attesters need of these."""
        return AttestationSettings(wormhole=self.wormhole, hyperlane=self.hyperlane, timeout=self.timeout)
