"""Axelar's attester. Waits until the Axelar network has approved a message at the destination's gateway.

Axelarscan shows a message's progress, but publishes nothing that a relayer could submit.
"""

from __future__ import annotations

from bridge.gmps.attestation import AttestationSources
from bridge.gmps.axelar.adapter import GATEWAY, AxelarContracts, axelar_message
from bridge.gmps.base_adapter import DeploymentReader
from bridge.protocol.ports import AttestationPendingError, Dispatch


class AxelarApprovals(DeploymentReader):
    """Waits until the gateway has approved a message, after which anyone may execute it."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. Returns empty bytes, because the approval is already on chain."""
        destination = self._deployment.chain(dispatch.destination_chain)
        gateway = AxelarContracts.of(destination).gateway
        message = axelar_message(self._deployment, dispatch)
        approved = await self._read(destination, gateway, GATEWAY, "isMessageApproved", *message)
        if not approved and not await self._read(destination, gateway, GATEWAY, "isMessageExecuted", *message[:2]):
            raise AttestationPendingError(f"the Axelar network has not approved {dispatch.transport_id} yet")
        return b""


def create_attester(sources: AttestationSources) -> AxelarApprovals:
    """Returns an attester that reads the gateways."""
    return AxelarApprovals(sources.deployment, sources.chains)
