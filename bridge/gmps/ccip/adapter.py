"""CCIP's adapter: `CCIPMessageSent` on the source, `OffRamp.execute` on the destination.

The adapter recognises lanes of CCIP 1.6, but only CCIP's own nodes deliver their messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.gmps.ccip.message import (
    FAILURE,
    MESSAGE_SENT,
    OFF_RAMP,
    SUCCESS,
    CcipMessage,
    decode_results,
)
from bridge.gmps.ccip.ramps import find_on_ramps, wrong_selector
from bridge.gmps.ccip.verification import CcipVerifiers
from bridge.protocol.addresses import from_bytes32, to_bytes32
from bridge.protocol.contracts import topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Chain, Dispatch, Log, Watch

_HEADER_V1: Final = "(bytes32,uint64,uint64,uint64,uint64)"  # the message id, the selectors of both chains, counters
_SENT_V1: Final = (
    f"({_HEADER_V1},address,bytes,bytes,bytes,address,uint256,uint256,(address,bytes,bytes,uint256,bytes)[])"
)
MESSAGE_SENT_V1: Final = topic(f"CCIPMessageSent(uint64,uint64,{_SENT_V1})")

# Gas limit of a transaction under EIP-7825.
_MAX_GAS: Final = 2**24
# A failed execution is retried with a multiple of its gas limit, in case it ran out of gas.
_GAS_FACTOR: Final = 2
# Upper bound of the gas per verifier result: the committee's signatures and their calldata.
_RESULT_GAS: Final = 150_000


class CcipContracts(GmpContracts):
    """CCIP's contracts on one chain. `selector` is CCIP's identifier of the chain."""

    GMP = Gmp.CCIP
    ADAPTER = "CcipAdapter"
    NUMBER = "selector"
    NUMBER_OF = ("selectorOf", "uint64")
    ARGUMENTS = (("address", "router"),)
    VERIFICATION = CcipVerifiers
    VERIFIED_BY = "the lane's committee of Chainlink nodes, which Chainlink may change"

    selector: int = Field(gt=0, lt=2**64)
    router: Address
    # Optional in a network file: `waybill deploy` reads missing on-ramps from CCIP's router.
    on_ramp: Address | None = None
    on_ramp_v1: Address | None = None  # of lanes that still run CCIP 1.6

    async def look_up(self, chain: Chain, others: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
        """See `GmpContracts.look_up`."""
        ramps = {"onRamp": self.on_ramp, "onRampV1": self.on_ramp_v1}
        configured = {key: ramp for key, ramp in ramps.items() if ramp}
        resolved, problems = await find_on_ramps(chain, self.router, configured, others)
        return resolved, problems + await wrong_selector(chain, self.selector, resolved)


class CcipAdapter(BaseAdapter):
    """Executes messages at the off-ramp, with the verifiers' results as the attestation.

    A delivery that the receiver rejects does not revert: the off-ramp records a failure, and anyone may then execute
    the message again, with more gas.
    """

    CONTRACTS = CcipContracts
    DELIVERY_GAS = 300_000

    def _watch(self, source: ChainDeployment) -> Watch:
        contracts = CcipContracts.of(source)
        watched = ((contracts.on_ramp, MESSAGE_SENT), (contracts.on_ramp_v1, MESSAGE_SENT_V1))
        return Watch(tuple(ramp for ramp, _ in watched if ramp), tuple(event for ramp, event in watched if ramp))

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        on_ramp = CcipContracts.of(source).on_ramp
        # Other senders' messages may have unknown encodings, so the sender is checked by its topic before decoding.
        if log.topics[:1] != (MESSAGE_SENT,):
            return self._read_v1(source, log)
        if on_ramp is None or len(log.topics) != 4 or log.topics[2] not in source.senders(self.gmp):
            return None
        message = CcipMessage.of_log(log, on_ramp)
        if message is None or to_bytes32(message.sender) != log.topics[2]:
            return None
        identity, header = f"0x{message.id.hex()}", f"0x{message.header.hex()}"
        return self._dispatch(source, log, message.data, identity, message.destination_selector, header=header)

    def _read_v1(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        on_ramp = CcipContracts.of(source).on_ramp_v1
        values = read_event(log, on_ramp, MESSAGE_SENT_V1, [_SENT_V1], indexed=2) if on_ramp else None
        if values is None:
            return None
        (message_id, _, destination, _, _), sender, envelope, receiver, *_ = values[0]
        if to_bytes32(sender) not in source.senders(self.gmp):
            return None
        receiver = from_bytes32(receiver)
        return self._dispatch(source, log, envelope, f"0x{message_id.hex()}", destination, receiver=receiver)

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """Returns the next execution of a message.

        If the verifiers or the receiver fail, the off-ramp records the failure instead of reverting, so its
        inner call is simulated first.
        """
        if is_v1(dispatch):
            return None
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessage.of_dispatch(dispatch)
        state = await self._read(destination, message.off_ramp, OFF_RAMP, "getExecutionState", message.id)
        if state == SUCCESS:
            return None
        resolvers, results = decode_results(attestation)
        gas_limit = _raised_gas_limit(message.gas_limit) if state == FAILURE else message.gas_limit
        override = gas_limit if state == FAILURE else 0
        gas = self._gas(gas_limit + _RESULT_GAS * len(results), dispatch.envelope)
        inner = ("executeSingleMessage", message.to_tuple(), message.id, resolvers, results, override)
        await self._chains[destination.chain_id].call(
            Call(to=message.off_ramp, data=OFF_RAMP.encode(*inner), gas=gas), sender=message.off_ramp
        )
        data = OFF_RAMP.encode("execute", message.packed, resolvers, results, override)
        return Call(to=message.off_ramp, data=data, gas=gas)

    def _gas(self, gas_limit: int, envelope: bytes) -> int:
        """Returns the gas that leaves `gas_limit` for the receiver.

        Up to three nested calls each retain 1/64 of their gas.
        """
        needed = self.DELIVERY_GAS + self.DELIVERY_GAS_PER_BYTE * len(envelope) + gas_limit * 105 // 100
        return min(needed, _MAX_GAS)


def is_v1(dispatch: Dispatch) -> bool:
    """Returns whether a dispatch went through a lane of CCIP 1.6."""
    return "header" not in dispatch.evidence


def _raised_gas_limit(gas_limit: int) -> int:
    return max(gas_limit, min(gas_limit * _GAS_FACTOR, _MAX_GAS // 2))


ADAPTER: Final = CcipAdapter
