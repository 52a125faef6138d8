"""GMPs whose own network brings the proof to the destination: it is waited for there, and nobody is asked elsewhere.

Axelar's network approves at the gateway, LayerZero's DVNs and committer verify at the endpoint, CCIP's nodes commit and execute.
Their public services (Axelarscan, LayerZero Scan, the CCIP explorer) tell how far a message is; none gives out what a relayer
could hand in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.adapters.axelar import GATEWAY, axelar_contracts, axelar_message
from bridge.adapters.ccip import FAILURE, OFF_RAMP, SUCCESS, CcipMessage, ccip_contracts
from bridge.ports import Chain, Dispatch, ProofPendingError, RecipientFailedError, read_view
from bridge.protocol.contracts import Contract
from bridge.protocol.deployment import ChainDeployment, Deployment


class _Reader:
    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain]) -> None:
        """Reads the chains of a deployment."""
        self._deployment = deployment
        self._chains = chains

    async def _read(
        self, chain: ChainDeployment, address: str, contract: Contract, function: str, *arguments: Any
    ) -> Any:
        return await read_view(self._chains[chain.chain_id], contract, address, function, *arguments)


class AxelarApprovals(_Reader):
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


class CcipExecutions(_Reader):
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
