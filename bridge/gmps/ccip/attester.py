"""CCIP on a public network: its own nodes execute on the destination, whose off-ramp is asked.

CCIP's SDK and API have proofs for a manual execution. None is fetched here: a person executes what failed.
"""

from __future__ import annotations

from bridge.domain.ports import Dispatch, ProofPendingError, RecipientFailedError
from bridge.gmps.attestation import AttestationSources
from bridge.gmps.base_adapter import DeploymentReader
from bridge.gmps.ccip.adapter import FAILURE, OFF_RAMP, SUCCESS, CcipContracts, CcipMessage
from bridge.gmps.ccip.v2 import OFF_RAMP_V2, CcipMessageV2, encode_results, is_v2


class CcipExecutions(DeploymentReader):
    """Waits until CCIP's own nodes have executed. After a failure any account may, with the message's proof."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. When it returns there is nothing left to deliver."""
        destination = self._deployment.chain(dispatch.destination_chain)
        state = await self._state(dispatch)
        if state == FAILURE:
            raise RecipientFailedError(
                f"CCIP message {dispatch.transport_id} failed on {destination.name}; execute it manually in the CCIP"
                " explorer, with more gas if that was the reason"
            )
        if state != SUCCESS:
            raise ProofPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        return encode_results([], []) if is_v2(dispatch) else b""

    async def _state(self, dispatch: Dispatch) -> int:
        """How far the message's off-ramp is with it, by the version that its lane runs."""
        destination = self._deployment.chain(dispatch.destination_chain)
        if is_v2(dispatch):
            one = CcipMessageV2.of_dispatch(dispatch)
            state: int = await self._read(destination, one.off_ramp, OFF_RAMP_V2, "getExecutionState", one.id)
        else:
            message, off_ramp = CcipMessage.of_dispatch(dispatch), CcipContracts.of(destination).off_ramp
            identity = (message.source_selector, message.sequence)
            state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        return state


def create_attester(sources: AttestationSources) -> CcipExecutions:
    """Asks off-ramps."""
    return CcipExecutions(sources.deployment, sources.chains)
