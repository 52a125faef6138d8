"""Wormhole's core: `LogMessagePublished` on the source, a signed VAA to the adapter on the destination."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from bridge.domain.ports import Call, Dispatch, Log, Watch
from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.gmps import Gmp

_RECEIVER: Final = contract("deliver(bytes)")

_PUBLISHED: Final = topic("LogMessagePublished(address,uint64,uint32,bytes,uint8)")


_FINALIZED: Final = 1  # Wormhole's number for: the guardians wait until the block is final
IMMEDIATE: Final = 200  # they do not wait at all


class WormholeContracts(GmpContracts):
    """Wormhole's core on one chain; `chain_id` is Wormhole's own number for it."""

    GMP = Gmp.WORMHOLE
    ADAPTER = "WormholeAdapter"
    HAS_EXECUTOR = False
    NUMBER_OF = ("wormholeIdOf", "uint16")
    ASKED_FOR_NUMBER = ("core", "chainId")
    VERIFIED_BY = "13 of Wormhole's 19 guardians, whom no application chooses"

    chain_id: int
    core: Address
    consistency_level: int = Field(default=_FINALIZED, ge=0, le=255)
    """When guardians sign: 1 once the block is final, 201 once it is safe, 200 at once; on BSC after so many blocks."""

    @property
    def number(self) -> int:
        """See `GmpContracts.number`."""
        return self.chain_id

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """See `GmpContracts.arguments`."""
        return (("address", self.core), ("uint8", self.consistency_level))


class WormholeAdapter(BaseAdapter):
    """The core keeps no replay state and a VAA names no destination: the router's receipt says whether it is delivered."""

    CONTRACTS = WormholeContracts
    DELIVERY_GAS = 350_000

    def _watch(self, source: ChainDeployment) -> Watch:
        return Watch((WormholeContracts.of(source).core,), (_PUBLISHED,))

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        contracts, emitter = WormholeContracts.of(source), to_bytes32(source.adapter(self.gmp))
        values = read_event(log, contracts.core, _PUBLISHED, ["uint64", "uint32", "bytes", "uint8"], indexed=1)
        if values is None or log.topics[1] != emitter:
            return None
        sequence, nonce, envelope, consistency_level = values
        return self._dispatch(
            source,
            log,
            envelope,
            f"{contracts.chain_id}/{emitter.hex()}/{sequence}",
            emitter=emitter.hex(),
            sequence=sequence,
            nonce=nonce,
            consistency_level=consistency_level,
        )

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        adapter = self._deployment.chain(dispatch.destination_chain).adapter(self.gmp)
        data = _RECEIVER.encode("deliver", attestation)
        return self._with_gas(Call(to=adapter, data=data, by_anyone=True), dispatch.envelope)


ADAPTER: Final = WormholeAdapter
