"""Wormhole's attester: fetches signed VAAs from Wormholescan, or from any service with the guardians' REST API."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from bridge.gmps.attestation import AttestationSources, JsonDocuments, PublicHosts
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.protocol.deployment import Deployment
from bridge.protocol.ports import AttestationPendingError, Dispatch

_HEADER = 6  # version, guardian set, number of signatures
_SIGNATURE = 66  # guardian's index, r, s, recovery id
_BODY = 51  # timestamp, nonce, emitter chain, emitter, sequence, consistency level; then the payload

SETTING: Final[tuple[Any, Any]] = (
    tuple[Annotated[str, StringConstraints(pattern=r"^https?://")], ...],
    Field(
        default=("https://api.wormholescan.io",),
        description="URLs that serve `/v1/signed_vaa`, queried in order; on testnets by default"
        " `https://api.testnet.wormholescan.io`",
    ),
)
# Testnets have guardians of their own.
ON_TESTNETS: Final = ("https://api.testnet.wormholescan.io",)


class WormholeVaas:
    """Fetches VAAs and checks that they belong to the message. The core contract checks their signatures."""

    def __init__(self, deployment: Deployment, hosts: Sequence[str], web: JsonDocuments) -> None:
        """Creates an attester that queries the hosts in order."""
        self._deployment = deployment
        self._hosts = PublicHosts(hosts, web)

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`."""
        chain = WormholeContracts.of(self._deployment.chain(dispatch.source_chain)).chain_id
        emitter, sequence = str(dispatch.evidence["emitter"]), int(dispatch.evidence["sequence"])

        def read(document: Any) -> bytes | None:
            vaa = _vaa(document)
            is_expected = vaa is not None and _is_of(vaa, chain, bytes.fromhex(emitter), sequence, dispatch.envelope)
            return vaa if is_expected else None

        vaa = await self._hosts.find(dispatch, f"/v1/signed_vaa/{chain}/{emitter}/{sequence}", read)
        if vaa is None:
            raise AttestationPendingError(f"the guardians have not signed {dispatch.transport_id} yet")
        return vaa


def _vaa(document: Any) -> bytes | None:
    try:
        return base64.b64decode(document["vaaBytes"], validate=True)
    except (KeyError, TypeError, ValueError):
        return None


def _is_of(vaa: bytes, chain: int, emitter: bytes, sequence: int, payload: bytes) -> bool:
    if len(vaa) < _HEADER or vaa[0] != 1:
        return False
    body = vaa[_HEADER + _SIGNATURE * vaa[5] :]
    stated = chain.to_bytes(2, "big") + emitter + sequence.to_bytes(8, "big")
    return body[8 : _BODY - 1] == stated and body[_BODY:] == payload


def create_attester(sources: AttestationSources) -> WormholeVaas:
    """Returns an attester for the hosts that the operator configured."""
    return WormholeVaas(sources.deployment, sources.setting, sources.web)
