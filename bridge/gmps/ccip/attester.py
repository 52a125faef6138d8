"""CCIP 1.6: its own nodes commit and execute on the destination, whose off-ramp is asked.

The CCIP explorer says how far a message is; it gives out nothing that a relayer could hand in.
"""

from __future__ import annotations

from bridge.domain.ports import Dispatch, ProofPendingError, RecipientFailedError
from bridge.gmps.attestation import AttestationSources
from bridge.gmps.base_adapter import DeploymentReader
from bridge.gmps.ccip.adapter import FAILURE, OFF_RAMP, SUCCESS, CcipContracts, CcipMessage


class CcipExecutions(DeploymentReader):
    """Waits until CCIP's own nodes have executed: only they may, and after a failure an account with the message's proof."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. When it returns there is nothing left to deliver."""
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        identity = (message.source_selector, message.sequence)
        off_ramp = CcipContracts.of(destination).off_ramp
        state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        if state == FAILURE:
            raise RecipientFailedError(
                f"CCIP message {dispatch.transport_id} failed on {destination.name}; execute it manually in the CCIP"
                " explorer, with more gas if that was the reason"
            )
        if state != SUCCESS:
            raise ProofPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        return b""


def create_attester(sources: AttestationSources) -> CcipExecutions:
    """Asks off-ramps."""
    return CcipExecutions(sources.deployment, sources.chains)
