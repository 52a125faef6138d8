"""Whom Axelar rests on: the weighted signers of the gateway on the destination."""

from __future__ import annotations

from typing import Any, Final

from eth_abi.abi import decode
from eth_utils import keccak
from eth_utils.address import to_checksum_address

from bridge.domain.trust import Finality, GmpEnds, GmpTrust, NotReadableError, Quorum
from bridge.evm.inspection import Inspector
from bridge.gmps.trust import BaseTrustReader, watch
from bridge.protocol.contracts import contract, topic
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.gmps import Gmp

_GATEWAY: Final = contract(
    "epoch() returns (uint256)",
    "signersHashByEpoch(uint256) returns (bytes32)",
    "lastRotationTimestamp() returns (uint256)",
    "previousSignersRetention() returns (uint256)",
    "minimumRotationDelay() returns (uint256)",
    "operator() returns (address)",
)
_SIGNERS: Final = "((address,uint128)[],uint128,bytes32)"
_ROTATED: Final = topic("SignersRotated(uint256,bytes32,bytes)")
_EVENTS: Final = (_ROTATED, *map(topic, ("OperatorshipTransferred(address)", "OwnershipTransferred(address)")))


class AxelarTrust(BaseTrustReader):
    """Reads the destination's Amplifier gateway. It keeps a hash of its signers: an event names them."""

    async def read(self, ends: GmpEnds) -> GmpTrust:
        """See `TrustReader.read`."""
        chain, gateway = self._on(ends.destination), await self._transport(ends)
        epoch = await chain.read(_GATEWAY, gateway, "epoch")
        signers, threshold = await _signers(chain, gateway, epoch)
        retention = await chain.read(_GATEWAY, gateway, "previousSignersRetention")
        operator = await chain.read(_GATEWAY, gateway, "operator")
        controls = [
            *await chain.owner_of("gateway", gateway, "upgrades the gateway", forges=True),
            *await chain.proxy_admin_of("gateway", gateway),
            await chain.control(
                "gateway", gateway, "operator", operator, "rotates signers without delay, by their proof", forges=False
            ),
        ]
        config: dict[str, Any] = {
            "gateway": gateway,
            "implementation": await chain.implementation(gateway),
            "signers": [{"address": address, "weight": weight} for weight, address in signers],
            "threshold": threshold,
            "previousSignersRetention": retention,
            "minimumRotationDelay": await chain.read(_GATEWAY, gateway, "minimumRotationDelay"),
        }
        older = min(retention, epoch - 1)
        note = f"the gateway also takes proofs of the last {older} sets of signers; they are not counted here"
        return GmpTrust(
            gmp=Gmp.AXELAR,
            config=config,
            verifiers=Quorum(threshold, signers),
            controls=tuple(controls),
            finality=Finality("what each verifier has set for itself, which is not on chain"),
            stops=("Axelar's owner may pause the gateway",),
            notes=(note,) if older else (),
            watch={ends.destination.chain_id: watch([gateway], _EVENTS)},
        )


async def _signers(chain: Inspector, gateway: str, epoch: int) -> tuple[tuple[tuple[int, str], ...], int]:
    """Weights with addresses, and the threshold, of the newest set: proven by the hash that the gateway keeps."""
    expected = await chain.read(_GATEWAY, gateway, "signersHashByEpoch", epoch)
    rotated = await chain.read(_GATEWAY, gateway, "lastRotationTimestamp")
    head = await chain.chain.head()
    first = await _first_at(chain, rotated, head.number)
    last = await _first_at(chain, rotated + 1, head.number)
    for log in await chain.chain.logs(first, last, [gateway], [_ROTATED]):
        try:
            (encoded,) = decode(["bytes"], log.data)
            ((members, threshold, _),) = decode([_SIGNERS], encoded)
        except UNDECODABLE:
            continue
        if keccak(encoded) == expected:
            return tuple(sorted((weight, to_checksum_address(one)) for one, weight in members)), threshold
    raise NotReadableError(f"no event of {gateway} on {chain.name} names the signers of epoch {epoch}")


async def _first_at(chain: Inspector, time: int, head: int) -> int:
    """The first block that is not older than a time in Unix seconds, or the head: by halving."""
    low, high = 0, head
    while low < high:
        middle = (low + high) // 2
        block = await chain.chain.block(middle)
        if block is None or block.timestamp >= time:
            high = middle
        else:
            low = middle + 1
    return low


READER: Final = AxelarTrust
