"""A GMP of the simulation, as the bridge sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from bridge.evm.routers import RouterReader
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import decode_envelope
from bridge.protocol.ports import (
    Call,
    CallRevertedError,
    Chain,
    Dispatch,
    Log,
    TransientError,
    TransportUsedError,
    Watch,
)
from tests.support.simulation.contracts import (
    APPROVE,
    DELIVER,
    DISPATCHED,
    NOT_APPROVED,
    NUMBER_USED,
    ROUTER_ADDRESS,
    gmp_address,
    proof_of,
)

DELIVERY_GAS: Final = 200_000


class SimulatedAdapter:
    """See `bridge.protocol.ports.Adapter`."""

    def __init__(self, gmp: Gmp, chains: Mapping[int, Chain], down: Collection[Gmp] = ()) -> None:
        """Delivers to those chains; while it is among those that are `down`, the GMP gives no attestations."""
        self._gmp = gmp
        self._chains = chains
        self._down = down

    @property
    def gmp(self) -> Gmp:
        """See `Adapter.gmp`."""
        return self._gmp

    def watch(self, chain_id: int) -> Watch:
        """See `Adapter.watch`."""
        return Watch((gmp_address(self._gmp),), (DISPATCHED,))

    def dispatches(self, chain_id: int, logs: Sequence[Log]) -> list[Dispatch]:
        """See `Adapter.dispatches`."""
        found = []
        for log in logs:
            message = decode_envelope(log.data).message
            found.append(
                Dispatch(
                    gmp=self._gmp,
                    message_id=message.id,
                    source_chain=chain_id,
                    destination_chain=message.destination_chain,
                    envelope=log.data,
                    transport_id=f"{log.block_number}-{log.log_index}",
                    block_number=log.block_number,
                    block_hash=log.block_hash,
                    transaction_hash=log.transaction_hash,
                    log_index=log.log_index,
                    evidence={"block": log.block_number},
                )
            )
        return found

    def delivery_gas(self, envelope: bytes) -> int:
        """See `Adapter.delivery_gas`."""
        return DELIVERY_GAS

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Adapter.attest`."""
        if self._gmp in self._down:
            raise TransientError(f"{self._gmp.label} gives no proof now")
        return proof_of(self._gmp, dispatch.envelope)

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """See `Adapter.next_call`."""
        chain = self._chains[dispatch.destination_chain]
        if await RouterReader(chain, ROUTER_ADDRESS).has_received(dispatch.message_id, self._gmp):
            return None
        deliver = self._call(DELIVER, dispatch, attestation)
        try:
            await chain.call(deliver)
        except CallRevertedError as error:
            if error.data == NOT_APPROVED:
                return self._call(APPROVE, dispatch, attestation)
            if error.data == NUMBER_USED:
                raise TransportUsedError(f"{self._gmp.label} has delivered another message with that number") from error
            raise
        return deliver

    def _call(self, action: bytes, dispatch: Dispatch, attestation: bytes) -> Call:
        return Call(
            to=gmp_address(self._gmp), data=action + attestation + dispatch.envelope, gas=DELIVERY_GAS, by_anyone=True
        )
