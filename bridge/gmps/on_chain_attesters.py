"""GMPs whose own network brings the proof to the destination: it is waited for there, and nobody is asked elsewhere.

Axelar's network approves at the gateway, LayerZero's DVNs and committer verify at the endpoint, CCIP's nodes commit and execute.
Their public services (Axelarscan, LayerZero Scan, the CCIP explorer) tell how far a message is; none gives out what a relayer
could hand in.
"""

from __future__ import annotations

from bridge.domain.ports import Dispatch, ProofPendingError, RecipientFailedError
from bridge.gmps.axelar.adapter import GATEWAY, axelar_contracts, axelar_message
from bridge.gmps.base_adapter import DeploymentReader
from bridge.gmps.ccip.adapter import FAILURE, OFF_RAMP, SUCCESS, CcipMessage, ccip_contracts


class AxelarApprovals(DeploymentReader):
    """Waits until the gateway has the approval; then anyone may execute."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. There is nothing to hand in."""
        destination = self._deployment.chain(dispatch.destination_chain)
        gateway = axelar_contracts(destination).gateway
        message = axelar_message(self._deployment, dispatch)
        approved = await self._read(destination, gateway, GATEWAY, "isMessageApproved", *message)
        if not approved and not await self._read(destination, gateway, GATEWAY, "isMessageExecuted", *message[:2]):
            raise ProofPendingError(f"Axelar's network has not approved {dispatch.transport_id} yet")
        return b""


class LayerZeroVerifications:
    """Leaves the waiting to the adapter, which asks the endpoint whether a packet is verified before it delivers it."""

    async def attest(self, dispatch: Dispatch) -> bytes:  # noqa: ARG002  # the proof is the destination's state
        """See `Attester.attest`."""
        return b""


class CcipExecutions(DeploymentReader):
    """Waits until CCIP's own nodes have executed: only they may, and after a failure whoever has the message's proof."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. When it returns there is nothing left to deliver."""
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        identity = (message.source_selector, message.sequence)
        off_ramp = ccip_contracts(destination).off_ramp
        state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        if state == FAILURE:
            raise RecipientFailedError(
                f"CCIP message {dispatch.transport_id} failed on {destination.name}; execute it manually in the CCIP"
                " explorer, with more gas if that was the reason"
            )
        if state != SUCCESS:
            raise ProofPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        return b""
