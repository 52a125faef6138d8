"""CCIP on a public network: its own nodes execute, and after a failure or a stall the relayer does, with a proof.

Of 1.6 the proof is computed from both chains' logs. Of 2.0 it is what verifiers signed, from CCIP's public API. The route's fee
pays CCIP's executor, so it goes first.
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

_EXECUTORS_TIME: Final = 3600  # seconds from a message of 2.0 on that CCIP's own executor has

SETTING: Final[tuple[Any, Any]] = (
    tuple[Annotated[str, StringConstraints(pattern=r"^https?://")], ...],
    Field(
        default=("https://api.ccip.chain.link",),
        description="URLs that serve `/v2/messages/ID/execution-inputs`, asked in order",
    ),
)


class CcipAttester(DeploymentReader):
    """Waits for CCIP's own nodes, and finds the proof with which any account may execute in their place."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], hosts: Sequence[str], web: JsonDocuments
    ) -> None:
        """Asks the hosts of CCIP's API in their order."""
        super().__init__(deployment, chains)
        self._commits = CommitReader(deployment, chains)
        self._hosts = PublicHosts(hosts, web)

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. Once it is executed there is nothing left to prove."""
        return await (self._results(dispatch) if is_v2(dispatch) else self._proof(dispatch))

    async def _proof(self, dispatch: Dispatch) -> bytes:
        """Of 1.6: the way up to the committed root."""
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        off_ramp, identity = CcipContracts.of(destination).off_ramp_v1, (message.source_selector, message.sequence)
        state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        if state == SUCCESS:
            return encode_proof([], manually=True)
        waits = (await self._read(destination, off_ramp, OFF_RAMP, "getDynamicConfig"))[1]
        if state != FAILURE and await self._age(dispatch) <= waits:
            raise AttestationPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        committed = await self._commits.find(dispatch)
        if committed is None:
            raise AttestationPendingError(f"CCIP's nodes have not committed {dispatch.transport_id} yet")
        root = (message.source_selector, committed.root)
        accepted = await self._read(destination, off_ramp, OFF_RAMP, "getMerkleRoot", *root)
        head = await self._chains[dispatch.destination_chain].head()
        if state != FAILURE and head.timestamp - accepted <= waits:
            raise AttestationPendingError(f"CCIP's nodes have not executed {dispatch.transport_id} yet")
        return encode_proof(await self._commits.prove(dispatch, committed), manually=True)

    async def _results(self, dispatch: Dispatch) -> bytes:
        """Of 2.0: what the verifiers signed that the receiver and the lane demand."""
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessageV2.of_dispatch(dispatch)
        state = await self._read(destination, message.off_ramp, OFF_RAMP_V2, "getExecutionState", message.id)
        if state == SUCCESS:
            return encode_results([], [])
        if state != FAILURE and await self._age(dispatch) <= _EXECUTORS_TIME:
            raise AttestationPendingError(f"CCIP's executor has not executed {dispatch.transport_id} yet")
        required, optional, threshold = await self._read(
            destination, message.off_ramp, OFF_RAMP_V2, "getCCVsForMessage", message.packed
        )

        def read(document: Any) -> bytes | None:
            signed = _signed(document, message)
            if signed is None:
                return None
            chosen = [*required, *[one for one in optional if one in signed][:threshold]]
            if len(chosen) < len(required) + threshold or not signed.keys() >= set(chosen):
                lacking = [one for one in (*required, *optional) if one not in signed]
                raise AttestationPendingError(
                    f"{', '.join(lacking)} of CCIP's verifiers have not signed {dispatch.transport_id} yet"
                )
            return encode_results(chosen, [signed[one] for one in chosen])

        found = await self._hosts.find(dispatch, f"/v2/messages/{dispatch.transport_id}/execution-inputs", read)
        if found is None:
            raise AttestationPendingError(f"CCIP's API does not know {dispatch.transport_id} yet")
        return found

    async def _age(self, dispatch: Dispatch) -> int:
        """Seconds from the dispatch to the destination's newest block, by the chains' own clocks."""
        sent = await self._chains[dispatch.source_chain].block(dispatch.block_number)
        head = await self._chains[dispatch.destination_chain].head()
        return 0 if sent is None else head.timestamp - sent.timestamp


def _signed(document: Any, message: CcipMessageV2) -> dict[str, bytes] | None:
    """What verifiers signed by their resolver, in lower case; None of a document that is not of the message."""
    try:
        if decode_hex(document["encodedMessage"]) != message.packed:
            return None
        results = [decode_hex(result) for result in document.get("ccvData") or ()]
        resolvers = [str(resolver).lower() for resolver in document["verifierAddresses"]]
        return dict(zip(resolvers, results, strict=True)) if results else {}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def create_attester(sources: AttestationSources) -> CcipAttester:
    """Off-ramps, both chains' logs, and CCIP's API, as an operator named it."""
    return CcipAttester(sources.deployment, sources.chains, sources.setting, sources.web)
