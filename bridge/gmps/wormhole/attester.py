"""Wormhole: the guardians' signatures, as their REST interface and Wormholescan give them out."""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from bridge.domain.ports import Dispatch, ProofPendingError, TransientError, UnansweredError
from bridge.gmps.attestation import AttestationSources, JsonDocuments
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.protocol.deployment import Deployment

_HEADER = 6  # version, guardian set, number of signatures
_SIGNATURE = 66  # guardian's index, r, s, recovery id
_REMEMBERED: Final = 10_000  # transport ids
_BODY = 51  # timestamp, nonce, emitter chain, emitter, sequence, consistency level; then the payload

SETTING: Final[tuple[Any, Any]] = (
    tuple[Annotated[str, StringConstraints(pattern=r"^https?://")], ...],
    Field(default=("https://api.wormholescan.io",), description="URLs that serve `/v1/signed_vaa`, asked in order"),
)


class WormholeVaas:
    """Fetches VAAs. The core checks their signatures; that one belongs to the message is checked here."""

    def __init__(self, deployment: Deployment, hosts: Sequence[str], web: JsonDocuments) -> None:
        """Asks the hosts in their order. One whose VAA did not do is asked last the next time: its signatures may be false."""
        self._deployment = deployment
        self._hosts = hosts
        self._web = web
        self._believed: OrderedDict[str, int] = OrderedDict()  # transport id: the host whose VAA was given out

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`."""
        chain = WormholeContracts.of(self._deployment.chain(dispatch.source_chain)).chain_id
        emitter, sequence = str(dispatch.evidence["emitter"]), int(dispatch.evidence["sequence"])
        problems, is_silent = [], True
        first = self._believed.get(dispatch.transport_id, -1) + 1
        for number in (*range(first, len(self._hosts)), *range(min(first, len(self._hosts)))):
            url = f"{self._hosts[number].rstrip('/')}/v1/signed_vaa/{chain}/{emitter}/{sequence}"
            try:
                found = await self._web.json(url)
            except UnansweredError as error:
                problems.append(str(error))
                continue
            if found is None:
                continue
            vaa = _vaa(found)
            if vaa is not None and _is_of(vaa, chain, bytes.fromhex(emitter), sequence, dispatch.envelope):
                self._believed[dispatch.transport_id] = number
                if len(self._believed) > _REMEMBERED:
                    self._believed.popitem(last=False)
                return vaa
            problems.append(f"{url} is not the VAA of this message")
            is_silent = False
        if problems:
            raise UnansweredError("; ".join(problems)) if is_silent else TransientError("; ".join(problems))
        raise ProofPendingError(f"the guardians have not signed {dispatch.transport_id} yet")


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
    """Guardians, as an operator named them."""
    return WormholeVaas(sources.deployment, sources.setting, sources.web)
