"""Whom Wormhole rests on: the guardians whose signatures the core on the destination takes."""

from __future__ import annotations

from typing import Any, Final

from eth_utils.address import to_checksum_address

from bridge.domain.trust import Finality, GmpEnds, GmpTrust, any_of, at_least
from bridge.gmps.trust import BaseTrustReader, watch
from bridge.protocol.contracts import contract, topic
from bridge.protocol.gmps import Gmp

_CORE: Final = contract(
    "getCurrentGuardianSetIndex() returns (uint32)",
    "getGuardianSet(uint32) returns ((address[],uint32))",
    "quorum(uint256) returns (uint256)",
)
_ADAPTER: Final = contract("consistencyLevel() returns (uint8)")
_EVENTS: Final = tuple(map(topic, ("GuardianSetAdded(uint32)", "ContractUpgraded(address,address)")))

# Wormhole's numbers for how final a message must be; all others are final, or a contract of the sender's says it.
_LEVELS: Final = {
    200: Finality("instant: the guardians sign what no block covers yet", blocks=0),
    201: Finality("safe blocks", tag="safe"),
    203: Finality("a contract of the emitter's own says it"),
}


class WormholeTrust(BaseTrustReader):
    """Reads the destination's core, and the level that the source's adapter asks for."""

    async def read(self, ends: GmpEnds) -> GmpTrust:
        """See `TrustReader.read`."""
        chain, core = self._on(ends.destination), await self._transport(ends)
        index = await chain.read(_CORE, core, "getCurrentGuardianSetIndex")
        now = (await chain.chain.head()).timestamp
        sets: list[dict[str, Any]] = []
        for number in range(max(0, index - 1), index + 1):  # a set that was replaced is believed until it expires
            keys, expires = await chain.read(_CORE, core, "getGuardianSet", number)
            if number == index or expires > now:
                quorum = await chain.read(_CORE, core, "quorum", len(keys))
                guardians = sorted(map(to_checksum_address, keys))
                sets.append({"index": number, "guardians": guardians, "quorum": quorum})
        level = await self._on(ends.source).read(_ADAPTER, ends.source_adapter, "consistencyLevel")
        sets_of = [at_least(one["quorum"], one["guardians"]) for one in sets]
        config = {
            "core": core,
            "implementation": await chain.implementation(core),
            "guardianSets": sets,
            "consistencyLevel": level,
        }
        return GmpTrust(
            gmp=Gmp.WORMHOLE,
            config=config,
            verifiers=sets_of[0] if len(sets_of) == 1 else any_of(sets_of),
            controls=tuple(await chain.proxy_admin_of("core", core)),
            finality=_LEVELS.get(level, Finality("final blocks", tag="finalized")),
            notes=("the guardians' quorum also replaces the guardians and upgrades the core",),
            watch={ends.destination.chain_id: watch([core], _EVENTS)},
        )


READER: Final = WormholeTrust
