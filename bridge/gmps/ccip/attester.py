"""CCIP's attester for public networks: CCIP's nodes execute first, and the relayer executes after a failure or a stall.

For 1.6 the proof is computed from both chains' logs. For 2.0 the verifiers' results come from CCIP's public API. The
fee of
the route has already paid for CCIP's own execution, which is why its nodes go first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from eth_utils import decode_hex
from pydantic import Field, StringConstraints

from bridge.gmps.attestation import AttestationSources, JsonDocuments, PublicHosts
from bridge.gmps.base_adapter import DeploymentReader
from bridge.gmps.ccip.adapter import FAILURE, OFF_RAMP, SUCCESS, CcipContracts, CcipMessage, encode_proof
from bridge.gmps.ccip.proofs import CommitReader
from bridge.gmps.ccip.v2 import OFF_RAMP_V2, CcipMessageV2, encode_results, is_v2
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import AttestationPendingError, Chain, Dispatch

_EXECUTOR_TIMEOUT: Final = 3600  # seconds after a 2.0 message was sent that are left to CCIP's own executor

SETTING: Final[tuple[Any, Any]] = (
    tuple[Annotated[str, StringConstraints(pattern=r"^https?://")], ...],
    Field(
        default=("https://api.ccip.chain.link",),
        description="URLs that serve `/v2/messages/ID/execution-inputs`, asked in order",
    ),
)


class CcipAttester(DeploymentReader):
    """Waits for CCIP's nodes, then builds the attestation with which any account may execute in their place."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], hosts: Sequence[str], web: JsonDocuments
    ) -> None:
        """Queries the API hosts in order."""
        super().__init__(deployment, chains)
        self._commits = CommitReader(deployment, chains)
        self._hosts = PublicHosts(hosts, web)

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. The attestation of an executed message is empty."""
        return await (self._results(dispatch) if is_v2(dispatch) else self._proof(dispatch))

    async def _proof(self, dispatch: Dispatch) -> bytes:
        """Returns the Merkle proof of a 1.6 message."""
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        off_ramp, identity = CcipContracts.of(destination).off_ramp_v1, (message.source_selector, message.sequence)
        state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        if state == SUCCESS:
            return encode_proof([], manually=True)
        timeout = (await self._read(destination, off_ramp, OFF_RAMP, "getDynamicConfig"))[1]
        if state != FAILURE and await self._age(dispatch) <= timeout:
            raise AttestationPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        committed = await self._commits.find(dispatch)
        if committed is None:
            raise AttestationPendingError(f"CCIP's nodes have not committed {dispatch.transport_id} yet")
        root = (message.source_selector, committed.root)
        commit_time = await self._read(destination, off_ramp, OFF_RAMP, "getMerkleRoot", *root)
        head = await self._chains[dispatch.destination_chain].head()
        if state != FAILURE and head.timestamp - commit_time <= timeout:
            raise AttestationPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        return encode_proof(await self._commits.prove(dispatch, committed), manually=True)

    async def _results(self, dispatch: Dispatch) -> bytes:
        """Returns the verifiers' results for a 2.0 message that the receiver and the lane require."""
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessageV2.of_dispatch(dispatch)
        state = await self._read(destination, message.off_ramp, OFF_RAMP_V2, "getExecutionState", message.id)
        if state == SUCCESS:
            return encode_results([], [])
        if state != FAILURE and await self._age(dispatch) <= _EXECUTOR_TIMEOUT:
            raise AttestationPendingError(f"CCIP's executor has not executed {dispatch.transport_id} yet")
        required, optional, threshold = await self._read(
            destination, message.off_ramp, OFF_RAMP_V2, "getCCVsForMessage", message.packed
        )

        def read(document: Any) -> bytes | None:
            signed = _signed(document, message)
            if signed is None:
                return None
            verifiers = [*required, *[verifier for verifier in optional if verifier in signed][:threshold]]
            if len(verifiers) < len(required) + threshold or not signed.keys() >= set(verifiers):
                missing = [verifier for verifier in (*required, *optional) if verifier not in signed]
                raise AttestationPendingError(
                    f"CCIP verifiers have not signed {dispatch.transport_id} yet: {', '.join(missing)}"
                )
            return encode_results(verifiers, [signed[verifier] for verifier in verifiers])

        results = await self._hosts.find(dispatch, f"/v2/messages/{dispatch.transport_id}/execution-inputs", read)
        if results is None:
            raise AttestationPendingError(f"CCIP's API does not know {dispatch.transport_id} yet")
        return results

    async def _age(self, dispatch: Dispatch) -> int:
        """Returns the seconds from the dispatch to the destination's newest block, by the chains' clocks."""
        sent = await self._chains[dispatch.source_chain].block(dispatch.block_number)
        head = await self._chains[dispatch.destination_chain].head()
        return 0 if sent is None else head.timestamp - sent.timestamp


def _signed(document: Any, message: CcipMessageV2) -> dict[str, bytes] | None:
    """Returns the verifiers' results by resolver in lower case, or None if the document belongs to another message."""
    try:
        if decode_hex(document["encodedMessage"]) != message.packed:
            return None
        results = [decode_hex(result) for result in document.get("ccvData") or ()]
        resolvers = [str(resolver).lower() for resolver in document["verifierAddresses"]]
        return dict(zip(resolvers, results, strict=True)) if results else {}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def create_attester(sources: AttestationSources) -> CcipAttester:
    """Returns an attester that queries the API hosts that the operator configured."""
    return CcipAttester(sources.deployment, sources.chains, sources.setting, sources.web)
