"""Axelar: its network approves at the destination's gateway, which is asked.

Axelarscan says how far a message is; it gives out nothing that a relayer could hand in.
"""

from __future__ import annotations

from bridge.gmps.attestation import AttestationSources
from bridge.gmps.axelar.adapter import GATEWAY, AxelarContracts, axelar_message
from bridge.gmps.base_adapter import DeploymentReader
from bridge.protocol.ports import AttestationPendingError, Dispatch


class AxelarApprovals(DeploymentReader):
    """Waits until the gateway has the approval; then anyone may execute."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. There is nothing to hand in."""
        destination = self._deployment.chain(dispatch.destination_chain)
        gateway = AxelarContracts.of(destination).gateway
        message = axelar_message(self._deployment, dispatch)
        approved = await self._read(destination, gateway, GATEWAY, "isMessageApproved", *message)
        if not approved and not await self._read(destination, gateway, GATEWAY, "isMessageExecuted", *message[:2]):
            raise AttestationPendingError(f"Axelar's network has not approved {dispatch.transport_id} yet")
        return b""


def create_attester(sources: AttestationSources) -> AxelarApprovals:
    """Asks gateways."""
    return AxelarApprovals(sources.deployment, sources.chains)
