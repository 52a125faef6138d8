"""CCIP's attester for public networks. The relayer executes a message only after CCIP's executor failed or stalled.

The verifiers' results come from CCIP's public API. CCIP's executor goes first because the message fee has
already paid for it. CCIP's own nodes deliver messages of CCIP 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from eth_utils import decode_hex
from pydantic import Field, StringConstraints

from bridge.gmps.attestation import AttestationSources, JsonDocuments, PublicHosts
from bridge.gmps.base_adapter import DeploymentReader
from bridge.gmps.ccip.adapter import is_v1
from bridge.gmps.ccip.message import FAILURE, OFF_RAMP, SUCCESS, CcipMessage, encode_results
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import AttestationPendingError, Chain, Dispatch, TerminalError

_EXECUTOR_TIMEOUT: Final = 3600  # seconds after a message was sent that are left to CCIP's own executor
_V1_TIMEOUT: Final = 4 * 3600  # seconds after which a message of CCIP 1.6 counts as undeliverable

SETTING: Final[tuple[Any, Any]] = (
    tuple[Annotated[str, StringConstraints(pattern=r"^https?://")], ...],
    Field(
        default=("https://api.ccip.chain.link",),
        description="URLs that serve `/v2/messages/ID/execution-inputs`, queried in order",
    ),
)


class CcipAttester(DeploymentReader):
    """Waits for CCIP's executor, then fetches the verifiers' results, which let any account execute the message."""

    def __init__(
        self, deployment: Deployment, chains: Mapping[int, Chain], hosts: Sequence[str], web: JsonDocuments
    ) -> None:
        """Creates an attester that queries the API hosts in order."""
        super().__init__(deployment, chains)
        self._hosts = PublicHosts(hosts, web)

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`. Returns the results of the verifiers that the receiver and the lane require.

        The attestation of an executed message has no results.

        Raises:
            TerminalError: CCIP 1.6 has not delivered the message before the timeout.
        """
        if is_v1(dispatch):
            return await self._wait_for_v1(dispatch)
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        state = await self._read(destination, message.off_ramp, OFF_RAMP, "getExecutionState", message.id)
        if state == SUCCESS:
            return encode_results([], [])
        if state != FAILURE and await self._age(dispatch) <= _EXECUTOR_TIMEOUT:
            raise AttestationPendingError(f"CCIP's executor has not executed {dispatch.transport_id} yet")
        required, optional, threshold = await self._read(
            destination, message.off_ramp, OFF_RAMP, "getCCVsForMessage", message.packed
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

    async def _wait_for_v1(self, dispatch: Dispatch) -> bytes:
        """Returns empty bytes once CCIP 1.6 has delivered the message. Waybill itself can't deliver it."""
        destination = self._deployment.chain(dispatch.destination_chain)
        arguments = (dispatch.message_id, int(dispatch.gmp))
        if await self._read(destination, destination.router, ROUTER, "hasReceived", *arguments):
            return b""
        if await self._age(dispatch) <= _V1_TIMEOUT:
            raise AttestationPendingError(f"CCIP 1.6 has not delivered {dispatch.transport_id} yet")
        raise TerminalError(
            f"CCIP 1.6 has not delivered {dispatch.transport_id} within {_V1_TIMEOUT // 3600} hours, and Waybill cannot"
            " deliver it: retry the message over another GMP, or execute it manually in CCIP's explorer"
        )

    async def _age(self, dispatch: Dispatch) -> int:
        """Returns the seconds from the dispatch to the destination's newest block, according to block timestamps."""
        sent = await self._chains[dispatch.source_chain].block(dispatch.block_number)
        head = await self._chains[dispatch.destination_chain].head()
        return 0 if sent is None else head.timestamp - sent.timestamp


def _signed(document: Any, message: CcipMessage) -> dict[str, bytes] | None:
    """Returns the verifiers' results by lower-case resolver, or None if the document is for a different message."""
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
