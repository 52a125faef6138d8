"""Wormhole's adapter: `LogMessagePublished` on the source, a signed VAA passed to the adapter on the destination."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.protocol.contracts import ROUTER, contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, CallRevertedError, Dispatch, Log, Watch

_RECEIVER: Final = contract("deliver(bytes)")

_PUBLISHED: Final = topic("LogMessagePublished(address,uint64,uint32,bytes,uint8)")

_FINALIZED: Final = 1  # consistency level: guardians wait for finality
IMMEDIATE: Final = 200  # consistency level: guardians sign at once


class WormholeContracts(GmpContracts):
    """Wormhole's core contract on one chain. `chain_id` is Wormhole's identifier of the chain."""

    GMP = Gmp.WORMHOLE
    ADAPTER = "WormholeAdapter"
    NUMBER = "chain_id"
    NUMBER_OF = ("wormholeIdOf", "uint16")
    ARGUMENTS = (("address", "core"), ("uint8", "consistency_level"))
    ASKED_FOR_NUMBER = ("core", "chainId")
    VERIFIED_BY = (
        "Wormhole's guardians (13 of 19 on mainnets, a separate set on testnets), which applications cannot choose"
    )

    chain_id: int
    core: Address
    consistency_level: int = Field(default=_FINALIZED, ge=0, le=255)
    """When guardians sign: 1 when the block is final, 201 when it is safe, 200 at once; on BSC a number of blocks."""


class WormholeAdapter(BaseAdapter):
    """Delivers signed VAAs.

    The core contract keeps no replay state, so only the router's receipt shows whether a message is delivered.
    """

    CONTRACTS = WormholeContracts
    DELIVERY_GAS = 350_000

    def _watch(self, source: ChainDeployment) -> Watch:
        return Watch((WormholeContracts.of(source).core,), (_PUBLISHED,))

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        contracts = WormholeContracts.of(source)
        values = read_event(log, contracts.core, _PUBLISHED, ["uint64", "uint32", "bytes", "uint8"], indexed=1)
        if values is None or log.topics[1] not in source.senders(self.gmp):
            return None
        emitter, (sequence, nonce, envelope, consistency_level) = log.topics[1], values
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
        return self._delivery(
            self._deployment.chain(dispatch.destination_chain).adapter(self.gmp), dispatch, attestation
        )

    async def _simulated(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """Falls back to the router's current adapter if the known one was replaced.

        A VAA contains no destination, so any adapter of the router can deliver it.
        """
        try:
            return await super()._simulated(dispatch, attestation)
        except CallRevertedError:
            destination = self._deployment.chain(dispatch.destination_chain)
            current = await self._read(destination, destination.router, ROUTER, "adapterOf", int(self.gmp))
            if int(current, 16) == 0 or current.lower() == destination.adapter(self.gmp).lower():
                raise
        call = self._delivery(current, dispatch, attestation)
        await self._chains[destination.chain_id].call(call)
        return call

    def _delivery(self, adapter: str, dispatch: Dispatch, attestation: bytes) -> Call:
        data = _RECEIVER.encode("deliver", attestation)
        return self._with_gas(Call(to=adapter, data=data, by_anyone=True), dispatch.envelope)


ADAPTER: Final = WormholeAdapter
